"""Following journals: what is refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.files import Files
from coterie_pipeline.streaming.checkpoint import unusable_part
from coterie_pipeline.streaming.follow import CheckpointError, follow
from coterie_pipeline.streaming.source import SourceError
from coterie_pipeline.warehouse import LAYOUT, UnusableDirectoryError, Warehouse


def test_a_directory_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere is no directory"):
        follow(spark, [str(tmp_path / "nowhere")], str(tmp_path / "out"))


def test_other_journals_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    # Journals may be added, but none may be left out.
    (tmp_path / "a").mkdir()
    out = str(tmp_path / "out")
    Warehouse(spark, out).note({"layout": LAYOUT, "runner": "follow", "journals": ["/x", "/y"]})
    with pytest.raises(CheckpointError, match="follows other journals: name /x, /y as well"):
        follow(spark, [str(tmp_path / "a")], out)


def test_a_checkpoint_that_is_gone_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    # Reading everything once more would count it twice.
    out = str(tmp_path / "out")
    Warehouse(spark, out).claim("follow")
    Files(spark, out).write_json("events/piece=x", {})
    with pytest.raises(CheckpointError, match="checkpoint is gone"):
        follow(spark, [str(tmp_path)], out)


def test_tables_without_a_checkpoint_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    # They would count as made of later lines than all that come.
    out = str(tmp_path / "out")
    Warehouse(spark, out).claim("follow")
    (tmp_path / "out" / "tables" / "000001").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="checkpoint is gone"):
        follow(spark, [str(tmp_path)], out)


def checkpoint(out: Path, number: int) -> Path:
    """A checkpoint as Spark leaves it after so many micro-batches."""
    folder = out / "checkpoint"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
        (folder / name / str(number)).write_text('v1\n{"batchWatermarkMs":0}\n{}')
    (folder / "metadata").write_text('{"id":"x"}')
    return folder


@pytest.mark.parametrize("content", ["", "garbage", "v1\n{}\n{bad", "v1", "v1\n{}\n\xff", None])
@pytest.mark.parametrize("name", ["metadata", "offsets/7", "commits/7"])
def test_a_damaged_checkpoint_is_told(
    name: str, content: str | None, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would end with pages about its classes."""
    Warehouse(spark, str(tmp_path / "out")).claim("follow")
    damaged = checkpoint(tmp_path / "out", 7) / name
    if content is None:
        damaged.unlink()
        damaged.mkdir()
    else:
        damaged.write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match=f"checkpoint/{name} is damaged"):
        follow(spark, [str(tmp_path)], str(tmp_path / "out"))


def test_a_checkpoint_that_was_just_begun_is_none(spark: SparkSession, tmp_path: Path) -> None:
    """Spark was killed before it had written anything into it."""
    files = Files(spark, str(tmp_path))
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / ".metadata.tmp").touch()
    assert unusable_part(files) is None


def test_a_checkpoint_without_offsets_is_told(spark: SparkSession, tmp_path: Path) -> None:
    Warehouse(spark, str(tmp_path / "out")).claim("follow")
    (checkpoint(tmp_path / "out", 7) / "offsets" / "7").unlink()
    with pytest.raises(CheckpointError, match="checkpoint/offsets is damaged"):
        follow(spark, [str(tmp_path)], str(tmp_path / "out"))


def test_lines_that_are_gone_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    # The stream has them behind it, and would never read them again.
    out = str(tmp_path / "out")
    Warehouse(spark, out).claim("follow")
    (tmp_path / "out" / "events" / "piece=level0-0000000006").mkdir(parents=True)
    checkpoint(tmp_path / "out", 7)
    with pytest.raises(CheckpointError, match="events lacks lines"):
        follow(spark, [str(tmp_path)], out)


def test_what_a_batch_made_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    # Its lines would count twice.
    out = str(tmp_path / "out")
    Warehouse(spark, out).claim("run")
    with pytest.raises(UnusableDirectoryError, match="belongs to `coterie pipeline run`"):
        follow(spark, [str(tmp_path)], out)


def test_directory_in_use_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with (
        Warehouse(spark, out).alone(),
        pytest.raises(UnusableDirectoryError, match="Another `coterie pipeline` works in"),
    ):
        follow(spark, [str(tmp_path)], out)
