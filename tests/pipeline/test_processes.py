"""Little data is handled within the driver, and much in Spark's Python processes: alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.parsing import parse
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import read_values
from tests.pipeline.test_any_bytes import COMMIT_LINE, ODD
from tests.support.journals import simulated, write_journal
from tests.support.pipeline_tables import KEYS, differences, spark_tables


@pytest.fixture
def busy(spark: SparkSession) -> SparkSession:
    """A session that divides its work."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    assert not is_quick(session)
    return session


@pytest.mark.slow
def test_tables_are_the_same_wherever_they_are_made(
    spark: SparkSession, busy: SparkSession, tmp_path: Path
) -> None:
    paths = write_journal([*simulated(3, "hostile"), *simulated(4)], tmp_path)
    here, there = spark_tables(spark, paths), spark_tables(busy, paths)
    assert not [text for name in KEYS for text in differences(name, here[name], there[name])]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [[COMMIT_LINE], ODD, [COMMIT_LINE, *ODD]])
def test_each_line_is_stored_once(
    spark: SparkSession, busy: SparkSession, tmp_path: Path, lines: list[str]
) -> None:
    # Wherever that is done, and whether all of them are commits or none.
    rows = [("s", line, None) for line in lines]
    for number, session in enumerate((spark, busy)):
        raw = session.createDataFrame(rows, "segment STRING, value STRING, why STRING")
        warehouse = Warehouse(session, str(tmp_path / str(number)))
        warehouse.claim("run")
        warehouse.add_lines("a", raw)
        stored = warehouse.bronze().drop("piece")
        assert sorted(stored.collect(), key=repr) == sorted(parse(raw).collect(), key=repr)
        assert stored.count() == len(lines)


@pytest.mark.slow
def test_of_a_commit_the_same_is_read_whatever_its_names(spark: SparkSession) -> None:
    """Ordinary names are recognized, and others read as JSON."""
    lines = [
        COMMIT_LINE.replace(f'"{old}"', json.dumps(name, ensure_ascii=is_escaped))
        for name in ("", " ", "a,b", ",", '"', "\\", "é", "日本", "}}", "[-.~]", "a:b")
        for old in ("n", "g", "m", "t")
        for is_escaped in (True, False)
    ]
    rows = [("s", line, None) for line in lines]
    raw = spark.createDataFrame(rows, "segment STRING, value STRING, why STRING")
    names = ("node", "seq", "ts", "group", "member", "generation")
    read = parse(raw).select(*names, "offsets_committed_offsets", "part").collect()
    found = [(*row[: len(names)], json.loads(row[-2]), row[-1]) for row in read]
    expected = [
        (*(values[name] for name in names), values["offsets"], "commits")
        for values in map(read_values, lines)
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
