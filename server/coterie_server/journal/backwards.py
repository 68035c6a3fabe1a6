"""Reading one group's lines of a journal backwards, from the newest on, without parsing the others.

A journal may hold gigabytes, most of them commits, so blocks of it are searched for the group's
name as bytes.  Only lines of the kinds asked for are handed on, as text.  Blocking: call it in a
thread.  Python's lock is held for one block at a time, less than a millisecond.
"""

from __future__ import annotations

import heapq
import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coterie_protocol.journal import Event, TopicChanged
from coterie_server.journal.segments import find_segments, last_numbers

__all__ = ["BackwardReader", "FoundLine", "ReadLimits", "Segment", "list_segments"]

#: How much is read and searched at a time.
_BLOCK_BYTES: Final = 262_144

#: The envelope of a line up to its number, as `write_line` writes it.
_HEAD: Final = re.compile(rb'\{"v":\d+,"ts":(\d+),"node":"[^"]*","seq":(\d+),')

#: A file of a journal, after its node and the number of its first line.
Segment = tuple[str, int, Path]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of a journal is read at most."""

    bytes_max: int = 256 * 1_048_576
    seconds_max: float = 5.0
    #: The text of the lines found, which is held in memory.
    found_bytes_max: int = 32 * 1_048_576


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line of the group or about a topic, or a place where lines are missing."""

    #: The kind of event; empty where lines are missing.
    kind: str
    text: str


_MISSING: Final = FoundLine("", "")


def list_segments(directory: Path) -> list[Segment]:
    """The files that a journal has now; none if there is no such directory."""
    return list(find_segments(directory)) if directory.is_dir() else []


def _newest_first(segments: Sequence[Segment]) -> Iterator[Segment]:
    """A node's files by their numbers; those of several nodes, as of former node ids, by time."""
    by_node: dict[str, list[Segment]] = {}
    for segment in segments:
        by_node.setdefault(segment[0], []).insert(0, segment)
    if len(by_node) == 1:
        yield from next(iter(by_node.values()))
    else:
        yield from heapq.merge(*by_node.values(), key=_last_ts, reverse=True)


def _last_ts(segment: Segment) -> int:
    try:
        numbers = last_numbers(segment[2])
    except FileNotFoundError:
        return 0
    return numbers[1] if numbers else 0


@dataclass(slots=True)
class BackwardReader:
    """Iterates over a group's lines, newest first; may raise `OSError`.

    Files that are deleted meanwhile count as the journal's beginning.
    """

    segments: Sequence[Segment]
    group: str
    kinds: Collection[type[Event]]
    limits: ReadLimits = field(default_factory=ReadLimits)
    #: Whether a limit was reached before the journal's beginning; known after the iteration.
    reached_limit: bool = False
    #: The date of the oldest line that was looked at; None if there was none.
    oldest_ms: int | None = None
    #: Set from another thread to end the iteration.
    is_stopped: bool = False
    #: The number of the line that follows what was read; None if any number may.
    _next_seq: int | None = None
    _node: str = ""

    def __iter__(self) -> Iterator[FoundLine]:
        pattern, found_bytes, read_bytes = self._pattern(), 0, 0
        until_s = time.monotonic() + self.limits.seconds_max
        for block in self._blocks():
            for line in reversed(self._found_in(block, pattern)):
                yield line
                found_bytes += len(line.text)
            read_bytes += len(block)
            self.reached_limit = (
                read_bytes >= self.limits.bytes_max
                or found_bytes >= self.limits.found_bytes_max
                or time.monotonic() >= until_s
            )
            if self.reached_limit or self.is_stopped:
                return

    def _pattern(self) -> re.Pattern[bytes]:
        name = re.escape(json.dumps(self.group)[1:].encode())
        kinds = b"|".join(each.kind.encode() for each in self.kinds)
        topics = TopicChanged.kind.encode()
        return re.compile(b'"group":"(?:%s,"kind":"(%s)"|","kind":"(%s)")' % (name, kinds, topics))

    def _blocks(self) -> Iterator[bytes]:
        for node, _, path in _newest_first(self.segments):
            if node != self._node:
                self._node, self._next_seq = node, None
            try:
                yield from _blocks_of(path)
            except FileNotFoundError:
                return

    def _found_in(self, block: bytes, pattern: re.Pattern[bytes]) -> list[FoundLine]:
        """The lines of a block that matter, in their order."""
        first, last = _head(block, 0), _head(block, block.rfind(b"\n", 0, -1) + 1)
        if first is not None:
            self.oldest_ms = first[0]
        next_seq, self._next_seq = self._next_seq, first[1] if first else None
        is_whole = (
            first is not None
            and last is not None
            and last[1] - first[1] + 1 == block.count(b"\n")
            and next_seq in (None, last[1] + 1)
        )
        if not is_whole:
            return _found_by_line(block, pattern, next_seq)
        found = []
        for match in pattern.finditer(block):
            begin = block.rfind(b"\n", 0, match.start()) + 1
            found.append(_line(match, block[begin : block.find(b"\n", match.end())]))
        return found


def _blocks_of(path: Path) -> Iterator[bytes]:
    """A file's whole lines in blocks, the last block first; a torn last line is left out."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        rest = b""  # the end of a line that begins further ahead
        is_end = True
        while end > 0:
            begin = max(end - _BLOCK_BYTES, 0)
            file.seek(begin)
            data = file.read(end - begin) + rest
            end = begin
            if is_end:
                data = data[: data.rfind(b"\n") + 1]
                is_end = not data
            cut = data.find(b"\n") + 1 if begin else 0
            rest = data[:cut]
            if len(data) > cut:
                yield data[cut:]


def _head(block: bytes, begin: int) -> tuple[int, int] | None:
    """The date and the number of the line that begins there."""
    match = _HEAD.match(block, begin)
    return (int(match[1]), int(match[2])) if match else None


def _line(match: re.Match[bytes], data: bytes) -> FoundLine:
    kind = match[1] or match[2]
    return FoundLine(kind.decode(), data.decode(errors="replace"))


def _found_by_line(
    block: bytes, pattern: re.Pattern[bytes], next_seq: int | None
) -> list[FoundLine]:
    """The same for a block that lacks lines, or has damaged ones: it is told where."""
    found: list[FoundLine] = []
    expected: int | None = None
    for data in block.split(b"\n")[:-1]:
        head = _head(data, 0)
        if head is None or expected not in (None, head[1]):
            found.append(_MISSING)
        expected = head[1] + 1 if head else None
        match = pattern.search(data)
        if match is not None:
            found.append(_line(match, data))
    if next_seq not in (None, expected):
        found.append(_MISSING)
    return found
