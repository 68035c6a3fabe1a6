"""What a micro-batch makes of a compressed file that can't be unpacked to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.steps.parsing import DAMAGED, REST_DAMAGED
from coterie_pipeline.streaming.alerts import Storm
from coterie_pipeline.streaming.batches import Batches
from coterie_pipeline.streaming.pieces import Pieces
from tests.pipeline.test_any_bytes import COMMIT_LINE

pytestmark = pytest.mark.slow


def test_the_rest_of_a_damaged_file_is_kept_apart_and_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    told: list[list[str]] = []
    pieces = Pieces(spark, str(tmp_path / "out"))
    pieces.claim("follow")
    batches = Batches(spark, pieces, Storm(), lambda _: None, told.append)
    lines = [
        ("file:/j/a.gz", COMMIT_LINE, None),
        ("file:/j/a.gz", REST_DAMAGED, DAMAGED),
        ("file:/j/b", COMMIT_LINE, "torn"),
    ]
    raw = spark.createDataFrame(lines, "segment STRING, value STRING, why STRING")
    batches.take(raw.coalesce(1), 0)
    assert told == [["file:/j/a.gz"]]
    assert batches.lines == 2
    kept = pieces.bronze().select("segment", "why", "part").collect()
    assert sorted(map(tuple, kept), key=str) == [
        ("file:/j/a.gz", DAMAGED, "unread"),
        ("file:/j/a.gz", None, "commits"),
        ("file:/j/b", "torn", "unread"),
    ]
