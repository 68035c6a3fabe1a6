"""Journal files, some lines of which may be unreadable.

A node that is killed leaves half a line behind, a disk that was full leaves a gap, a newer Coterie
writes kinds that this one does not know.  None of that stops a reader: it carries on and reports
what it found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol.journal import JournalError, Line, NodeStarted, NodeStopped, read_line

__all__ = [
    "SEGMENT",
    "Audit",
    "BadLine",
    "Gap",
    "JournalReport",
    "NodeReport",
    "read_lines",
    "segment_name",
]

_DIGITS: Final = 16

#: The names of a journal's files, before they are compressed.
SEGMENT: Final = re.compile(rf"journal-(?P<node>.+)-(?P<seq>[0-9]{{{_DIGITS}}})\.jsonl")

#: How much of an unreadable line is shown.
_EXCERPT_CHARACTERS: Final = 120

#: How many gaps and unreadable lines a report lists; it counts all of them.
_EXAMPLES_MAX: Final = 100


def segment_name(node: str, first_seq: int) -> str:
    """The name of the file whose first line has this number; names sort as the numbers do."""
    return f"journal-{node}-{first_seq:0{_DIGITS}}.jsonl"


@dataclass(frozen=True, slots=True)
class BadLine:
    """An unreadable line and its place."""

    source: str
    #: Counted from 1.
    number: int
    why: str
    excerpt: str
    #: It is the last line and has no line break: its writer was killed, or is still writing it.
    torn: bool = False
    #: The line's node and number, if they could be read.
    node: str | None = None
    seq: int | None = None


def read_lines(texts: Iterable[str | bytes], source: str = "") -> Iterator[Line | BadLine]:
    """Read lines, each with its line break, as files yield them.

    A line without a line break is torn, even if it could be read: a node that restarts after a
    crash continues after its last whole line and uses the number of the torn one again.
    """
    for number, text in enumerate(texts, start=1):
        if text[-1:] not in ("\n", b"\n"):
            yield BadLine(source, number, "it does not end", _excerpt(text), torn=True)
            continue
        try:
            yield read_line(text)
        except JournalError as error:
            why, excerpt = str(error), _excerpt(text)
            yield BadLine(source, number, why, excerpt, node=error.node, seq=error.seq)


def _excerpt(text: str | bytes) -> str:
    start = text[: 4 * _EXCERPT_CHARACTERS]
    shown = start if isinstance(start, str) else start.decode(errors="replace")
    return shown.rstrip("\n")[:_EXCERPT_CHARACTERS]


# -- whether a journal is whole ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing numbers between two lines of a node."""

    node: str
    after: int
    before: int

    @property
    def missing(self) -> int:
        """How many lines are missing."""
        return self.before - self.after - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The state of one node's journal."""

    node: str
    lines: int
    first_seq: int
    last_seq: int
    first_ts: int
    last_ts: int
    #: How many lines are missing between the first and the last, and where.
    missing: int
    gaps: tuple[Gap, ...]
    #: Lines whose number is not higher than the previous one: files given twice or out of order.
    repeated: int
    starts: int
    #: Starts without a stop in good order since the start before.
    crashes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReport:
    """The state of a journal."""

    lines: int
    nodes: Mapping[str, NodeReport]
    torn: int
    #: Unreadable lines other than torn ones.
    bad: int
    examples: tuple[BadLine, ...]

    @property
    def missing(self) -> int:
        """How many lines are missing, over all nodes."""
        return sum(node.missing for node in self.nodes.values())

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing, repeated or unreadable, apart from torn lines of crashes."""
        repeated = sum(node.repeated for node in self.nodes.values())
        return not (self.missing or self.bad or repeated)


@dataclass(slots=True)
class _Node:
    first: Line
    last_seq: int
    last_ts: int
    lines: int = 0
    missing: int = 0
    gaps: list[Gap] = field(default_factory=list)
    repeated: int = 0
    starts: int = 0
    crashes: int = 0
    is_running: bool = False  # by the last start or stop; recovered groups precede a start


class Audit:
    """Takes the lines of a journal one by one and reports whether it is whole."""

    def __init__(self) -> None:
        self._lines = 0
        self._nodes: dict[str, _Node] = {}
        self._torn = 0
        self._bad = 0
        self._examples: list[BadLine] = []

    def note(self, entry: Line | BadLine) -> None:
        """Take the next line."""
        if isinstance(entry, Line):
            self._note_line(entry)
        else:
            self._note_bad(entry)

    def report(self) -> JournalReport:
        """Report on the lines so far."""
        return JournalReport(
            lines=self._lines,
            nodes={name: _report(name, node) for name, node in self._nodes.items()},
            torn=self._torn,
            bad=self._bad,
            examples=tuple(self._examples),
        )

    def _note_line(self, line: Line) -> None:
        self._lines += 1
        node = self._nodes.get(line.node)
        if node is None:
            node = self._nodes[line.node] = _Node(line, line.seq - 1, line.ts)
        node.lines += 1
        node.last_ts = line.ts
        _count_on(node, line.node, line.seq)
        if isinstance(line.event, NodeStarted):
            node.starts += 1
            node.crashes += node.is_running
            node.is_running = True
        elif isinstance(line.event, NodeStopped):
            node.is_running = False

    def _note_bad(self, bad: BadLine) -> None:
        self._torn += bad.torn
        self._bad += not bad.torn
        if len(self._examples) < _EXAMPLES_MAX:
            self._examples.append(bad)
        if bad.node in self._nodes and bad.seq is not None:
            # It is unreadable, but it is not missing.
            _count_on(self._nodes[bad.node], bad.node, bad.seq)


def _count_on(node: _Node, name: str, seq: int) -> None:
    if seq <= node.last_seq:
        node.repeated += 1
        return
    if seq > node.last_seq + 1:
        gap = Gap(name, node.last_seq, seq)
        node.missing += gap.missing
        if len(node.gaps) < _EXAMPLES_MAX:
            node.gaps.append(gap)
    node.last_seq = seq


def _report(name: str, node: _Node) -> NodeReport:
    return NodeReport(
        node=name,
        lines=node.lines,
        first_seq=node.first.seq,
        last_seq=node.last_seq,
        first_ts=node.first.ts,
        last_ts=node.last_ts,
        missing=node.missing,
        gaps=tuple(node.gaps),
        repeated=node.repeated,
        starts=node.starts,
        crashes=node.crashes,
    )
