"""The log files of any number of brokers, read line by line and merged by time.

A file is opened when its first line's time has come and closed at its end, so a month of rotated
files needs no more descriptors than files overlap.

Kafka's own layout of a line is `[%d] %p %m (%c)%n`.  Whatever a container or a collector puts in
front of it does no harm as long as the first date and time in the line is the line's own.  A line
with no date and time near its beginning continues the record before it, as stack traces do, and is
skipped.
"""

from __future__ import annotations

import gzip
import heapq
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import BinaryIO, Final, cast

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.file_errors import naming

__all__ = [
    "Clock",
    "KafkaLogsError",
    "LogFile",
    "Reader",
    "Reading",
    "Record",
    "find_logs",
    "merged",
]


class KafkaLogsError(CoterieError):
    """Logs that can't be imported, or a folder that can't be written into."""


# -- one line --------------------------------------------------------------------------------------


#: How far into a line its date and time may begin.
_HEAD_CHARACTERS: Final = 100

_TIME: Final = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)[.,](?P<ms>\d{3})\d*"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)

#: The component that logs: `[GroupCoordinator 1]:` of the old coordinator,
#: `[GroupCoordinator id=1 topic=...]` of the new one, `[GroupMetadataManager brokerId=1]` of the
#: old one's storage.
_SPEAKER: Final = re.compile(
    r"\[(?:GroupCoordinator (?:id=)?|GroupMetadataManager brokerId=)(?P<node>\d+)[^\]]*\]:? "
    r"(?P<text>.*)"
)

#: The old coordinator reads members back in an object that has no name to put in front.
_UNSIGNED: Final = re.compile(r"(?P<text>Loaded member MemberMetadata\(.*)")

_VERSION: Final = re.compile(r"(?P<text>Kafka version: \S+)")

#: Strimzi has the thread behind it.
_LOGGER: Final = re.compile(r"\s+\((?:kafka|org\.apache\.kafka)\.[\w.$]+\)(?:\s+\[[^\]]*\])?$")

#: Threads that log at once swap moments, but never so long ones.
_SWAP_S: Final = 5

#: Only these levels have lines that are known; what debugging adds is passed over.
_DEBUGGING: Final = re.compile(r"\b(?:DEBUG|TRACE)\b")

#: What a line has if it may be of interest; looking for it costs less than anything else.
_MARKS: Final = (b"[Group", b"Loaded member ", b"Kafka version: ")


@dataclass(frozen=True, slots=True)
class Record:
    """What a broker's coordinator wrote at some time; the text is without layout."""

    ts_ms: int
    node: str
    text: str


class Clock:
    """Turns the times of one file into milliseconds since 1970.

    When clocks are set back an hour, a time without a zone comes twice: of the two, the one is
    meant that does not go back.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._last = ("", 0)
        self._latest_s = 0

    def ms(self, match: re.Match[str]) -> int:
        """The time that was found; `ValueError` if there is no such time."""
        stated = match["second"] + (match["zone"] or "")
        if stated != self._last[0]:
            self._last = (stated, self._seconds(match["second"], match["zone"]))
        return self._last[1] * 1000 + int(match["ms"])

    def _seconds(self, second: str, zone: str | None) -> int:
        local = datetime.fromisoformat(second)
        if zone is not None:
            return int(local.replace(tzinfo=_offset(zone)).timestamp())
        seconds = int(local.replace(tzinfo=self._zone).timestamp())
        again = int(local.replace(tzinfo=self._zone, fold=1).timestamp())
        if seconds + _SWAP_S < self._latest_s <= again:
            seconds = again
        self._latest_s = max(self._latest_s, seconds)
        return seconds


def _offset(text: str) -> tzinfo:
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))


class Reader:
    """Reads the lines of one file.

    `node` is the broker of the last line that named one; lines without a name are taken to be its.
    """

    def __init__(self, zone: tzinfo, node: str = "") -> None:
        self._clock = Clock(zone)
        self.node = node

    def time_of(self, line: bytes) -> int | None:
        """When a line was written; None if it does not begin with a time."""
        match = _TIME.search(_text(line[:_HEAD_CHARACTERS]))
        try:
            return None if match is None else self._clock.ms(match)
        except ValueError:
            return None

    def read(self, line: bytes) -> Record | None:
        """The record in a line, if it is one of a coordinator."""
        if not any(mark in line for mark in _MARKS):
            return None
        ts_ms = self.time_of(line)
        if ts_ms is None:
            return None
        text = _text(line).rstrip()
        match = _SPEAKER.search(text) or _UNSIGNED.search(text) or _VERSION.search(text)
        if match is None or _DEBUGGING.search(text, 0, match.start()):
            return None
        if match.re is _SPEAKER:
            self.node = match["node"]
        return Record(ts_ms, self.node, _LOGGER.sub("", match["text"]))


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


# -- all files -------------------------------------------------------------------------------------


_GZIP: Final = b"\x1f\x8b"

#: A line longer than this is read in pieces; none of Kafka's coordinators is.
_LINE_BYTES: Final = 1 << 20

#: How many lines are read between two reports of progress.
_PROGRESS_LINES: Final = 100_000


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with lines of a coordinator: when they begin, and the broker of the first."""

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
    """The log files at `paths`: files, and all files in directories."""
    logs = []
    for path in sorted({found.resolve() for each in paths for found in _files(each)}):
        reading.files += 1
        log = _first_record(path, zone, reading)
        if log is None:
            reading.silent.append(path)
        else:
            logs.append(log)
    return sorted(logs, key=lambda log: (log.first_ms, log.path))


def _files(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise KafkaLogsError(f"There is no {path}.")
    return (each for each in path.iterdir() if each.is_file()) if path.is_dir() else (path,)


def _first_record(path: Path, zone: tzinfo, reading: Reading) -> LogFile | None:
    """Look for a coordinator's first line; None if there is none."""
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
    with naming(path), _open(path) as file:
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
    """The records of a file, none earlier than the one before it."""
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
