"""How far journals are read, and how far to read next: pure arithmetic over segments.

An offset says for each segment how many bytes of its text were read; WHOLE stands for all of a
compressed one.  It names the segments that are there, and the last one of each node for ever.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

__all__ = [
    "WHOLE",
    "LineLookup",
    "Offset",
    "Range",
    "Segment",
    "Writer",
    "advance",
    "behind_bytes",
    "ranges",
    "survey",
    "time_of",
    "writer_of",
]

_NAME: Final = re.compile(
    r"(?P<stem>journal-(?P<node>.+)-(?P<number>[0-9]{16})\.jsonl)(?P<packed>\.gz|\.zst)?"
)

#: Whose files follow each other: a directory and a node.  Nodes of one name in two directories
#: may be two nodes, which both write.
Writer = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal."""

    #: Its path without what compressing it added.  A segment keeps it, so it is read once.
    key: str
    #: The file to read.
    path: str
    writer: Writer
    #: The number of its first line.
    number: int
    #: The bytes of the file.
    size: int
    #: Nothing is written into it any more.
    is_closed: bool

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed."""
        return self.path != self.key


@dataclass(frozen=True, slots=True, order=True)
class _Found:
    writer: Writer
    number: int
    is_packed: bool
    key: str
    path: str
    size: int


def survey(files: Iterable[tuple[str, int]]) -> tuple[Segment, ...]:
    """The segments among files, given as path and size: writer by writer, each in its order.

    Of a segment that is there both plain and compressed the plain file is taken, for the other one
    may just be being written.
    """
    found = sorted(filter(None, (_read_name(path, size) for path, size in files)))
    return tuple(
        segment
        for _, writer in groupby(found, key=lambda each: each.writer)
        for segment in _segments_of(list(writer))
    )


def writer_of(key: str) -> tuple[Writer, int] | None:
    """The writer and first number of a path; None if it is no segment's."""
    found = _read_name(key, 0)
    return (found.writer, found.number) if found is not None else None


def _read_name(path: str, size: int) -> _Found | None:
    directory, slash, name = path.rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    key = directory + slash + match["stem"]
    is_packed = match["packed"] is not None
    return _Found((directory, match["node"]), int(match["number"]), is_packed, key, path, size)


def _segments_of(writer: list[_Found]) -> Iterator[Segment]:
    newest = writer[-1].number
    for _, copies in groupby(writer, key=lambda each: each.number):
        each = next(copies)
        is_closed = each.is_packed or each.number < newest
        yield Segment(each.key, each.path, each.writer, each.number, each.size, is_closed)


# -- how far they are read -------------------------------------------------------------------------


#: Bytes that were read, by the segment's key.
Offset = Mapping[str, int]

#: All of a compressed segment: how much text that is, only reading it tells.
WHOLE: Final = -1

#: How much text a byte of a compressed journal stands for, about.
_PACKED: Final = 8

#: Into so many parts a batch is divided to be shared out by time.
_STEPS: Final = 32

_TIME: Final = re.compile(rb'"ts":\s*([0-9]{1,18})')


class LineLookup(Protocol):
    """What has to be looked up within files."""

    def line_end(self, segment: Segment, start: int, upto: int) -> int:
        """Where to stop that is after a line feed and no further than `upto`, if possible.

        A line that is longer than that is taken as a whole; `start` stands for no line at all.
        Of a closed segment, what follows the last line feed is a line as well.
        """
        ...

    def time_at(self, segment: Segment, start: int) -> int:
        """The time of the line that begins there, 0 if that can't be told."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """Text to read: from one byte up to another one, or to the end."""

    key: str
    start: int
    end: int


def time_of(beginning: bytes) -> int:
    """The time of a line, from its beginning; 0 if that can't be told."""
    match = _TIME.search(beginning)
    return int(match[1]) if match is not None else 0


def advance(
    start: Offset, segments: Sequence[Segment], limit_bytes: int | None, lookup: LineLookup
) -> dict[str, int]:
    """The offset to read up to from `start`: about so many bytes further at most, or to the end.

    No node waits for another one: half of the limit is shared out equally.  The other half goes to
    whoever's next line is the oldest, so that nodes come up to date side by side.
    """
    writers = [
        _Cursor(list(writer), start, lookup)
        for _, writer in groupby(segments, key=lambda segment: segment.writer)
    ]
    if limit_bytes is None:
        for writer in writers:
            writer.go_on(None)
    else:
        _share_out([writer for writer in writers if writer.is_waiting], limit_bytes)
    reached = {key: end for writer in writers for key, end in writer.reached.items()}
    return _kept(start, segments) | reached if reached else dict(start)


def _share_out(writers: list[_Cursor], limit_bytes: int) -> None:
    left = limit_bytes
    for writer in writers:
        left -= writer.go_on(limit_bytes // (2 * len(writers)))
    step = max(limit_bytes // _STEPS, 1)
    by_time = [
        (writer.next_time, index) for index, writer in enumerate(writers) if writer.is_waiting
    ]
    heapq.heapify(by_time)
    while by_time and left >= step:
        _, index = heapq.heappop(by_time)
        left -= writers[index].go_on(step)
        if writers[index].is_waiting:
            heapq.heappush(by_time, (writers[index].next_time, index))


def _kept(start: Offset, segments: Iterable[Segment]) -> dict[str, int]:
    """What is still to be remembered: nodes delete their files from the oldest on."""
    present = {segment.key for segment in segments}
    newest: dict[Writer, int] = {}
    for segment in segments:
        newest[segment.writer] = segment.number
    kept = {}
    for key, position in start.items():
        place = writer_of(key)
        if key in present or place is None or place[1] > newest.get(place[0], -1):
            kept[key] = position
    return kept


class _Cursor:
    """The way through the segments of one writer."""

    def __init__(self, segments: list[Segment], start: Offset, lookup: LineLookup) -> None:
        self._lookup = lookup
        self._start = start
        self._waiting = [each for each in segments if _is_behind(each, start.get(each.key, 0))]
        self._waiting.reverse()
        self.reached: dict[str, int] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether there may be more to read."""
        return bool(self._waiting)

    @property
    def next_time(self) -> int:
        """The time of the line that comes next."""
        segment = self._waiting[-1]
        return self._lookup.time_at(segment, self._position(segment))

    def go_on(self, room: int | None) -> int:
        """Go on by about so many bytes, and at least by one line; say by how many."""
        gone = 0
        while self._waiting and (room is None or gone < room or gone == 0):
            segment = self._waiting[-1]
            position = self._position(segment)
            end = self._end(segment, position, None if room is None else room - gone)
            if end != position:
                self.reached[segment.key] = end
            gone += segment.size * _PACKED if end == WHOLE else end - position
            if end in (WHOLE, position) or end >= segment.size:
                self._waiting.pop()
            else:
                break
        return gone

    def _position(self, segment: Segment) -> int:
        return self.reached.get(segment.key, self._start.get(segment.key, 0))

    def _end(self, segment: Segment, position: int, room: int | None) -> int:
        if segment.is_packed:
            return WHOLE
        upto = segment.size if room is None else min(position + max(room, 1), segment.size)
        return self._lookup.line_end(segment, position, upto)


def _is_behind(segment: Segment, position: int) -> bool:
    # A file that is shorter than what was read of it is being copied anew: its text will come back.
    return position != WHOLE and (segment.is_packed or segment.size > position)


def behind_bytes(offset: Offset, segments: Iterable[Segment]) -> int:
    """How much there is to read after an offset, about."""
    behind = 0
    for segment in segments:
        position = offset.get(segment.key, 0)
        if _is_behind(segment, position):
            size = segment.size * _PACKED if segment.is_packed else segment.size
            behind += max(size - position, 0)
    return behind


def ranges(start: Offset, end: Offset) -> list[Range]:
    """What lies between two offsets."""
    return [
        Range(key, start.get(key, 0), position)
        for key, position in end.items()
        if position != start.get(key, 0)
    ]
