"""Alerts as they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from coterie_pipeline.streaming.batches import AlertLog

pytestmark = pytest.mark.slow


def alert(key: str, at_ms: int = 1) -> Row:
    """An alert, of which only the key matters."""
    return Row(key=key, group="g", kind="k", at_ms=at_ms, sentence="s", evidence={})


def keys(rows: list[Row]) -> list[str]:
    """What alerts are about."""
    return [row["key"] for row in rows]


def test_alert_is_new_once(spark: SparkSession, tmp_path: Path) -> None:
    # It is found again whenever something happens to its group.
    log = AlertLog(spark, str(tmp_path))
    assert keys(log.add("1", [alert("b", 2), alert("a", 3)])) == ["b", "a"]
    assert keys(log.add("2", [alert("a"), alert("c"), alert("b")])) == ["c"]
    assert sorted(keys(AlertLog(spark, str(tmp_path)).read().collect())) == ["a", "b", "c"]


def test_piece_that_is_added_again_keeps_its_alerts_once_and_returns_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    AlertLog(spark, str(tmp_path)).add("1", [alert("a")])
    log = AlertLog(spark, str(tmp_path))
    assert keys(log.add("1", [alert("a")])) == ["a"]
    assert keys(log.read().collect()) == ["a"]
