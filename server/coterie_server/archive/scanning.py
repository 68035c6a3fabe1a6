"""Reading journals once, from beginning to end, and noting where each group's lines are.

Nearly all lines of a journal are commits, which are recognized by their text and only counted; all
others are judged by the code that judges lines everywhere.  Of each, a few numbers are held: forty
bytes.  A compressed file can't be read from the middle, so its lines are copied to a temporary one.
"""

from __future__ import annotations

import re
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from coterie_protocol.journal import JournalError, OffsetsCommitted, read_values
from coterie_protocol.replay import ClockSteps, Deletion, clocks_of
from coterie_protocol.replay.clock_steps import Step, step_of
from coterie_server.archive.standing import STANDING
from coterie_server.journal.packed import ArchiveError, DamagedError, is_packed, lines_of

__all__ = ["NodeLines", "Scan", "Unread", "scan"]

# Commits as Coterie writes them; those of another form are judged like other lines.
_NAME: Final = rb'"[^"\\\x00-\x1f]*+"'
_DATE: Final = rb"(?:0|[1-9][0-9]{0,11}|[1-3][0-9]{12})"
_COUNT: Final = rb"(?:0|[1-9][0-9]{0,8})"
_OFFSET: Final = rb"(?:0|[1-9][0-9]{0,17})"
_OFFSETS: Final = rb'"%s":%s' % (_COUNT, _OFFSET)
_TOPIC: Final = rb"%s:\{(?:%s(?:,%s)*)?\}" % (_NAME, _OFFSETS, _OFFSETS)
_COMMIT: Final = re.compile(
    rb'\{"v":1,"ts":(%s),"node":(%s),"seq":(%s),"group":(%s),"kind":"offsets_committed",'
    rb'"member":%s,"generation":-?%s,"offsets":\{(?:%s(?:,%s)*)?\}\}\n'
    % (_DATE, _NAME, _OFFSET, _NAME, _NAME, _COUNT, _TOPIC, _TOPIC)
)

#: How many unreadable lines are named, and how much of each is shown.
_UNREAD_MAX: Final = 100
_EXCERPT: Final = 120
#: How many places are noted where lines are missing.
_MISSING_MAX: Final = 10_000
#: After how many lines progress is told.
_TELL_LINES: Final = 20_000
#: Fewer bits would do for all but a few; whole bytes are what arrays have.
_FILES_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that can't be read."""

    path: str
    #: Counted from 1.
    number: int
    why: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.number}: {self.why}"


@dataclass(slots=True)
class NodeLines:
    """What is there of one node's journal."""

    first_ms: int
    last_ms: int
    last_seq: int
    lines: int = 0
    #: Whether numbers are missing before a line that can't be read, and so has no date.
    lacks: bool = False

    def note_number(self, seq: int) -> None:
        """Take note of the next line, by its number."""
        self.lacks = self.lacks or seq > self.last_seq + 1
        self.last_seq = max(self.last_seq, seq)


@dataclass(slots=True, weakref_slot=True)
class Scan:
    """What was found, and where."""

    files: list[Path] = field(default_factory=list)
    #: The lines of compressed files; it has the last number of all files.
    copied: IO[bytes] | None = None
    names: list[str] = field(default_factory=list)
    #: The numbers of groups by name.
    numbers: dict[str, int] = field(default_factory=dict)
    #: By number of the group: the date of its last line of any kind.
    last_ms: array[int] = field(default_factory=lambda: array("q"))
    #: Of each line about a group but commits: its group, file, place in it, date, whether it
    #: starts a rebalance, and the fence under which its node had the group: 0 if that is unknown,
    #: and negative if the group was without members since.
    groups: array[int] = field(default_factory=lambda: array("I"))
    places: array[int] = field(default_factory=lambda: array("q"))
    in_files: array[int] = field(default_factory=lambda: array("H"))
    dates: array[int] = field(default_factory=lambda: array("q"))
    starts: bytearray = field(default_factory=bytearray)
    fences: array[int] = field(default_factory=lambda: array("q"))
    #: The lines by which something was ordered of a group, or by which it was deleted.
    orders: dict[int, list[int]] = field(default_factory=dict)
    #: The groups that were deleted.
    deleted: set[int] = field(default_factory=set)
    #: The lines of group after group, and where those of each begin.
    by_group: array[int] = field(default_factory=lambda: array("I"))
    begins: array[int] = field(default_factory=lambda: array("I"))
    nodes: dict[str, NodeLines] = field(default_factory=dict)
    #: By topic, when it was deleted and by which node's clock, the earliest first.
    deletions: dict[str, list[Deletion]] = field(default_factory=dict)
    #: The steps of nodes' clocks, and their starts.
    steps: list[Step] = field(default_factory=list)
    #: By node, how its clock was set.
    clocks: Mapping[str, ClockSteps] = field(default_factory=dict)
    #: Where numbers are missing: between which dates.
    missing: list[tuple[int, int]] = field(default_factory=list)
    #: Nodes of which different lines have one number: one that began anew, or two of one name.
    mixed: set[str] = field(default_factory=set)
    lines: int = 0
    commits: int = 0
    unread: int = 0
    torn: int = 0
    #: The first of them.
    examples: list[Unread] = field(default_factory=list)

    def number_of(self, group: str) -> int:
        """The number of a group, a new one for one that was not seen before."""
        number = self.numbers.get(group)
        if number is None:
            number = self.numbers[group] = len(self.names)
            self.names.append(group)
            self.last_ms.append(0)
        return number

    def lines_of_group(self, group: str) -> Sequence[int]:
        """The numbers of a group's lines; none if there is no such group."""
        number = self.numbers.get(group)
        return (
            () if number is None else self.by_group[self.begins[number] : self.begins[number + 1]]
        )

    def finish(self) -> None:
        """Sort the lines by group, and deletions by their dates."""
        for each in self.deletions.values():
            each.sort()
        self.clocks = clocks_of(self.steps)
        counts = [0] * (len(self.names) + 1)
        for group in self.groups:
            counts[group + 1] += 1
        self.begins = array("I", accumulate(counts))
        self.by_group = array("I", bytes(4 * len(self.groups)))
        place = self.begins[:]
        for number, group in enumerate(self.groups):
            self.by_group[place[group]] = number
            place[group] += 1


def scan(files: Sequence[Path], progress: Callable[[int], None] = lambda _: None) -> Scan:
    """Read files; `progress` is told the number of lines now and then.

    May raise `ArchiveError`.
    """
    if len(files) >= _FILES_MAX:
        raise ArchiveError(f"These are {len(files):,} files; give at most {_FILES_MAX - 1:,}.")
    return _Scanner(Scan(list(files)), progress).scan()


class _Scanner:
    """Reads file after file."""

    def __init__(self, found: Scan, progress: Callable[[int], None]) -> None:
        self._found = found
        self._progress = progress
        #: The numbers of groups by their names as they stand in lines.
        self._quoted: dict[bytes, int] = {}
        self._copied_bytes = 0
        #: The line that is being read, and whether one was in its file before.
        self._line = b""
        self._has_begun = False
        #: The checksums of the first lines of files, by their nodes and numbers.
        self._heads: dict[tuple[str, int], int] = {}
        #: The node whose lines are being read, and the fences under which it has groups.
        self._node = ""
        self._fences: dict[int, int] = {}

    def scan(self) -> Scan:
        for number, path in enumerate(self._found.files):
            try:
                with closing(lines_of(path)) as lines:
                    self._read(lines, number, str(path))
            except OSError as error:
                raise ArchiveError(f"{path} can't be read: {error.strerror or error}.") from error
        self._found.finish()
        return self._found

    def _read(self, lines: Iterator[bytes], number: int, path: str) -> None:
        offset, line_number, self._has_begun = 0, 0, False
        copies = is_packed(self._found.files[number])
        while True:
            try:
                line = next(lines, None)
            except DamagedError as error:
                self._refuse(path, line_number + 1, str(error), b"")
                return
            if line is None:
                return
            line_number += 1
            self._line = line
            self._take(line, number, offset, copies=copies, where=(path, line_number))
            offset += len(line)
            if line_number % _TELL_LINES == 0:
                self._progress(self._found.lines)

    def _take(
        self, line: bytes, number: int, offset: int, *, copies: bool, where: tuple[str, int]
    ) -> None:
        commit = _COMMIT.fullmatch(line)
        if commit is not None and line.isascii():
            self._take_commit(commit)
        elif not line.endswith(b"\n"):
            self._found.torn += 1
            self._refuse(*where, "it does not end: its node was killed, or is still writing", line)
        elif not line.isspace():
            try:
                values = read_values(line)
            except JournalError as error:
                self._found.unread += 1
                self._pass_over(error)
                self._refuse(*where, str(error), line)
                return
            self._take_values(values, line, number, offset, copies=copies)

    def _take_commit(self, commit: re.Match[bytes]) -> None:
        ts, node, seq, quoted = commit.groups()
        group = self._quoted.get(quoted)
        if group is None:
            group = self._quoted[quoted] = self._found.number_of(quoted[1:-1].decode())
        self._count(node[1:-1].decode(), int(seq), int(ts), group)
        self._found.commits += 1

    def _take_values(
        self, values: dict[str, Any], line: bytes, number: int, offset: int, *, copies: bool
    ) -> None:
        found, kind, ts = self._found, values["kind"], values["ts"]
        name = values["group"]
        group = found.number_of(name) if name else None
        self._count(values["node"], values["seq"], ts, group)
        if kind == "topic_changed" and values["change"] == "deleted":
            found.deletions.setdefault(values["topic"], []).append((ts, values["node"]))
        if (step := step_of(values)) is not None:
            found.steps.append(step)
        if group is None or kind == OffsetsCommitted.kind:
            return
        if kind in STANDING or (kind == "group_deleted" and group in found.orders):
            found.orders.setdefault(group, []).append(len(found.groups))
        if kind == "group_deleted":
            found.deleted.add(group)
        if copies:
            number, offset = len(found.files), self._copy(line)
        found.groups.append(group)
        found.in_files.append(number)
        found.places.append(offset)
        found.dates.append(ts)
        found.starts.append(kind == "rebalance_started")
        found.fences.append(self._fence(group, values))

    def _fence(self, group: int, values: dict[str, Any]) -> int:
        """Under which fence a line was written, as `Scan` has it; a node's files come in order."""
        if values["node"] != self._node:
            self._node = values["node"]
            self._fences.clear()
        if values["kind"] == "group_recovered":
            self._fences[group] = values["fence"] or 0
        elif values.get("from_state") == "Empty":
            self._fences[group] = -abs(self._fences.get(group, 0))
        return self._fences.get(group, 0)

    def _copy(self, line: bytes) -> int:
        found = self._found
        if found.copied is None:
            found.copied = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the scan
            weakref.finalize(found, found.copied.close)
        found.copied.write(line)
        place, self._copied_bytes = self._copied_bytes, self._copied_bytes + len(line)
        return place

    def _count(self, node: str, seq: int, ts: int, group: int | None) -> None:
        found = self._found
        found.lines += 1
        if group is not None and found.last_ms[group] < ts:
            found.last_ms[group] = ts
        known = found.nodes.get(node)
        if not self._has_begun:
            self._begin_file(node, seq, known)
        if known is None:
            known = found.nodes[node] = NodeLines(ts, ts, seq - 1)
        known.note_number(seq)
        if known.lacks and len(found.missing) < _MISSING_MAX:
            found.missing.append((known.last_ms, ts))
        known.lacks = False
        known.last_ms = max(known.last_ms, ts)
        known.lines += 1

    def _pass_over(self, error: JournalError) -> None:
        """Note that a line is there, and so not missing, that can't be read."""
        known = self._found.nodes.get(error.node or "")
        if known is not None and error.seq is not None:
            known.note_number(error.seq)

    def _begin_file(self, node: str, seq: int, known: NodeLines | None) -> None:
        """Note whether a file begins with a number that a node has used, and is no copy."""
        self._has_begun, digest = True, crc32(self._line)
        if known is not None and seq <= known.last_seq and self._heads.get((node, seq)) != digest:
            self._found.mixed.add(node)
        self._heads[node, seq] = digest

    def _refuse(self, path: str, number: int, why: str, line: bytes) -> None:
        if len(self._found.examples) < _UNREAD_MAX:
            excerpt = line[: 4 * _EXCERPT].decode(errors="replace").rstrip("\n")[:_EXCERPT]
            self._found.examples.append(Unread(path, number, why, excerpt))
