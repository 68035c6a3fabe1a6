"""The source `coterie-journal`: the lines of journals as they grow, as a stream in Spark.

It finds all segments beneath the directories that it is given, again and again, so nodes may come
at any time.  It reads only whole lines, and what a crash left of a line once that is certain.  A
segment that its node deleted is no error if it was read; what was planned and is gone, is.

All that reads files must find them under the same path, the executors of a cluster as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie_pipeline.streaming.files import DiskShelf, cut, find, name_of, read_lines
from coterie_pipeline.streaming.offsets import WHOLE, Range, advance, ranges
from coterie_pipeline.streaming.segments import Segment

__all__ = ["BATCH_BYTES", "FORMAT", "JournalSource", "source_options"]

FORMAT: Final = "coterie-journal"

#: How much text a micro-batch has at most, so that a long journal is caught up with in steps.
BATCH_BYTES: Final = 128 * 1024 * 1024

#: How much text one task reads.
SLICE_BYTES: Final = 32 * 1024 * 1024

_SCHEMA: Final = pa.schema([("segment", pa.string()), ("value", pa.string())])


def source_options(
    journals: Iterable[str], batch_bytes: int = BATCH_BYTES, slice_bytes: int = SLICE_BYTES
) -> dict[str, str]:
    """The options of the source."""
    return {
        "journals": json.dumps(list(journals)),
        "batchBytes": str(batch_bytes),
        "sliceBytes": str(slice_bytes),
    }


class JournalSource(DataSource):
    """Journals, by the directories they are in."""

    @classmethod
    def name(cls) -> str:
        """What it is called in Spark."""
        return FORMAT

    def schema(self) -> str:
        """The file, and a line without its line feed."""
        return "segment STRING, value STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """What reads them as a stream."""
        del schema
        return _Reader(
            json.loads(self.options["journals"]),
            int(self.options.get("batchBytes", BATCH_BYTES)),
            int(self.options.get("sliceBytes", SLICE_BYTES)),
        )


@dataclass
class _Task(InputPartition):
    """What one task reads: little things are read together."""

    parts: tuple[Range, ...]


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, journals: list[str], batch_bytes: int, slice_bytes: int) -> None:
        self._journals = journals
        self._batch_bytes = batch_bytes
        self._slice_bytes = slice_bytes
        #: What there was when a stream began that reads just that.
        self._fixed: tuple[Segment, ...] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._fixed = find(self._journals)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        segments = self._fixed if self._fixed is not None else find(self._journals)
        assert isinstance(limit, (ReadMaxBytes, ReadAllAvailable))
        limit_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return advance(start, segments, limit_bytes, DiskShelf())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        slices = (cut(each, self._slice_bytes) for each in ranges(start, end))
        return _packed(chain.from_iterable(slices), self._slice_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        for part in partition.parts:
            for path, lines in read_lines(part):
                yield _batch(path, lines)


def _packed(slices: Iterable[Range], slice_bytes: int) -> list[_Task]:
    """Tasks of about a size; a compressed segment is one of its own."""
    tasks: list[list[Range]] = []
    room = 0
    for each in slices:
        size = slice_bytes if each.end == WHOLE else each.end - each.start
        if size > room:
            tasks.append([])
            room = slice_bytes
        tasks[-1].append(each)
        room -= size
    return [_Task(tuple(parts)) for parts in tasks]


def _batch(path: str, lines: list[bytes]) -> pa.RecordBatch:
    # A text of Spark's is any bytes: what is no UTF-8 comes through as Spark's own reader has it.
    values: Any = pa.array(lines, pa.binary())
    texts = pa.StringArray.from_buffers(len(values), values.buffers()[1], values.buffers()[2])
    return pa.record_batch(
        [pa.array([name_of(path)] * len(lines), pa.string()), texts], schema=_SCHEMA
    )
