"""Which files a journal has, as they are found: pure, from names and sizes.

A node writes one file after the other and never touches one again after it began the next.  That
is all that tells a line that is being written from one that a crash cut off, so a segment is
*closed* if there is a later one of its node beside it, or if somebody has compressed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

__all__ = ["Lane", "Segment", "lane_of", "survey"]

_NAME: Final = re.compile(
    r"(?P<stem>journal-(?P<node>.+)-(?P<number>[0-9]{16})\.jsonl)(?P<packed>\.gz|\.zst)?"
)

#: Whose files follow each other: a directory and a node.  Nodes of one name in two directories
#: may be two nodes, which both write.
Lane = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal."""

    #: Its path without what compressing it added.  A segment keeps it, so it is read once.
    key: str
    #: The file to read.
    path: str
    lane: Lane
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
    lane: Lane
    number: int
    is_packed: bool
    key: str
    path: str
    size: int


def survey(files: Iterable[tuple[str, int]]) -> tuple[Segment, ...]:
    """The segments among files, given as path and size: lane by lane, each in its order.

    Of a segment that is there both plain and compressed the plain file is taken, for the other one
    may just be being written.
    """
    found = sorted(filter(None, (_read_name(path, size) for path, size in files)))
    return tuple(
        segment
        for _, lane in groupby(found, key=lambda each: each.lane)
        for segment in _segments_of(list(lane))
    )


def lane_of(key: str) -> tuple[Lane, int] | None:
    """The lane and first number of a path; None if it is no segment's."""
    found = _read_name(key, 0)
    return (found.lane, found.number) if found is not None else None


def _read_name(path: str, size: int) -> _Found | None:
    directory, slash, name = path.rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    key = directory + slash + match["stem"]
    is_packed = match["packed"] is not None
    return _Found((directory, match["node"]), int(match["number"]), is_packed, key, path, size)


def _segments_of(lane: list[_Found]) -> Iterator[Segment]:
    newest = lane[-1].number
    for _, copies in groupby(lane, key=lambda each: each.number):
        each = next(copies)
        is_closed = each.is_packed or each.number < newest
        yield Segment(each.key, each.path, each.lane, each.number, each.size, is_closed)
