"""What a group's lines say besides the rows that replaying them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.journal import PhaseJoined, RebalanceCompleted, event_of
from coterie_server.history import CountedNames
from coterie_server.history.waiting_moves import waiting_moves

if TYPE_CHECKING:
    from coterie_protocol.journal import MemberPhase
    from coterie_protocol.replay.order import Placed

__all__ = ["Mark", "Marks", "Missing", "Tenure"]

_EMPTY: Final = "Empty"


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that says of all members what they have."""

    at_ms: int
    generation: int | None
    #: Whether it can be read what they have.
    is_known: bool


@dataclass(slots=True)
class Tenure:
    """A time in which one node coordinated the group, without a restart."""

    node: str
    from_ms: int
    #: `began` where the lines begin, `restarted` if the same node had it before, else `took_over`.
    how: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A time of which not everything is known."""

    from_ms: int
    until_ms: int
    #: `lines_lost`: numbers are missing; `elsewhere`: generations are.
    why: str
    message: str


@dataclass(slots=True)
class Marks:
    """All of them, in the order of the lines."""

    closings: list[Mark] = field(default_factory=list)
    tenures: list[Tenure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    #: By the position of the line that ended a rebalance.
    waiting: dict[int, CountedNames] = field(default_factory=dict)
    #: Whether the group's very first line is among them.
    is_whole: bool = False
    _is_beginning: bool = False
    _generation: int | None = None
    _last_ms: int = 0
    _said: tuple[MemberPhase, ...] = ()

    @classmethod
    def of(cls, lines: Iterable[Placed]) -> Marks:
        """Those of lines that are in order."""
        found = cls()
        for line in lines:
            found._note(line)
        return found

    def _note(self, line: Placed) -> None:
        generation = line["generation"]
        if not self.tenures:
            self._is_beginning = line.kind in ("member_joined", "rebalance_started")
        if self._generation is None and generation is not None:
            # Lines of members that join say none, whenever that is.
            begins = line.kind == "rebalance_started" and generation == 0
            self.is_whole = self._is_beginning and begins
        if not self.tenures or line.kind == "group_recovered":
            self._begin(line, generation)
        if line.kind in _CLOSES and (mark := _CLOSES[line.kind](line)) is not None:
            self.closings.append(mark)
        if line.kind == "phase_joined" or (line.kind == "rebalance_completed" and line["targets"]):
            self._note_moves(line)
        if generation is not None:
            self._generation = generation
        self._last_ms = line.at

    def _note_moves(self, line: Placed) -> None:
        event = event_of(line.values)
        if isinstance(event, PhaseJoined):
            self._said = event.members
        elif isinstance(event, RebalanceCompleted):
            self.waiting[line.pos] = waiting_moves(event, self._said)

    def _begin(self, line: Placed, generation: int | None) -> None:
        """A node has read the group, or the lines begin."""
        former = self.tenures[-1].node if self.tenures else None
        how = "began" if former is None else "restarted" if former == line.node else "took_over"
        self.tenures.append(Tenure(line.node, line.at, how))
        before = self._generation
        if before is not None and generation is not None and generation > before:
            message = (
                f"These journals lack how the group went from generation {before} to {generation}:"
                " another node coordinated it meanwhile, or the last lines of one were lost."
            )
            self.missing.append(Missing(self._last_ms, line.at, "elsewhere", message))


def _tells_all(line: Placed) -> Mark:
    return Mark(line.at, line["generation"], line["assigned"] is not None)


def _ends_all(line: Placed) -> Mark:
    return Mark(line.at, line["generation"], is_known=True)


def _starts_empty(line: Placed) -> Mark | None:
    return _ends_all(line) if line["from_state"] == _EMPTY else None


_CLOSES: Final[dict[str, Callable[[Any], Mark | None]]] = {
    "group_deleted": _ends_all,
    "group_emptied": _ends_all,
    "group_recovered": _tells_all,
    "rebalance_completed": _tells_all,
    "rebalance_started": _starts_empty,
}
