"""Following journals to their ends: the batch's tables, and what happens when something fails."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from coterie_pipeline import batch
from coterie_pipeline.streaming.follow import FollowOptions, Oddity, Progress, follow
from coterie_pipeline.streaming.source import SourceError
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import write_line
from coterie_protocol.journal_text import segment_name
from tests.pipeline.streaming.growing import growth, lines_of_nodes, rows_of
from tests.pipeline.streaming.scenarios import Scenario

pytestmark = pytest.mark.spark_slow

#: What a crash may leave of a line.
TORN = b'{"v":1,"to'

ONCE = FollowOptions(once=True, batch_bytes=40_000)


def write_story(scenario: Scenario, folder: Path) -> Path:
    """Write what a scenario tells into one file."""
    path = folder / segment_name(scenario.node, 1)
    path.write_text("".join(f"{write_line(line)}\n" for line in scenario.lines), encoding="utf-8")
    return path


def clash() -> Scenario:
    """A scenario with an overlap."""
    scenario = Scenario()
    scenario.rebalance({"a": (0,), "b": (0,)}, {})
    return scenario


def refuse(alert: Row) -> None:
    """Fail to write an alert."""
    raise ConnectionError(alert["kind"])


def test_the_tables_are_the_batchs(spark: SparkSession, tmp_path: Path) -> None:
    # Followed in two goes and many steps, and read at once: the same rows in all tables.
    journals, out = tmp_path / "journals", str(tmp_path / "followed")
    writes = growth(lines_of_nodes(), journals)
    told: list[Progress] = []
    middle = len(writes) // 2
    for write in writes[:middle]:
        write.happen()
    follow(spark, [str(journals)], out, ONCE)
    for write in writes[middle:]:
        write.happen()
    first, *_ = sorted((journals / "a").iterdir())
    first.with_name(f"{first.name}.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    with max((journals / "b").iterdir()).open("ab") as file:
        file.write(TORN)
    follow(spark, [str(journals)], out, ONCE, on_progress=told.append)
    batch.run(spark, [str(journals)], str(tmp_path / "read"))
    expected = rows_of(Warehouse(spark, str(tmp_path / "read")))
    assert rows_of(Warehouse(spark, out)) == expected
    assert expected["unread"]
    assert (told[-1].behind_bytes, told[-1].published) == (len(TORN), 1)


def test_what_fails_is_done_over(spark: SparkSession, tmp_path: Path) -> None:
    # An alert that could not be told is told the next time, and kept once.
    write_story(clash(), tmp_path)
    out = str(tmp_path / "out")
    with pytest.raises(ConnectionError, match="overlap"):
        follow(spark, [str(tmp_path)], out, ONCE, on_alert=refuse)
    alerts: list[Row] = []
    follow(spark, [str(tmp_path)], out, ONCE, on_alert=alerts.append)
    assert [alert["kind"] for alert in alerts] == ["overlap"]
    assert spark.read.parquet(f"{out}/alerts").count() == 1


def test_file_that_was_begun_anew_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write_story(clash(), tmp_path)
    out = str(tmp_path / "out")
    follow(spark, [str(tmp_path)], out, ONCE)
    told: list[Oddity] = []
    path.write_bytes(path.read_bytes()[:200])
    follow(spark, [str(tmp_path)], out, ONCE, on_oddity=told.append)
    assert told == [Oddity(shorter=(str(path),))]


def test_what_was_planned_and_is_gone_is_said(spark: SparkSession, tmp_path: Path) -> None:
    path = write_story(clash(), tmp_path)
    out = str(tmp_path / "out")
    with pytest.raises(ConnectionError):
        follow(spark, [str(tmp_path)], out, ONCE, on_alert=refuse)
    path.unlink()
    with pytest.raises(SourceError) as caught:
        follow(spark, [str(tmp_path)], out, ONCE)
    assert str(caught.value) == (
        f"{path} was deleted before it was read from byte 0 on: put it back, or give up what it "
        "said by following the journals into a new directory."
    )
