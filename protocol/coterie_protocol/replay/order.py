"""The lines of a group in one order, with a time that never goes back.

Within one node the numbers give the order.  Between nodes, whose clocks may disagree, the group's
generation does, as it never goes back, and within a generation the fences under which they read it.
What a node writes from one reading of the group to the next is a *stint*; stints are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol.replay.spool import Spool

__all__ = ["GroupLines", "Placed", "Source"]

#: The generation of a stint in which none is named.
_BEFORE_ALL: Final = -1

#: About the size of a line, for lines whose text is not at hand.
_LINE_BYTES: Final = 400


@dataclass(frozen=True, slots=True)
class Source:
    """A control line as it comes: by node and number, and each number of a node once."""

    node: str
    seq: int
    ts: int
    #: The line's fields.
    values: Mapping[str, Any]
    size: int = _LINE_BYTES


@dataclass(slots=True)
class Placed:
    """A line in its place."""

    #: From 1 on.
    pos: int
    at: int
    ts: int
    node: str
    kind: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:  # any JSON
        return self.values.get(name)


@dataclass(slots=True)
class _Stint:
    begin: int
    node: str
    seq: int
    since_ms: int
    fence: int
    generation: int | None = None
    end: int = 0

    def rank(self) -> tuple[int, int, int, str, int]:
        generation = _BEFORE_ALL if self.generation is None else self.generation
        return generation, self.fence, self.since_ms, self.node, self.seq


class GroupLines:
    """All control lines of one group, to be read in order as often as wanted."""

    def __init__(self, lines: Iterable[Source] = ()) -> None:
        self._spool = Spool()
        self._stints: list[_Stint] = []
        #: The latest time of the node whose lines are being added.
        self._clock = 0
        #: The latest time of any line.
        self.last_ms = 0
        for line in lines:
            self.add(line)

    def add(self, line: Source) -> None:
        """Add the next line, by node and number."""
        stint = self._stints[-1] if self._stints else None
        is_other_node = stint is None or stint.node != line.node
        self._clock = line.ts if is_other_node else max(self._clock, line.ts)
        if stint is None or is_other_node or line.values["kind"] == "group_recovered":
            fence = line.values.get("fence") or 0
            stint = _Stint(len(self._spool), line.node, line.seq, self._clock, fence)
            self._stints.append(stint)
        if stint.generation is None:
            stint.generation = line.values.get("generation")
        self._spool.append((line.ts, dict(line.values)), line.size)
        stint.end = len(self._spool)
        self.last_ms = max(self.last_ms, line.ts)

    def __iter__(self) -> Iterator[Placed]:
        pos, at = 0, 0
        for stint in sorted(self._stints, key=_Stint.rank):
            for ts, values in self._spool.slice(stint.begin, stint.end):
                pos, at = pos + 1, max(at, ts)
                yield Placed(pos, at, ts, stint.node, values["kind"], values)
