"""Keeping the last rebalances of each group, from the events as they come."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
)
from coterie_server.history.rebalance import NAMES_MAX, Late, Outcome, Rebalance, Some
from coterie_server.history.standstill import Standstill

__all__ = ["History"]

#: How many rebalances are kept in all: one takes some two kilobytes, so this is 20 megabytes.
TOTAL: Final = 10_000
#: How many of those who were waited for are kept.
_LATE_MAX: Final = 5
#: A detail can name every member of a group.
_DETAIL_CHARACTERS: Final = 500
#: States in which a rebalance is going on.
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


@dataclass(slots=True)
class _Group:
    standstill: Standstill
    last: deque[Rebalance] = field(default_factory=deque)
    #: How many are not among the last any more.
    forgotten: int = 0
    running: Rebalance | None = None
    #: Whom the running rebalance waits for, and how long it has waited for those who are gone; of
    #: interest until its first phase is over.
    awaited: set[str] = field(default_factory=set)
    late: tuple[Late, ...] = ()
    #: Who came and went since the last generation began.
    came: Some = field(default_factory=Some)
    went: Some = field(default_factory=Some)


class History:
    """The last rebalances of each group, at most `limit` of each and `total` of all.

    Events come in by `observe`, as a node makes them or as a journal has them.  What is kept of a
    rebalance does not grow with the group, and a deleted group is forgotten.
    """

    def __init__(self, limit: int, total: int = TOTAL) -> None:
        self._limit = limit
        self._total = total
        #: The groups of the latest rebalances of all, with the number of each within its group.
        self._order: deque[tuple[str, int]] = deque()
        self._groups: dict[str, _Group] = {}
        self._listeners: list[Callable[[Rebalance], None]] = []

    # -- asking --------------------------------------------------------------------------------

    def last(self, group: str) -> tuple[Rebalance, ...]:
        """The rebalances of a group that are over, the latest first."""
        known = self._groups.get(group)
        return tuple(reversed(known.last)) if known else ()

    def running(self, group: str) -> Rebalance | None:
        """The rebalance of a group that is going on."""
        known = self._groups.get(group)
        return known.running if known else None

    def listen(self, listener: Callable[[Rebalance], None]) -> None:
        """Have every rebalance handed over when it is over; the listener must not raise."""
        self._listeners.append(listener)

    def forget(self, group: str) -> None:
        """Forget a group, as when another node takes it over."""
        self._groups.pop(group, None)

    # -- events --------------------------------------------------------------------------------

    def observe(self, ts_ms: int, event: Event) -> None:
        """Note an event; most kinds, commits above all, are none of its business."""
        if isinstance(event, TopicChanged):
            self._topic_changed(event)
        handle = self._HANDLERS.get(type(event))
        if handle is not None and not self._is_nothing_new(event):
            handle(self, self._group(event.group), ts_ms, event)

    def _is_nothing_new(self, event: Event) -> bool:
        """Whether an empty group is read back of which nothing is known: there may be many."""
        is_empty = isinstance(event, GroupRecovered) and not event.members
        return is_empty and event.group not in self._groups

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            # Nobody can tell what the members of a group own that is heard of for the first time.
            group = self._groups[name] = _Group(Standstill(None))
        return group

    def _topic_changed(self, event: TopicChanged) -> None:
        if event.change == "deleted":
            for group in self._groups.values():
                group.standstill.deleted(event.topic)

    def _recovered(self, group: _Group, ts_ms: int, event: GroupRecovered) -> None:
        if group.running is not None and event.state not in _REBALANCING:
            self._end(group, ts_ms, Outcome.INTERRUPTED)
        # The time that the node was down is not the fault of any rebalance.
        group.standstill = Standstill(event.assigned)

    def _joined(self, group: _Group, _ts_ms: int, event: MemberJoined) -> None:
        group.came += event.member

    def _replaced(self, group: _Group, _ts_ms: int, event: MemberReplaced) -> None:
        group.standstill.replaced(event.former_member, event.member)
        if event.former_member in group.awaited:
            group.awaited.add(event.member)

    def _gone(self, group: _Group, ts_ms: int, event: MemberGone) -> None:
        group.went += event.member
        group.standstill.gone(event.member, ts_ms)
        running = group.running
        if running is not None and event.member in group.awaited:
            waited_ms = ts_ms - running.started_ms
            late = Late(event.member, event.instance, event.host, waited_ms, event.how)
            group.late = _latest((*group.late, late))

    def _started(self, group: _Group, ts_ms: int, event: RebalanceStarted) -> None:
        if group.running is not None:
            self._end(group, ts_ms, Outcome.SUPERSEDED)
        if event.from_state == "Empty":
            group.standstill = Standstill({})
        group.awaited, group.late = set(event.awaited), ()
        group.running = Rebalance(
            group=event.group,
            outcome=Outcome.RUNNING,
            cause=event.cause,
            detail=event.detail[:_DETAIL_CHARACTERS],
            from_state=event.from_state,
            generation=event.generation,
            follows=event.follows,
            started_ms=ts_ms,
            awaited=_some(event.awaited),
        )

    def _phase_joined(self, group: _Group, ts_ms: int, event: PhaseJoined) -> None:
        running = group.running
        if running is None:
            running = _missed_start(event, ts_ms - event.took_ms)
        came, went = group.came, group.went
        group.came, group.went = Some(), Some()
        # Joins count from where the phase began, or began anew as the node read the group back.
        group.standstill.joined(event.members, ts_ms - event.took_ms)
        waited_ms = ts_ms - running.started_ms
        group.running = replace(
            running,
            generation=event.generation,
            joined_ms=ts_ms,
            protocol=event.protocol,
            leader=event.leader,
            members=len(event.members),
            came=came,
            went=went,
            dropped=_some(event.dropped),
            late=_latest((*group.late, *_came_late(event, group.awaited, waited_ms))),
        )

    def _completed(self, group: _Group, ts_ms: int, event: RebalanceCompleted) -> None:
        if group.running is None:
            missed = _missed_start(event, ts_ms - event.total_ms)
            group.running = replace(missed, joined_ms=ts_ms - event.took_ms)
        group.running = replace(
            group.running,
            generation=event.generation,
            moved=event.moved,
            revoked=event.revoked,
            needs_rejoin=event.needs_rejoin,
        )
        # First the past, then what is from now on.
        cost_ms = group.standstill.charge(ts_ms)
        group.standstill.given(event.assigned, needs_rejoin=event.needs_rejoin, ts=ts_ms)
        self._end(group, ts_ms, Outcome.COMPLETED, cost_ms)

    def _emptied(self, group: _Group, ts_ms: int, event: GroupEmptied) -> None:
        if group.running is not None:
            group.running = replace(
                group.running, generation=event.generation, came=group.came, went=group.went
            )
            self._end(group, ts_ms, Outcome.EMPTIED, group.standstill.charge(ts_ms))
        group.came, group.went = Some(), Some()
        group.standstill = Standstill({})

    def _deleted(self, _group: _Group, _ts_ms: int, event: GroupDeleted) -> None:
        self.forget(event.group)

    def _unclaimed(self, group: _Group, ts_ms: int, event: IdUnclaimed) -> None:
        running = group.running
        if running is not None:
            late = Late(event.member, None, "", ts_ms - running.started_ms, "unclaimed")
            group.late = _latest((*group.late, late))

    def _end(self, group: _Group, ts_ms: int, outcome: Outcome, cost_ms: int | None = None) -> None:
        if group.running is None:
            raise AssertionError("no rebalance is running")
        if outcome is Outcome.SUPERSEDED:
            # What stands still goes on doing so; the next one pays from here on.
            cost_ms = group.standstill.charge(ts_ms)
        ended = replace(
            group.running, outcome=outcome, ended_ms=ts_ms, stopped_partition_ms=cost_ms
        )
        group.running, group.awaited, group.late = None, set(), ()
        self._keep(group, ended)
        for listener in self._listeners:
            listener(ended)

    def _keep(self, group: _Group, ended: Rebalance) -> None:
        self._order.append((ended.group, group.forgotten + len(group.last)))
        group.last.append(ended)
        if len(group.last) > self._limit:
            _forget_oldest(group)
        if len(self._order) > self._total:
            name, number = self._order.popleft()
            oldest = self._groups.get(name)
            if oldest is not None and oldest.last and oldest.forgotten == number:
                _forget_oldest(oldest)

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[History, _Group, int, Any], None]]] = {
        GroupDeleted: _deleted,
        GroupEmptied: _emptied,
        GroupRecovered: _recovered,
        IdUnclaimed: _unclaimed,
        MemberGone: _gone,
        MemberJoined: _joined,
        MemberReplaced: _replaced,
        PhaseJoined: _phase_joined,
        RebalanceCompleted: _completed,
        RebalanceStarted: _started,
    }


def _forget_oldest(group: _Group) -> None:
    group.last.popleft()
    group.forgotten += 1


def _missed_start(event: PhaseJoined | RebalanceCompleted, started_ms: int) -> Rebalance:
    """A rebalance that a node took up after a restart; its start is in an older journal."""
    return Rebalance(
        group=event.group,
        outcome=Outcome.RUNNING,
        cause=event.cause,
        detail="",
        from_state="",
        generation=event.generation,
        follows=None,
        started_ms=started_ms,
    )


def _came_late(event: PhaseJoined, awaited: set[str], waited_ms: int) -> list[Late]:
    late = []
    for phase in event.members:
        if phase.member not in awaited or phase.joined_after_ms == 0:
            continue
        after_ms, how = phase.joined_after_ms, "joined"
        if after_ms is None:
            after_ms, how = waited_ms, "away"
        late.append(Late(phase.member, phase.instance, phase.host, after_ms, how))
    return late


def _latest(late: tuple[Late, ...]) -> tuple[Late, ...]:
    return tuple(heapq.nlargest(_LATE_MAX, late, key=lambda each: each.after_ms))


def _some(names: tuple[str, ...]) -> Some:
    return Some(len(names), names[:NAMES_MAX])
