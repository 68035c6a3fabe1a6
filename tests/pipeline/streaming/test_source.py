"""The source as Spark calls it, without Spark: offsets go through JSON, tasks through pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from coterie_pipeline.streaming.source import JournalSource, SourceError, source_options

FIRST = "journal-1-0000000000000001.jsonl"
SECOND = "journal-1-0000000000000003.jsonl"

#: As Spark hands tasks to executors; it has no types.
PICKLE: Any = cloudpickle


class Stream:
    """A stream of one journal."""

    def __init__(self, journal: Path, batch_bytes: int = 10**6, slice_bytes: int = 10**6) -> None:
        options = source_options([str(journal)], batch_bytes, slice_bytes)
        self.reader: Any = JournalSource(options).streamReader(StructType())
        self.offset: dict[str, int] = self.reader.initialOffset()

    def batch(self, limit: object = None) -> list[list[str]]:
        """The lines of the next micro-batch, by task."""
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, limit)))
        start, self.offset = self.offset, end
        return self.between(start, end)

    def between(self, start: dict[str, int], end: dict[str, int]) -> list[list[str]]:
        """The lines between two offsets, by task."""
        tasks = [PICKLE.loads(PICKLE.dumps(task)) for task in self.reader.partitions(start, end)]
        return [
            [line for batch in self.reader.read(task) for line in batch["value"].to_pylist()]
            for task in tasks
        ]


def test_lines_come_with_their_files(tmp_path: Path) -> None:
    # Under the name that Spark itself has for a file.
    folder = tmp_path / "a journal, of=1"
    folder.mkdir()
    (folder / FIRST).write_bytes(b"one\ntwo\n")
    stream = Stream(tmp_path)
    (task,) = stream.reader.partitions({}, stream.reader.latestOffset({}, ReadAllAvailable()))
    (batch,) = stream.reader.read(task)
    name = f"file:{tmp_path}/a%20journal,%20of=1/{FIRST}"
    expected = {"segment": [name, name], "value": ["one", "two"], "why": [None, None]}
    assert batch.to_pydict() == expected


def test_batches_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    assert stream.batch() == []
    with (tmp_path / FIRST).open("wb", buffering=0) as file:
        file.write(b"one\ntw")
        assert stream.batch() == [["one"]]
        file.write(b"o\nthree\n")
        assert stream.batch() == [["two", "three"]]
    assert stream.batch() == []


def test_a_batch_keeps_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"123456789\n" * 100)
    stream = Stream(tmp_path, batch_bytes=400)
    assert [len(task) for task in stream.batch()] == [39]


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"123456789\n" * 100)
    stream = Stream(tmp_path, batch_bytes=400)
    assert [len(task) for task in stream.batch(ReadAllAvailable())] == [100]


def test_big_segments_are_read_by_many_tasks(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"123456789\n" * 5)
    (tmp_path / SECOND).write_bytes(b"x\n")
    (tmp_path / FIRST.replace("1-", "2-")).write_bytes(b"y\n")
    tasks = Stream(tmp_path, slice_bytes=20).batch()
    assert [len(task) for task in tasks] == [3, 2, 2]


def test_nodes_may_come_late(tmp_path: Path) -> None:
    # Whenever a directory appears, all that is in it is read.
    stream = Stream(tmp_path)
    (tmp_path / FIRST).write_bytes(b"one\n")
    stream.batch()
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / FIRST).write_bytes(b"two\n")
    assert stream.batch() == [["two"]]


def test_a_torn_line_comes_once_it_is_certain(tmp_path: Path) -> None:
    # When the node began its next file, and then once.
    stream = Stream(tmp_path)
    (tmp_path / FIRST).write_bytes(b"one\ntw")
    stream.batch()
    (tmp_path / SECOND).write_bytes(b"two\n")
    assert stream.batch() == [["tw", "two"]]
    assert stream.batch() == []


def test_what_is_no_utf8_comes_through(tmp_path: Path) -> None:
    # A text of Spark's is any bytes, and so is what a reader in Spark makes of a file.
    (tmp_path / FIRST).write_bytes(b"\xff\xfe\n")
    stream = Stream(tmp_path)
    (task,) = stream.reader.partitions({}, stream.reader.latestOffset({}, ReadAllAvailable()))
    (batch,) = stream.reader.read(task)
    assert b"\xff\xfe" in batch["value"].buffers()[2].to_pybytes()


def test_a_stream_that_ends_reads_what_was_there_at_first(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"one\n")
    stream = Stream(tmp_path)
    stream.reader.prepareForTriggerAvailableNow()
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"two\n")
    (tmp_path / SECOND).write_bytes(b"three\n")
    assert stream.batch() == [["one"]]
    assert stream.batch() == []


def test_a_segment_that_was_read_may_be_deleted(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"one\n")
    stream = Stream(tmp_path)
    stream.batch()
    (tmp_path / FIRST).unlink()
    (tmp_path / SECOND).write_bytes(b"three\n")
    assert stream.batch() == [["three"]]
    assert list(stream.offset) == [str(tmp_path / SECOND)]


def test_a_batch_that_is_done_over_is_the_same(tmp_path: Path) -> None:
    # Even if the file was compressed meanwhile, or went on.
    (tmp_path / FIRST).write_bytes(b"one\n")
    stream = Stream(tmp_path)
    stream.batch()
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"two\n")
    assert stream.between({}, stream.offset) == [["one"]]


def test_a_batch_that_can_not_be_done_over_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"one\n")
    stream = Stream(tmp_path)
    stream.batch()
    (tmp_path / FIRST).unlink()
    with pytest.raises(SourceError, match="put it back"):
        stream.between({}, stream.offset)
