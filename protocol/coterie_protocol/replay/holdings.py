"""Who owned which partition, and from when until when.

A *holder* is a static member's instance id, or a dynamic member's id.  A *statement* gives all
that one holder owns from then on: an assignment, a claim of the holder as it joins, the end of a
membership.  A *closing* is a line that ends the ownership of all holders that it does not mention.

Consecutive statements without an end in between are one interval.  If an assignment takes a
partition from a holder that then claims it as it joins, the holder has never let go of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from coterie_protocol.journal import DEATHS
from coterie_protocol.replay.clock_steps import NO_STEPS, ClockSteps
from coterie_protocol.replay.intervals import Cut, Given, Held, Stop, pieces
from coterie_protocol.replay.members import Members
from coterie_protocol.replay.order import Placed
from coterie_protocol.replay.partitions import Partition, partitions_of
from coterie_protocol.replay.rebalances import closes, is_readable, resumes_rebalance

__all__ = ["Holdings"]

_COMPLETED: Final = "rebalance_completed"
_JOINED: Final = "phase_joined"
_GONE: Final = "member_gone"
_RECOVERED: Final = "group_recovered"


@dataclass(frozen=True, slots=True)
class _Statement:
    line: Placed
    member: str
    holder: str
    at: int
    owns: list[Partition]

    @property
    def is_own_word(self) -> bool:
        # A member that is away has not received assignments, although they name it.
        return self.line.kind in (_JOINED, _GONE)

    @property
    def given(self) -> Given | None:
        if self.line.kind == _JOINED:
            return None
        return self.line.pos, self.at, self.line["generation"]


@dataclass(slots=True)
class _Holder:
    """What a holder has, as of its last statement."""

    kind: str
    owns: dict[Partition, Held]
    #: What that statement took from it, which it may claim all the same.
    taken: dict[Partition, tuple[Held, Stop]] = field(default_factory=dict)


class Holdings:
    """Follows a group's lines, and gives the intervals of ownership as they end."""

    def __init__(
        self,
        group: str,
        members: Members,
        clocks: Mapping[str, ClockSteps],
        horizon_ms: int,
        emit: Callable[[dict[str, Any]], None],
    ) -> None:
        self._group = group
        self._clocks = clocks
        self._members = members
        self._horizon_ms = horizon_ms
        self._emit = emit
        #: The holders whose last statement no closing followed.
        self._holders: dict[str, _Holder] = {}
        #: What was taken from holders that have not said anything since.
        self._unheard: dict[str, list[tuple[Held, Stop]]] = {}
        #: When the last assignment was in place, or the group was read back.
        self._assigned_ms = 0
        #: When each partition was last given to anyone.
        self._given_ms: dict[Partition, int] = {}

    def note(self, line: Placed, rebalance: int, began_ms: int) -> None:
        """Take in the next line; the number and the beginning of the latest rebalance."""
        said: set[str] = set()
        for statement in self._statements(line, began_ms):
            said.add(statement.holder)
            self._state(statement, rebalance)
        if resumes_rebalance(line):
            said.update(map(self._members.holder, line["members"]))
        if closes(line) or resumes_rebalance(line):
            stop = Stop(line.pos, line.at, line.kind, rebalance, is_closing=True)
            for name in [name for name in self._holders if name not in said]:
                self._close(name, stop)
        if line.kind == "member_replaced":
            self._replace(line, rebalance)
        if is_readable(line):
            given = chain.from_iterable(map(partitions_of, line["assigned"].values()))
            self._given_ms |= dict.fromkeys(given, line.at)
        if line.kind in (_COMPLETED, _RECOVERED):
            self._assigned_ms = line.at

    def finish(self) -> None:
        """There are no more lines."""
        for name, holder in self._holders.items():
            self._unheard.setdefault(name, []).extend(holder.taken.values())
            for held in holder.owns.values():
                self._end(held, None, None)
        for unheard in self._unheard.values():
            for held, stop in unheard:
                self._end(held, stop, None)

    # -- statements ----------------------------------------------------------------------------

    def _statements(self, line: Placed, began_ms: int) -> list[_Statement]:
        """What a line says of holders, each with all that it owns."""
        if is_readable(line):
            said = [(member, line.at, owns) for member, owns in line["assigned"].items()]
        elif line.kind == _JOINED:
            clock = self._clocks.get(line.node, NO_STEPS)
            said = list(_claims(line, began_ms, clock))
        elif line.kind == _GONE:
            said = [(line["member"], line.at, None)]
        else:
            return []
        found = [
            _Statement(line, member, self._members.holder(member), at, partitions_of(owns))
            for member, at, owns in said
        ]
        return sorted(found, key=lambda each: (each.holder, each.member))

    def _state(self, it: _Statement, rebalance: int) -> None:
        """Compare a statement with the holder's last one."""
        line = it.line
        stop = Stop(
            line.pos, it.at, line.kind, rebalance,
            how=line["how"], silent_ms=line["silent_ms"], session_ms=line["session_timeout_ms"],
            quiet_since_ms=self._quiet_since_ms(line) if _was_silent(line) else None,
        )  # fmt: skip
        before = self._holders.get(it.holder) or _Holder("", {})
        may_hold_on = line.kind == _JOINED and before.kind == _COMPLETED
        owns = {}
        for partition in it.owns:
            held = before.owns.pop(partition, None)
            if held is None and may_hold_on and partition in before.taken:
                held, _ = before.taken.pop(partition)
                held.has_held_on = True
            owns[partition] = held = held or self._hold(it, partition, rebalance)
            held.give(it.given)
        self._hear(it, before.taken.values())
        after = self._holders[it.holder] = _Holder(line.kind, owns)
        for partition, held in before.owns.items():
            if line.kind == _COMPLETED:
                after.taken[partition] = held, stop
            else:
                self._end(held, stop, None)

    def _hold(self, it: _Statement, partition: Partition, rebalance: int) -> Held:
        return Held(
            *partition, it.holder, it.member, self._members.instances.get(it.member),
            from_pos=it.line.pos, from_ms=it.at, from_rebalance=rebalance, kind=it.line.kind,
            generation=it.line["generation"], given_before_ms=self._given_ms.get(partition),
        )  # fmt: skip

    def _hear(self, it: _Statement, taken: Iterable[tuple[Held, Stop]]) -> None:
        """A holder that says what it has has heard by then of all that was taken from it."""
        if not it.is_own_word:
            if taken:
                self._unheard.setdefault(it.holder, []).extend(taken)
            return
        for held, stop in (*self._unheard.pop(it.holder, ()), *taken):
            self._end(held, stop, it.at)

    def _close(self, name: str, stop: Stop) -> None:
        closed = self._holders.pop(name)
        for held in closed.owns.values():
            self._end(held, stop, None)
        if closed.taken:
            self._unheard.setdefault(name, []).extend(closed.taken.values())

    def _replace(self, line: Placed, rebalance: int) -> None:
        """A static member came back: what it has goes over to its new process."""
        holder = self._holders.get(line["instance"])
        if holder is None:
            return
        refused_ms = self._members.refused_ms.get((line["instance"], line["former_member"]))
        cut = Cut(
            line.pos, line.at, rebalance, line["member"], line["former_member"], refused_ms,
            self._quiet_since_ms(line),
        )  # fmt: skip
        for held in (*holder.owns.values(), *(held for held, _ in holder.taken.values())):
            held.cut(cut)

    def _quiet_since_ms(self, line: Placed) -> int:
        """When a member was last heard of; before the assignment, what it was given stood still."""
        return max(line.at - int(line["silent_ms"] or 0), self._assigned_ms)

    def _end(self, held: Held, stop: Stop | None, heard_ms: int | None) -> None:
        for interval in pieces(held, stop, heard_ms, self._horizon_ms):
            interval["group"] = self._group
            interval["host"] = self._members.hosts.get(interval["member"])
            self._emit(interval)


def _was_silent(line: Placed) -> bool:
    """Whether the session of a member that is gone was over."""
    return line.kind == _GONE and (line["how"] in DEATHS or (line["away_ms"] or 0) > 0)


def _claims(line: Placed, began_ms: int, clock: ClockSteps) -> Iterator[tuple[str, int, Any]]:
    """What members claim to own as they join, and when."""
    # After a restart in the middle of a phase, a node counts from the restart; and where time
    # stands still because a clock was set back, no join is later than the end of the phase.
    since_ms = max(began_ms, clock.after(line.at, -int(line["took_ms"])))
    for phase in line["members"]:
        after_ms = phase.get("joined_after_ms")
        if after_ms is not None:
            at_ms = max(min(clock.after(since_ms, after_ms), line.at), 0)
            yield phase["member"], at_ms, phase.get("owned")
