"""Reading one group's lines of a journal backwards, from the newest on, without parsing the others.

A journal may hold gigabytes, most of them commits, so blocks of it are searched for the group's
name as bytes.  Only lines of the kinds asked for are handed on, as text.  Blocking: call it in a
thread.  Python's lock is held for one block at a time, less than a millisecond.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coterie_protocol.file_errors import naming
from coterie_protocol.journal import ClockStepped, Event, NodeStarted, TopicChanged
from coterie_server.journal.segments import find_segments

__all__ = [
    "OF_ALL",
    "BackwardReader",
    "FoundLine",
    "ReadLimits",
    "Segment",
    "blocks_of",
    "files_by_node",
    "list_segments",
]

#: How much is read and searched at a time.
_BLOCK_BYTES: Final = 262_144

#: The envelope of a line up to its number, as `write_line` writes it.
_HEAD: Final = re.compile(rb'\{"v":\d+,"ts":(\d{1,15}),"node":"[^"]*","seq":(\d{1,19}),')
_DATE: Final = re.compile(r'\{"v":\d+,"ts":(\d{1,15}),')

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
    #: Where lines are missing: between which dates, as far as those are known.
    since_ms: int | None = None
    until_ms: int | None = None
    #: When it was by then, if dates of several nodes may disagree and that is known.
    at_ms: int | None = None

    @property
    def date_ms(self) -> int | None:
        """The date of the line; where lines are missing, of a line beside them, if there is one."""
        match = _DATE.match(self.text)
        return self.until_ms or self.since_ms if match is None else int(match[1])


def list_segments(directory: Path) -> list[Segment]:
    """The files that a journal has now; none if there is no such directory."""
    return list(find_segments(directory)) if directory.is_dir() else []


def files_by_node(segments: Iterable[Segment]) -> list[list[Path]]:
    """The files of each node, in the order of their numbers."""
    by_node: dict[str, list[Path]] = {}
    for node, _, path in segments:
        by_node.setdefault(node, []).append(path)
    return list(by_node.values())


#: What matters for all groups: topics that are gone, and how the dates of lines go.
OF_ALL: Final = (TopicChanged.kind, ClockStepped.kind, NodeStarted.kind)

#: The date and the number of a line.
_Head = tuple[int, int]


@dataclass(slots=True)
class _NodeFiles:
    """The files of one node, read backwards in blocks."""

    files: Iterator[Path]
    _of_file: Iterator[bytes] = field(default_factory=lambda: iter(()))
    #: The next block; empty at the journal's beginning.
    block: bytes = b""
    #: The date of its last readable line, or of what was read before.
    last_ms: int = 0
    #: The oldest line that was looked at.
    oldest: _Head | None = None
    #: What was found so far and is not handed on yet, the newest last.
    found: list[FoundLine] = field(default_factory=list)

    @property
    def next_ms(self) -> int:
        """The date of what comes next: a line that was found, or else the end of the next block."""
        date_ms = self.found[-1].date_ms if self.found else None
        return self.last_ms if date_ms is None else date_ms

    def advance(self) -> None:
        """Go on to the next block; files that are deleted meanwhile count as the beginning."""
        self.block = b""
        try:
            while not self.block:
                block = next(self._of_file, None)
                if block is not None:
                    self.block = block
                elif (path := next(self.files, None)) is not None:
                    self._of_file = blocks_of(path)
                else:
                    return
        except FileNotFoundError:
            return
        begin = self.block.rfind(b"\n", 0, -1) + 1
        if (head := _head(self.block, begin)) is not None:
            self.last_ms = head[0]


@dataclass(slots=True)
class BackwardReader:
    """Iterates over a group's lines, newest first; may raise `OSError`.

    Files that are deleted meanwhile count as the journal's beginning.  Lines of several nodes are
    put in order by their dates; those of one node stay as they are.
    """

    segments: Sequence[Segment]
    group: str
    kinds: Collection[type[Event]]
    limits: ReadLimits = field(default_factory=ReadLimits)
    #: Whether a limit was reached before the journal's beginning; known after the iteration.
    reached_limit: bool = False
    #: All lines since then were looked at; None if there were none.
    oldest_ms: int | None = None
    #: Set from another thread to end the iteration.
    is_stopped: bool = False

    def __iter__(self) -> Iterator[FoundLine]:
        pattern, found_bytes, read_bytes = self._pattern(), 0, 0
        until_s = time.monotonic() + self.limits.seconds_max
        left = self._nodes()
        while left := [each for each in left if each.found or (each.block and not self.is_over)]:
            latest = max(left, key=lambda each: each.next_ms)
            if latest.found:
                yield latest.found.pop()
                continue
            read_bytes += len(latest.block)
            latest.found = self._next_block(latest, left, pattern)
            found_bytes += sum(len(line.text) for line in latest.found)
            self.reached_limit = (
                read_bytes >= self.limits.bytes_max
                or found_bytes >= self.limits.found_bytes_max
                or time.monotonic() >= until_s
            )

    @property
    def is_over(self) -> bool:
        """Whether no more is read."""
        return self.reached_limit or self.is_stopped

    def _pattern(self) -> re.Pattern[bytes]:
        name = re.escape(json.dumps(self.group)[1:].encode())
        kinds = b"|".join(each.kind.encode() for each in self.kinds)
        of_all = "|".join(OF_ALL).encode()
        return re.compile(b'"group":"(?:%s,"kind":"(%s)"|","kind":"(%s)")' % (name, kinds, of_all))

    def _nodes(self) -> list[_NodeFiles]:
        nodes = [_NodeFiles(reversed(paths)) for paths in files_by_node(self.segments)]
        for each in nodes:
            each.advance()
        return nodes

    def _next_block(
        self, latest: _NodeFiles, left: Sequence[_NodeFiles], pattern: re.Pattern[bytes]
    ) -> list[FoundLine]:
        """What is found in a node's next block, which ends later than those of the others."""
        block = latest.block
        latest.advance()
        # Of what is before the last lines of the others, nothing was read yet.
        begins = _head(block, 0)
        known = [each.last_ms for each in left if each.block and each is not latest]
        known += [] if begins is None else [begins[0]]
        self.oldest_ms = max(known, default=self.oldest_ms)
        return self._found_in(latest, block, pattern)

    def _found_in(
        self, files: _NodeFiles, block: bytes, pattern: re.Pattern[bytes]
    ) -> list[FoundLine]:
        """The lines of a block that matter, in their order."""
        first, last = _head(block, 0), _head(block, block.rfind(b"\n", 0, -1) + 1)
        after, files.oldest = files.oldest, first
        is_whole = (
            first is not None
            and last is not None
            and last[1] - first[1] + 1 == block.count(b"\n")
            and (after is None or after[1] == last[1] + 1)
        )
        if not is_whole:
            return _found_by_line(block, pattern, after)
        found = []
        for match in pattern.finditer(block):
            begin = block.rfind(b"\n", 0, match.start()) + 1
            found.append(_line(match, block[begin : block.find(b"\n", match.end())]))
        return found


def blocks_of(path: Path, end: int | None = None) -> Iterator[bytes]:
    """A file's whole lines in blocks, the last block first; a torn last line is left out.

    Of a file that may have grown, what is before an end that is given is read.
    """
    with naming(path), path.open("rb") as file:
        end = file.seek(0, 2) if end is None else end
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


def _head(block: bytes, begin: int) -> _Head | None:
    """The date and the number of the line that begins there."""
    match = _HEAD.match(block, begin)
    return (int(match[1]), int(match[2])) if match else None


def _line(match: re.Match[bytes], data: bytes) -> FoundLine:
    kind = match[1] or match[2]
    return FoundLine(kind.decode(), data.decode(errors="replace"))


def _found_by_line(
    block: bytes, pattern: re.Pattern[bytes], after: _Head | None
) -> list[FoundLine]:
    """The same for a block that lacks lines, or has damaged ones: it is told where."""
    found: list[FoundLine] = []
    last: _Head | None = None
    is_first = True
    for data in block.split(b"\n")[:-1]:
        head = _head(data, 0)
        if head is None or not (is_first or (last is not None and head[1] == last[1] + 1)):
            found.append(_missing(last, head))
        last, is_first = head or last, False
        match = pattern.search(data)
        if match is not None:
            found.append(_line(match, data))
    if after is not None and (last is None or after[1] != last[1] + 1):
        found.append(_missing(last, after))
    return found


def _missing(before: _Head | None, after: _Head | None) -> FoundLine:
    return FoundLine("", "", before[0] if before else None, after[0] if after else None)
