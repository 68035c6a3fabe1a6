"""Tables that are laid out by day: a reader of one day or group opens little else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation, Row, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.layout import BY_DAY, Counted, is_by_day, write_table
from coterie_pipeline.session import quick_session

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
        of_day = f"FROM read_parquet('{path}/**/*.parquet') WHERE day = DATE '1970-01-02'"
        assert len(database.sql(of_day).fetchall()) == _GROUPS


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


def test_rows_are_counted_once_though_dividing_them_reads_them_twice(
    by_day: SparkSession, tmp_path: Path
) -> None:
    seen = Observation()
    counted = Counted(seen, (F.count(F.lit(1)).alias("rows"),))
    write_table("commits", by_day.createDataFrame(rows()), str(tmp_path / "commits"), counted)
    assert seen.get["rows"] == 3 * _GROUPS


def test_a_bucket_has_one_number_in_all_days(by_day: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "commits"
    write_table("commits", by_day.createDataFrame(rows()), str(path), buckets=4)
    numbers: dict[str, set[str]] = {}
    for file in path.glob("day=*/*.parquet"):
        groups = pq.ParquetFile(file).read(["group"]).column("group").to_pylist()
        assert groups == sorted(groups)
        for group in groups:
            numbers.setdefault(group, set()).add(file.name[:10])
    assert len(numbers) == _GROUPS
    assert {len(each) for each in numbers.values()} == {1}
    assert len({each for own in numbers.values() for each in own}) > 1


def test_a_session_for_little_data_lays_tables_out_alike(by_day: SparkSession) -> None:
    assert is_by_day(quick_session(by_day))


def test_small_tables_are_not_divided(by_day: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    write_table("nodes", by_day.createDataFrame([Row(node="n", lines=1)]), str(path))
    assert not [each for each in path.iterdir() if each.is_dir()]


def test_by_default_no_table_is_divided(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "commits"
    write_table("commits", spark.createDataFrame(rows()), str(path))
    assert not [each for each in path.iterdir() if each.is_dir()]
