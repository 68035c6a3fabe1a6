"""Which files a journal has, how far they are read, and how far to read next; without any I/O.

A node writes one file after the other and never touches one again after it began the next.  Only
that tells a line that is being written from one that a crash cut off, so a segment is *closed* if a
later one of its node is beside it, or if it was compressed.

An offset has for each segment the number of bytes of its text that were read; WHOLE stands for all
of a compressed one.  It keeps the segments that are there, and the last one of each node for ever.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from coterie_pipeline.packing import text_bytes

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
    "shorter",
    "survey",
    "time_of",
    "writer_of",
]

_NAME: Final = re.compile(
    r"(?P<stem>journal-(?P<node>.+)-(?P<number>[0-9]{16})\.jsonl)(?P<packed>\.gz|\.zst)?"
)

#: What writes files one after the other: a node in a directory.  Nodes of one name in two
#: directories may be two nodes.
Writer = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal."""

    #: Its path without the suffix of a compressed file, which stays the same when it is compressed.
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

    @property
    def text_bytes(self) -> int:
        """About how much text it has."""
        return text_bytes(self.path, self.size)


@dataclass(frozen=True, slots=True, order=True)
class _Found:
    writer: Writer
    number: int
    is_packed: bool
    key: str
    path: str
    size: int


def survey(files: Iterable[tuple[str, int]]) -> tuple[Segment, ...]:
    """The segments among files, given as path and size: by writer, and by number.

    If a segment is there both plain and compressed, the plain file is taken, as the other one may
    still be being written.
    """
    found = sorted(filter(None, (_read_name(path, size) for path, size in files)))
    return tuple(
        segment
        for _, writer in groupby(found, key=lambda each: each.writer)
        for segment in _segments_of(list(writer))
    )


def writer_of(key: str) -> tuple[Writer, int] | None:
    """The writer and first number of a segment's path; None for any other path."""
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

#: All of a compressed segment, as the length of its text is known only after reading it.
WHOLE: Final = -1

#: The number of steps in which a batch is shared out by time.
_STEPS: Final = 32

_TIME: Final = re.compile(rb'"ts":\s*([0-9]{1,18})')


class LineLookup(Protocol):
    """What has to be looked up in the content of files."""

    def line_end(self, segment: Segment, start: int, upto: int) -> int:
        """The last position after a line feed that is no further than `upto`, if there is one.

        A longer line is taken as a whole; `start` means that there is no whole line.  In a closed
        segment, what follows the last line feed is a line as well.
        """
        ...

    def time_at(self, segment: Segment, start: int) -> int:
        """The time of the line that begins there; 0 if it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a segment's text: from one byte up to another one, or WHOLE."""

    key: str
    start: int
    end: int


def time_of(beginning: bytes) -> int:
    """The time in the beginning of a line; 0 if there is none."""
    match = _TIME.search(beginning)
    return int(match[1]) if match is not None else 0


def advance(
    start: Offset, segments: Sequence[Segment], limit_bytes: int | None, lookup: LineLookup
) -> dict[str, int]:
    """The offset up to which to read after `start`: about `limit_bytes` further, or to the end.

    Half of the limit is shared out equally, so that no node waits for another one.  The other half
    goes to the node whose next line is the oldest, so that all come up to date side by side.
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
    """The part of an offset that is still needed: nodes delete their files from the oldest on."""
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
    """A position in the segments of one writer."""

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
        """Advance by about `room` bytes, and at least by one line; return by how many."""
        gone = 0
        while self._waiting and (room is None or gone < room or gone == 0):
            segment = self._waiting[-1]
            position = self._position(segment)
            end = self._end(segment, position, None if room is None else room - gone)
            if end != position:
                self.reached[segment.key] = end
            gone += segment.text_bytes if end == WHOLE else end - position
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
    # A file that is shorter than what was read of it is being copied again.
    return position != WHOLE and (segment.is_packed or segment.size > position)


def behind_bytes(offset: Offset, segments: Iterable[Segment]) -> int:
    """About how much text there is to read after an offset."""
    behind = 0
    for segment in segments:
        position = offset.get(segment.key, 0)
        if _is_behind(segment, position):
            behind += max(segment.text_bytes - position, 0)
    return behind


def shorter(offset: Offset, segments: Iterable[Segment]) -> list[str]:
    """The files that have less than was read of them: copied again, or begun anew."""
    return [
        segment.path
        for segment in segments
        if not segment.is_packed and segment.size < offset.get(segment.key, 0)
    ]


def ranges(start: Offset, end: Offset) -> list[Range]:
    """The ranges between two offsets."""
    return [
        Range(key, start.get(key, 0), position)
        for key, position in end.items()
        if position != start.get(key, 0)
    ]
