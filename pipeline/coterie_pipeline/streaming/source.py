"""The source `coterie-journal`: the lines of journals as they grow, as a stream in Spark.

It looks for segments beneath the given directories again and again, so nodes may appear at any
time.  It reads only whole lines, and what a crash left of a line once that is certain, with the
reason why it does not count.  A segment that its node deleted is an error only if it was to be read
and was not.  Of a compressed segment that can't be unpacked to its end, what comes before is read,
and a line that says so stands for the rest.

The executors of a cluster must find the files under the same paths.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie_pipeline.packing import COMPRESSIONS, Unpacked, is_damage
from coterie_pipeline.slicing import grouped
from coterie_pipeline.steps.arrow import as_text
from coterie_pipeline.steps.parsing import DAMAGED, REST_DAMAGED
from coterie_pipeline.streaming.finding import find
from coterie_pipeline.streaming.offsets import (
    WHOLE,
    Range,
    Segment,
    advance,
    ranges,
    time_of,
)
from coterie_protocol.journal import why_unended
from coterie_protocol.line_breaks import first_line_end, line_start

__all__ = [
    "BATCH_BYTES",
    "FORMAT",
    "FileLookup",
    "JournalSource",
    "Lines",
    "SourceError",
    "cut",
    "name_of",
    "read_lines",
    "source_options",
    "tails",
]

#: How much of a line is read to find its time.
_GLANCE_BYTES: Final = 512

#: How much text is returned at a time.
_CHUNK_BYTES: Final = 4 * 1024 * 1024

#: How much text of a compressed segment is read at a time.
_PACKED_BYTES: Final = 65_536

#: Characters that must be escaped in the path of a URI.
_ILLEGAL: Final = re.compile(r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f]')


class SourceError(Exception):
    """A journal can't be read any further; the message says what to do."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def name_of(path: str) -> str:
    """The name of a file in Spark's `_metadata.file_path`."""
    return "file:" + _ILLEGAL.sub(lambda match: f"%{ord(match[0]):02X}", path)


class FileLookup:
    """Looks things up in files; see `offsets.LineLookup`."""

    def line_end(self, segment: Segment, start: int, upto: int) -> int:
        """The end of the last line that is whole by `upto`, or else of the first line."""
        if segment.is_closed and upto >= segment.size:
            return segment.size  # including what a crash left of a line
        with open(segment.path, "rb") as file:  # noqa: PTH123  # paths are texts here
            if not segment.is_closed and line_start(file, start) != start:
                raise SourceError(
                    f"{segment.path} is not the file that was read so far under this name: if its "
                    "node began anew, follow its journal into a new directory."
                )
            end = _last_line_end(file, start, upto) or first_line_end(file, upto)
        if end is None:
            return segment.size if segment.is_closed else start
        return end

    def time_at(self, segment: Segment, start: int) -> int:
        """The time of a line; of a compressed segment, that of its first one."""
        if segment.is_packed:
            with contextlib.suppress(OSError), Unpacked(segment.path) as text:
                return time_of(text.read(_GLANCE_BYTES))
            return 0
        with open(segment.path, "rb") as file:  # noqa: PTH123
            file.seek(start)
            return time_of(file.read(_GLANCE_BYTES))


def cut(whole: Range, slice_bytes: int) -> Iterator[Range]:
    """Cut a range at ends of lines into slices; a compressed segment stays whole."""
    path = _path_of(whole)
    if path != whole.key or whole.end - whole.start <= slice_bytes:
        yield whole
        return
    start = whole.start
    with open(path, "rb") as file:  # noqa: PTH123
        while start < whole.end:
            end = first_line_end(file, start + slice_bytes)
            end = whole.end if end is None else min(end, whole.end)
            yield Range(whole.key, start, end)
            start = end


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, without their line feeds."""

    path: str
    texts: Sequence[bytes]
    #: Why they can't be taken into account; they can be shown then.
    why: str | None = None


def read_lines(part: Range) -> Iterator[Lines]:
    """The lines of a range, some at a time."""
    path = _path_of(part)
    if path == part.key:
        with open(path, "rb") as file:  # noqa: PTH123
            end = file.seek(0, os.SEEK_END) if part.end == WHOLE else part.end
            # The range starts within a line if a crash had seemed to cut off the part before it.
            start = file.seek(line_start(file, part.start))
            yield from _split(file, end - start, path)
    else:
        yield from _read_packed(path, part)


def _read_packed(path: str, part: Range) -> Iterator[Lines]:
    left = None if part.end == WHOLE else part.end - part.start
    try:
        with Unpacked(path) as text:
            _skip(text, part.start)
            yield from _split(text, left, path, _PACKED_BYTES)
    except OSError as error:
        if not is_damage(error):
            raise
        yield Lines(path, [REST_DAMAGED.encode()], DAMAGED)


def tails(segments: Iterable[Segment]) -> list[tuple[str, bytes]]:
    """What follows the last line feed of each segment that is not closed."""
    found = []
    for segment in segments:
        if not segment.is_closed:
            with contextlib.suppress(FileNotFoundError), open(segment.path, "rb") as file:  # noqa: PTH123
                start = line_start(file, segment.size)
                file.seek(start)
                if start < segment.size:
                    found.append((segment.path, file.read(segment.size - start)))
    return found


def _path_of(part: Range) -> str:
    """The present file of a segment, which may have been compressed in the meantime."""
    for ending in ("", *COMPRESSIONS):
        path = part.key + ending
        if os.path.exists(path):  # noqa: PTH110
            return path
    raise SourceError(
        f"{part.key} was deleted before it was read from byte {part.start} on: put it back, or "
        "give up what it said by following the journals into a new directory."
    )


def _skip(text: _Readable, count: int) -> None:
    while count > 0 and (block := text.read(min(count, _CHUNK_BYTES))):
        count -= len(block)


def _split(
    text: _Readable, left: int | None, path: str, most: int | None = None
) -> Iterator[Lines]:
    """The lines in `left` bytes, or in the whole text, of which it reads `most` at a time."""
    rest, most = b"", most or _CHUNK_BYTES
    while left is None or left > 0:
        block = text.read(most if left is None else min(left, most))
        if not block:
            break
        left = None if left is None else left - len(block)
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield Lines(path, lines)
    if left:
        raise SourceError(
            f"{path} is shorter than it was, by {left} bytes: follow the journals again when it is "
            "whole, or into a new directory."
        )
    if rest:
        yield Lines(path, [_shown(rest)], why_unended(rest))


def _shown(text: bytes) -> bytes:
    """A text that is UTF-8."""
    return text.decode(errors="replace").encode()


def _last_line_end(file: BinaryIO, start: int, upto: int) -> int | None:
    end = line_start(file, upto)
    return end if end > start else None


# -- the source ------------------------------------------------------------------------------------


FORMAT: Final = "coterie-journal"

#: How much text a micro-batch has at most, so that a long journal is read in steps.
BATCH_BYTES: Final = 128 * 1024 * 1024

#: How much text one task reads.
SLICE_BYTES: Final = 32 * 1024 * 1024

_SCHEMA: Final = pa.schema([("segment", pa.string()), ("value", pa.string()), ("why", pa.string())])


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
        """The file, a line without its line feed, and why it can't be taken into account."""
        return "segment STRING, value STRING, why STRING"

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
    """The ranges that one task reads; small ones are read together."""

    parts: tuple[Range, ...]


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, journals: list[str], batch_bytes: int, slice_bytes: int) -> None:
        self._journals = journals
        self._batch_bytes = batch_bytes
        self._slice_bytes = slice_bytes
        #: The segments at the beginning of a stream that reads no others.
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
        return advance(start, segments, limit_bytes, FileLookup())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        slices = (cut(each, self._slice_bytes) for each in ranges(start, end))
        return _tasks(chain.from_iterable(slices), self._slice_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        for part in partition.parts:
            yield from map(_batch, read_lines(part))


def _tasks(slices: Iterable[Range], slice_bytes: int) -> list[_Task]:
    """Tasks of about a size; a compressed segment is a task of its own."""

    def size_of(part: Range) -> int:
        return slice_bytes if part.end == WHOLE else part.end - part.start

    return [_Task(tuple(parts)) for parts in grouped(slices, size_of, slice_bytes)]


def _batch(lines: Lines) -> pa.RecordBatch:
    # Spark's strings may be any bytes: what is not UTF-8 passes as it does in Spark's own reader.
    texts, count = as_text(pa.array(lines.texts, pa.binary())), len(lines.texts)
    segments = pa.array([name_of(lines.path)] * count, pa.string())
    return pa.record_batch(
        [segments, texts, pa.array([lines.why] * count, pa.string())], schema=_SCHEMA
    )
