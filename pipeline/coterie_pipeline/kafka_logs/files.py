"""The log files of any number of brokers, read line by line and merged by time.

A file is opened when its first line's time has come and closed at its end, so a month of rotated
files needs no more descriptors than files overlap.
"""

from __future__ import annotations

import gzip
import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO, Final, cast

from coterie_pipeline.kafka_logs.errors import KafkaLogsError
from coterie_pipeline.kafka_logs.layout import Reader, Record

__all__ = ["LogFile", "Reading", "find_logs", "merged"]

_GZIP: Final = b"\x1f\x8b"

#: A line longer than this is read in pieces; none of Kafka's coordinators is.
_LINE_BYTES: Final = 1 << 20

#: How many lines are read from one word about progress to the next.
_PROGRESS_LINES: Final = 100_000


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with lines of a coordinator: when they begin, and whose the first is."""

    path: Path
    first_ms: int
    node: str


@dataclass(slots=True)
class Reading:
    """What has been read so far."""

    files: int = 0
    lines: int = 0
    #: Files with no line of a coordinator, and packed ones that end too early.
    silent: list[Path] = field(default_factory=list)
    cut_off: set[Path] = field(default_factory=set)
    progress: Callable[[int], None] | None = None

    def count(self) -> None:
        """One more line was read."""
        self.lines += 1
        if self.progress is not None and self.lines % _PROGRESS_LINES == 0:
            self.progress(self.lines)


def find_logs(paths: Sequence[Path], zone: tzinfo, reading: Reading) -> list[LogFile]:
    """The log files among `paths`, of which directories stand for the files in them."""
    logs = []
    for path in sorted({found.resolve() for each in paths for found in _files(each)}):
        reading.files += 1
        log = _first_words(path, zone, reading)
        if log is None:
            reading.silent.append(path)
        else:
            logs.append(log)
    return sorted(logs, key=lambda log: (log.first_ms, log.path))


def _files(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise KafkaLogsError(f"There is no {path}.")
    return (each for each in path.iterdir() if each.is_file()) if path.is_dir() else (path,)


def _first_words(path: Path, zone: tzinfo, reading: Reading) -> LogFile | None:
    """Look for the first lines: a file without a coordinator's is no log of interest."""
    reader = Reader(zone)
    first_ms: int | None = None
    for line in _lines(path, reading):
        record = reader.read(line)
        if record is not None and first_ms is None:
            first_ms = record.ts_ms
        if first_ms is not None and reader.node:
            return LogFile(path, first_ms, reader.node)
    return None


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
    return cast(BinaryIO, gzip.open(path)) if is_packed else path.open("rb")


def _lines(path: Path, reading: Reading) -> Iterator[bytes]:
    with _open(path) as file:
        try:
            yield from iter(lambda: file.readline(_LINE_BYTES), b"")
        except (EOFError, gzip.BadGzipFile, zlib.error):
            reading.cut_off.add(path)


def merged(logs: Sequence[LogFile], zone: tzinfo, reading: Reading) -> Iterator[Record]:
    """The records of all files in the order of their times, each node's times never going back.

    What two files both have, as a file and a copy of it do, comes once.
    """
    waiting: list[tuple[int, int, Record | None, Iterator[Record]]] = [
        (log.first_ms, order, None, _records(log, zone, reading)) for order, log in enumerate(logs)
    ]
    heapq.heapify(waiting)
    now_ms = 0
    recent: set[tuple[str, str]] = set()
    while waiting:
        ts_ms, order, record, records = heapq.heappop(waiting)
        if record is not None:
            if ts_ms > now_ms:
                now_ms = ts_ms
                recent.clear()
            if (record.node, record.text) not in recent:
                recent.add((record.node, record.text))
                yield record
        following = next(records, None)
        if following is not None:
            heapq.heappush(waiting, (following.ts_ms, order, following, records))


def _records(log: LogFile, zone: tzinfo, reading: Reading) -> Iterator[Record]:
    """The records of a file; a time before that of the record before is put right."""
    reader = Reader(zone, log.node)
    latest_ms = log.first_ms
    for line in _lines(log.path, reading):
        reading.count()
        record = reader.read(line)
        if record is None:
            continue
        if record.ts_ms < latest_ms:  # threads that log at once swap a millisecond now and then
            record = Record(latest_ms, record.node, record.text)
        latest_ms = record.ts_ms
        yield record
