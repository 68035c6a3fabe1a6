"""The rebalances of a group: the cause of each, the members it waited for, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coterie_protocol.journal import DEATHS
from coterie_protocol.replay.clock_steps import NO_STEPS, ClockSteps
from coterie_protocol.replay.last_state import IN_REBALANCE
from coterie_protocol.replay.late import late
from coterie_protocol.replay.order import Placed
from coterie_protocol.replay.unseen_moves import UnseenMoves

__all__ = ["Rebalance", "Rebalances", "closes", "is_readable", "resumes_rebalance"]

_STARTED: Final = "rebalance_started"
_JOINED: Final = "phase_joined"
_COMPLETED: Final = "rebalance_completed"
_EMPTIED: Final = "group_emptied"
_RECOVERED: Final = "group_recovered"

#: Lines that tell what became of members that a first phase waits for.
_AWAITED: Final = ("member_gone", "member_replaced", "id_unclaimed")

#: Follow-ups may go on for ever: of a longer chain, only so many causes are listed.
_CHAIN_MAX: Final = 1_000

#: What `kept` counts: nothing in a generation without members.
_COUNTS: Final = ("partitions", "kept", "keepable")

#: How rebalances end that cost something.
_PAID: Final = ("completed", "superseded", "emptied")

Row = dict[str, Any]


def is_readable(line: Placed) -> bool:
    """Whether a line tells the whole assignment."""
    tells = line.kind == _COMPLETED or (line.kind == _RECOVERED and not resumes_rebalance(line))
    return tells and line["assigned"] is not None


def resumes_rebalance(line: Placed) -> bool:
    """Whether a group is read back in a rebalance, and who has what by then is known better."""
    return line.resumes and line["state"] in IN_REBALANCE


def closes(line: Placed) -> bool:
    """Whether a line ends the ownership of all holders that it does not mention."""
    if line.kind == _RECOVERED:
        return not resumes_rebalance(line)
    return line.kind in (_COMPLETED, _EMPTIED, "group_deleted") or _starts_empty(line)


def _starts_empty(line: Placed) -> bool:
    return line.kind == _STARTED and line["from_state"] == "Empty"


def _ends(line: Placed) -> bool:
    """Whether a line ends a rebalance; if a group is read back in the middle of one, it goes on."""
    return line.kind in (_COMPLETED, _EMPTIED) or (
        line.kind == _RECOVERED and line["state"] not in IN_REBALANCE
    )


@dataclass(slots=True)
class Rebalance:
    """One rebalance, as its lines come."""

    number: int
    node: str
    #: The position and the time of its first line.
    began_pos: int
    began_at: int
    #: When it began, also if its first lines are missing.
    began_ms: int
    #: When its first phase began, or began anew as the group was read back.
    phase_ms: int
    #: How its node's clock was set.
    clock: ClockSteps
    #: Whether it was known at its beginning who owned what, and at its end.
    knew: bool
    knew_at_end: bool = False
    #: Its lines by kind, of those kinds of which it has one.
    lines: dict[str, Placed] = field(default_factory=dict)
    #: The line that ended it.
    end: Placed | None = None
    #: What became of members during the first phase.
    others: list[Placed] = field(default_factory=list)
    came: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    detection_ms: int | None = None
    kept: Mapping[str, int | None] = field(default_factory=dict)
    #: How many moves its coordinator did not count.
    unseen_moves: int = 0

    def told(self, kind: str, name: str) -> Any:  # any JSON
        """A field of its line of a kind; None if it has no such line."""
        line = self.lines.get(kind)
        return None if line is None else line[name]

    @property
    def joined_ms(self) -> int | None:
        """When the first phase was over."""
        if _JOINED in self.lines:
            return self.lines[_JOINED].at
        if _COMPLETED in self.lines:
            completed = self.lines[_COMPLETED]
            return max(self.clock.after(completed.at, -int(completed["took_ms"])), 0)
        return None


class Rebalances:
    """Follows a group's lines, and gives the row of each rebalance when the next one begins."""

    def __init__(
        self, group: str, clocks: Mapping[str, ClockSteps], emit: Callable[[Row], None]
    ) -> None:
        self._group = group
        self._clocks = clocks
        self._emit = emit
        self._latest: Rebalance | None = None
        self._mark = ""
        self._is_known = False
        self._came: list[str] = []
        self._went: list[str] = []
        self._detection_ms: int | None = None
        self._moves = UnseenMoves()
        self._root = 0
        self._chain: list[str] = []

    @property
    def number(self) -> int:
        """The number of the latest one that has begun; 0 before the first."""
        return self._latest.number if self._latest is not None else 0

    @property
    def latest(self) -> Rebalance | None:
        """The latest one, whether it is over or not."""
        return self._latest

    def note(self, line: Placed) -> None:
        """Take in the next line."""
        if self._begins(line):
            self._begin(line)
        if self._latest is not None and self._latest.end is None:
            self._take(self._latest, line)
        self._count(line)
        self._follow_moves(line)
        if line.kind in (_STARTED, _JOINED) or _ends(line):
            self._mark = line.kind
        if line.kind == _RECOVERED and line["state"] in IN_REBALANCE:
            # Who went before, with what, only the lines before can tell.
            self._is_known = self._is_known and line.resumes
        elif line.kind in (_COMPLETED, _RECOVERED):
            self._is_known = line["assigned"] is not None
        elif line.kind == _EMPTIED or _starts_empty(line):
            self._is_known = True

    def finish(self) -> None:
        """There are no more lines."""
        if self._latest is not None:
            self._emit(self._row(self._latest, None))

    def _begins(self, line: Placed) -> bool:
        if line.kind == _STARTED:
            return True
        if line.kind == _JOINED:
            return self._mark != _STARTED
        return line.kind == _COMPLETED and self._mark not in (_STARTED, _JOINED)

    def _begin(self, line: Placed) -> None:
        clock = self._clocks.get(line.node, NO_STEPS)
        began_ms = _beginning_ms(line, clock)
        begun = Rebalance(
            self.number + 1, line.node, line.pos, line.at, began_ms, began_ms, clock,
            knew=self._is_known,
        )  # fmt: skip
        if self._latest is not None:
            self._emit(self._row(self._latest, begun))
        self._latest = begun

    def _take(self, running: Rebalance, line: Placed) -> None:
        """A line that belongs to the one that is running."""
        if _ends(line):
            running.end = line
            # Someone may have been told meanwhile, or forgotten, who owned what.
            running.knew_at_end = self._is_known
        if line.kind in (_STARTED, _JOINED, _COMPLETED, _EMPTIED):
            running.lines[line.kind] = line
        elif _JOINED not in running.lines:
            if line.kind in _AWAITED:
                running.others.append(line)
            elif line.kind == _RECOVERED:
                running.phase_ms = line.at
        if line.kind in (_JOINED, _EMPTIED):
            running.came, running.went = self._came, self._went
            running.detection_ms = self._detection_ms

    def _count(self, line: Placed) -> None:
        """Who came and went since the last generation."""
        match line.kind:
            case "member_joined":
                self._came.append(line["member"])
            case "member_gone":
                self._went.append(line["member"])
                if line["how"] in DEATHS:
                    self._detection_ms = max(self._detection_ms or 0, line["silent_ms"])
            case "group_recovered" if line["state"] in IN_REBALANCE:
                # Members that were in no generation yet were not stored, and will come anew.
                self._came = []
            case "phase_joined" | "group_emptied" | "group_recovered":
                self._came, self._went, self._detection_ms = [], [], None

    def _follow_moves(self, line: Placed) -> None:
        match line.kind:
            case "member_gone":
                self._moves.gone(line["member"])
            case "member_replaced":
                self._moves.replaced(line["former_member"], line["member"])
            case "phase_joined":
                self._moves.joined(
                    {
                        phase["member"]: phase["owned"]
                        for phase in line["members"]
                        if phase["joined_after_ms"] is not None
                    }
                )
            case "group_recovered" if line.resumes:
                self._moves.read_back()
            case "group_recovered":
                self._moves = UnseenMoves.since(line["assigned"])
            case "rebalance_completed" if self._latest is not None:
                self._latest.unseen_moves = self._moves.assigned(
                    line["assigned"], needs_rejoin=line["needs_rejoin"]
                )
            case _ if closes(line):
                self._moves = UnseenMoves.since({})

    # -- rows ----------------------------------------------------------------------------------

    def _row(self, it: Rebalance, after: Rebalance | None) -> Row:
        outcome, ended_ms = _end_of(it, after)
        ended_pos = it.end.pos if it.end else after.began_pos if after else None
        joined_ms = it.joined_ms
        completed = it.lines.get(_COMPLETED)
        joined = it.lines.get(_JOINED)
        generations = (it.told(k, "generation") for k in (_EMPTIED, _JOINED, _COMPLETED, _STARTED))
        return {
            "group": self._group,
            "rebalance": it.number,
            "node": it.node,
            "started_ms": it.began_ms,
            "joined_ms": joined_ms,
            "ended_ms": ended_ms,
            "outcome": outcome,
            "from_state": it.told(_STARTED, "from_state"),
            "generation": next((each for each in generations if each is not None), None),
            "detail": it.told(_STARTED, "detail"),
            "follows": it.told(_STARTED, "follows"),
            **self._chained(it),
            "protocol": it.told(_JOINED, "protocol"),
            "leader": it.told(_JOINED, "leader"),
            "members": None if joined is None else len(joined["members"]),
            "came": it.came,
            "went": it.went,
            "dropped": it.told(_JOINED, "dropped") or [],
            "awaited": it.told(_STARTED, "awaited"),
            "late": late(
                it.began_ms, it.phase_ms, it.told(_STARTED, "awaited") or [], joined, it.others
            ),
            "detection_ms": it.detection_ms,
            "prepare_ms": _lasted_ms(it.clock, it.began_ms, joined_ms),
            "complete_ms": _lasted_ms(it.clock, joined_ms, completed.at) if completed else None,
            "total_ms": _lasted_ms(it.clock, it.began_ms, ended_ms),
            **{name: 0 if outcome == "emptied" else it.kept.get(name) for name in _COUNTS},
            "moved": None if completed is None else completed["moved"] + it.unseen_moves,
            **{name: it.told(_COMPLETED, name) for name in ("revoked", "needs_rejoin")},
            "began_at": it.began_at,
            "ended_pos": ended_pos,
            "is_paid": outcome in _PAID and _knew(it, after),
        }

    def _chained(self, it: Rebalance) -> Row:
        """Its cause, and those of the ones that called for it."""
        cause = next(
            (
                it.told(kind, "cause")
                for kind in (_STARTED, _JOINED, _COMPLETED)
                if kind in it.lines
            ),
            None,
        )
        if it.told(_STARTED, "follows") is None or it.number == 1:
            self._root, self._chain = it.number, []
        if cause is not None and len(self._chain) < _CHAIN_MAX:
            self._chain.append(cause)
        return {
            "cause": cause,
            "root": self._root,
            "root_cause": self._chain[0] if self._chain else None,
            "cause_chain": list(self._chain),
        }


def _lasted_ms(clock: ClockSteps, from_ms: int | None, to_ms: int | None) -> int | None:
    return None if from_ms is None or to_ms is None else clock.lasted_ms(from_ms, to_ms)


def _knew(it: Rebalance, after: Rebalance | None) -> bool:
    """Whether it was known at its end who owned what."""
    if it.end is not None and it.end.kind != _RECOVERED:
        return it.knew_at_end
    return after is not None and after.knew


def _beginning_ms(line: Placed, clock: ClockSteps) -> int:
    """When a rebalance began, by its first line; if its first lines are missing, as worked out."""
    match line.kind:
        case "phase_joined":
            return max(clock.after(line.at, -int(line["took_ms"])), 0)
        case "rebalance_completed":
            return max(clock.after(line.at, -int(line["total_ms"])), 0)
        case _:
            return line.at


def _end_of(it: Rebalance, after: Rebalance | None) -> tuple[str, int | None]:
    """How it ended, and when."""
    if it.end is None:
        return ("superseded", after.began_ms) if after is not None else ("running", None)
    outcomes = {_COMPLETED: "completed", _EMPTIED: "emptied", _RECOVERED: "interrupted"}
    return outcomes[it.end.kind], it.end.at
