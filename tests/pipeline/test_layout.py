"""Tables that are laid out by day: a reader of one day or group opens little else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from coterie_pipeline.layout import BY_DAY, write_table

_DAY_MS = 86_400_000
_GROUPS = 40


@pytest.fixture
def by_day(spark: SparkSession) -> SparkSession:
    """A session that lays tables out by day."""
    session = spark.newSession()
    session.conf.set(BY_DAY, "true")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    # So that little data stays in as many files as there are partitions.
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def rows() -> list[Row]:
    """An hour of each group in each of three days."""
    return [
        Row(group=f"g{group:02}", hour_ms=day * _DAY_MS + 5, commits=group)
        for group in range(_GROUPS)
        for day in range(3)
    ]


def test_a_day_is_a_folder(by_day: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "commits"
    write_table("commits", by_day.createDataFrame(rows()), str(path))
    folders = sorted(each.name for each in path.iterdir() if each.is_dir())
    assert folders == ["day=1970-01-01", "day=1970-01-02", "day=1970-01-03"]
    with duckdb.connect() as database:
        whole = database.read_parquet(f"{path}/**/*.parquet", hive_partitioning=True)
        assert len(whole.filter("day = DATE '1970-01-02'").fetchall()) == _GROUPS


def test_a_group_is_in_one_file_of_a_day(by_day: SparkSession, tmp_path: Path) -> None:
    # The statistics tell, before any row is read.
    path = tmp_path / "commits"
    write_table("commits", by_day.createDataFrame(rows()), str(path))
    files = sorted(path.glob("day=*/*.parquet"))
    assert len(files) > 3
    found = []
    for file in files:
        data = pq.ParquetFile(file)
        statistics = data.metadata.row_group(0).column(0).statistics
        found.append((file.parent.name, statistics.min, statistics.max))
        groups = data.read(["group"]).column("group").to_pylist()
        assert groups == sorted(groups)
    for day in {name for name, _, _ in found}:
        assert sum(low <= "g07" <= high for name, low, high in found if name == day) == 1


def test_small_tables_are_not_divided(by_day: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    write_table("nodes", by_day.createDataFrame([Row(node="n", lines=1)]), str(path))
    assert not [each for each in path.iterdir() if each.is_dir()]


def test_by_default_no_table_is_divided(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "commits"
    write_table("commits", spark.createDataFrame(rows()), str(path))
    assert not [each for each in path.iterdir() if each.is_dir()]
