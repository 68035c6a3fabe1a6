"""Little data is handled within the driver, and much in Spark's Python processes: alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.parsing import COMMITS, parse, parse_in_turn
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
@pytest.mark.parametrize("odd", [[], ODD], ids=["plain", "odd"])
def test_each_line_is_read_once_in_turn(busy: SparkSession, odd: list[str]) -> None:
    # Whether any line looks like a commit and is none is known only when the commits are stored.
    rows = [("s", line) for line in [COMMIT_LINE, *odd]]
    raw = busy.createDataFrame(rows, "segment STRING, value STRING")
    whole = parse(raw).together().select("digest", "part").collect()
    in_turn = [row for frame in parse_in_turn(raw) for row in _parts(frame).collect()]
    assert sorted(in_turn) == sorted(whole)
    assert len(whole) == len(rows)


def _parts(frame: DataFrame) -> DataFrame:
    """In which part each line is stored: a frame that does not say it has commits."""
    part = F.col("part") if "part" in frame.columns else F.lit(COMMITS)
    return frame.select("digest", part.alias("part"))


@pytest.mark.slow
def test_of_a_commit_the_same_is_read_whatever_its_names(spark: SparkSession) -> None:
    """Of ordinary names by Spark, and of others in Python."""
    lines = [
        COMMIT_LINE.replace(f'"{old}"', json.dumps(name, ensure_ascii=is_escaped))
        for name in ("", " ", "a,b", ",", '"', "\\", "é", "日本", "}}", "[-.~]", "a:b")
        for old in ("n", "g", "m", "t")
        for is_escaped in (True, False)
    ]
    raw = spark.createDataFrame([("s", line) for line in lines], "segment STRING, value STRING")
    names = ("node", "seq", "ts", "group", "member", "generation")
    read = parse(raw).together().select(*names, "offsets_committed_offsets", "part").collect()
    found = [(*row[: len(names)], json.loads(row[-2]), row[-1]) for row in read]
    expected = [
        (*(values[name] for name in names), values["offsets"], "commits")
        for values in map(read_values, lines)
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
