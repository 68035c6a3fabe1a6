"""Files that every process reaches by their paths, read and stored as columns by Python alone.

Spark only says which process takes which slices of them.  Text that went through Java, to Python
and back would take three times as long.
"""

from __future__ import annotations

import contextlib
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coterie_pipeline.files import is_on_paths, local_path
from coterie_pipeline.packing import Unpacked, compression_of, is_damage, text_bytes
from coterie_pipeline.session import is_local
from coterie_pipeline.slicing import grouped
from coterie_pipeline.steps.parsing import DAMAGED, REST_DAMAGED, judge
from coterie_pipeline.steps.recognizing import COMMITS, recognize, with_constants
from coterie_protocol.journal import LINE_LENGTH_MAX, why_unended
from coterie_protocol.line_breaks import first_line_end

__all__ = ["Slice", "Unread", "can_store", "slices_of", "store", "store_files"]

#: How much text is taken in at a time.
_SLICE_BYTES: Final = 16 * 1024 * 1024

#: How much text one task reads, at most.
_TASK_BYTES: Final = 8 * _SLICE_BYTES

#: How many tasks each process gets, at least, if there is enough to do.
_TASKS_EACH: Final = 2

#: How much of a compressed text is taken in at a time: of a block that is damaged, nothing is had.
_BLOCK_BYTES: Final = 1024 * 1024

#: How many lines are judged at a time.
_JUDGED_LINES: Final = 10_000

#: Names of files that only Java unpacks, in forms of its own.
_BY_JAVA: Final = (".bz2", ".deflate", ".lz4", ".snappy")


@dataclass(frozen=True, slots=True)
class Slice:
    """Some lines of a file; of a compressed one, all."""

    segment: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a task made."""

    files: frozenset[str]
    damaged: frozenset[str]
    #: Those that were not there.
    missing: frozenset[str]


def can_store(segments: Iterable[str]) -> bool:
    """Whether files are reached by their paths, and can be read without Java."""
    return all(is_on_paths(each) and not each.endswith(_BY_JAVA) for each in segments)


@dataclass(frozen=True, slots=True)
class Unread:
    """Files of which not all was stored."""

    #: Those that can't be unpacked to their ends.
    damaged: tuple[str, ...] = ()
    #: Those that were not there.
    missing: tuple[str, ...] = ()


def store_files(spark: SparkSession, sizes: Mapping[str, int], folder: Path) -> Unread:
    """Store the lines of files, which have these sizes."""
    folder = folder.absolute()  # other processes may work in other folders
    folder.mkdir(parents=True, exist_ok=True)
    slices = [each for segment, size in sizes.items() for each in slices_of(segment, size)]
    total = sum(map(_weight, slices))
    if is_local(spark) and total <= _SLICE_BYTES:
        # To start a Python process takes longer than this.
        found = [store(slices, folder)]
    else:
        context = spark.sparkContext
        wanted = total // (context.defaultParallelism * _TASKS_EACH) + 1
        tasks = list(grouped(slices, _weight, min(wanted, _TASK_BYTES)))
        found = context.parallelize(tasks, len(tasks)).map(partial(store, folder=folder)).collect()
    _keep(folder, {file for each in found for file in each.files})
    return Unread(
        tuple(sorted({segment for each in found for segment in each.damaged})),
        tuple(sorted({segment for each in found for segment in each.missing})),
    )


def slices_of(segment: str, size: int, most: int = _SLICE_BYTES) -> Iterator[Slice]:
    """Divide a file where lines end; a compressed one stays whole, and so does one that is gone."""
    start = 0
    if compression_of(segment) is None and size > most:
        with contextlib.suppress(FileNotFoundError), local_path(segment).open("rb") as file:
            while size - start > most:
                end = first_line_end(file, start + most)
                if end is None or end >= size:
                    break
                yield Slice(segment, start, end)
                start = end
    yield Slice(segment, start, size)


def _weight(part: Slice) -> int:
    return text_bytes(part.segment, part.end - part.start)


def _keep(folder: Path, files: set[str]) -> None:
    """Delete what attempts left that were done over."""
    for file in folder.glob("*/*.parquet"):
        if str(file) not in files:
            file.unlink()


# -- a task ------------------------------------------------------------------------------------


def store(slices: Iterable[Slice], folder: Path) -> _Stored:
    """Store the lines of slices, in files of its own."""
    damaged, missing = set[str](), set[str]()
    with contextlib.ExitStack() as stack:
        writers = _Writers(folder, stack)
        for each in slices:
            try:
                for text, why in _texts(each):
                    _store_text(writers, each.segment, text, why)
                    if why == DAMAGED:
                        damaged.add(each.segment)
            except _MissingError:
                missing.add(each.segment)
    return _Stored(frozenset(writers.files), frozenset(damaged), frozenset(missing))


def _store_text(writers: _Writers, segment: str, text: bytes, why: str | None) -> None:
    lines = [text] if why else text.removesuffix(b"\n").split(b"\n")
    digests = [None if why else zlib.crc32(line) for line in lines]
    columns = {
        "segment": pa.repeat(segment, len(lines)),
        "value": pa.array(lines, pa.binary()),
        "why": pa.array([why] * len(lines), pa.string()),
        "digest": pa.array(digests, pa.int64()),
    }
    for found in recognize(iter((pa.record_batch(columns),))):
        if found["part"][0].as_py() == COMMITS:
            writers.write(COMMITS, "recognized", with_constants(found))
        else:
            # One by one, lines take hundreds of times the room of their texts.
            for start in range(0, len(found), _JUDGED_LINES):
                for part, rows in _judged(found.slice(start, _JUDGED_LINES)):
                    writers.write(part, "judged", rows)


def _judged(others: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    line = others["line"].cast(pa.binary())
    lines = pa.record_batch(
        [others["segment"], line, others["why"], others["digest"]],
        ["segment", "line", "why", "digest"],
    )
    for rows in judge(iter((lines,))):
        for part in pc.unique(rows["part"]).to_pylist():
            yield part, rows.filter(pc.equal(rows["part"], part))


def _texts(part: Slice) -> Iterator[tuple[bytes, str | None]]:
    """Whole lines, or something else and the reason why that does not count."""
    rest = b""
    try:
        for block in _blocks(part):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end], None
                rest = block[end:]
            else:
                # What is longer than any line is refused, however it goes on.
                rest = (rest + block)[: LINE_LENGTH_MAX + 1]
    except OSError as error:
        if not is_damage(error):
            raise
        # Of a line that is cut off there, nothing is known.
        yield REST_DAMAGED.encode(), DAMAGED
        return
    if rest:
        yield rest, why_unended(rest)


def _blocks(part: Slice) -> Iterator[bytes]:
    with _opened(part) as text:
        if isinstance(text, Unpacked):
            while block := text.read(_BLOCK_BYTES):
                yield block
            return
        left = part.end - text.seek(part.start)
        while left > 0 and (block := text.read(min(left, _SLICE_BYTES))):
            left -= len(block)
            yield block


def _opened(part: Slice) -> Unpacked | BinaryIO:
    path = local_path(part.segment)
    try:
        return Unpacked(str(path)) if compression_of(part.segment) else path.open("rb")
    except FileNotFoundError:
        raise _MissingError from None


class _MissingError(Exception):
    """A file is not there: a node deletes old ones, and others pack or move them."""


class _Writers:
    """A file for each form of rows, as far as there are any."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._name = uuid.uuid4().hex
        self._writers: dict[tuple[str, str], pq.ParquetWriter] = {}
        self.files: list[str] = []

    def write(self, part: str, form: str, rows: pa.RecordBatch) -> None:
        """Write rows of a part; the folder says of which one."""
        table = pa.Table.from_batches([rows]).drop_columns(["part"])
        writer = self._writers.get((part, form))
        if writer is None:
            place = self._folder / f"part={part}"
            place.mkdir(exist_ok=True)
            self.files.append(str(place / f"{form}-{self._name}.parquet"))
            writer = self._stack.enter_context(pq.ParquetWriter(self.files[-1], table.schema))
            self._writers[part, form] = writer
        writer.write_table(table)
