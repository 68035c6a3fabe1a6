"""Puts the last rebalances of each group together from the events of the journal."""

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
from coterie_server.history.record import (
    CountedNames,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
)
from coterie_server.history.stopped_partitions import StoppedPartitions

__all__ = ["History"]

#: How many rebalances are kept in all: one takes some two kilobytes, so this is 20 megabytes.
TOTAL: Final = 10_000
#: How many late members a record keeps.
_LATE_MAX: Final = 5
#: A detail can name every member of a group.
_DETAIL_CHARACTERS: Final = 500
#: States in which a rebalance is going on.
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


@dataclass(slots=True)
class _Group:
    stopped: StoppedPartitions
    last: deque[RebalanceRecord] = field(default_factory=deque)
    #: How many older ones were dropped from `last`.
    forgotten: int = 0
    running: RebalanceRecord | None = None
    #: The members that the running rebalance waits for, and those that it waited for in vain; of
    #: interest until its first phase is over.
    awaited: set[str] = field(default_factory=set)
    late: tuple[LateMember, ...] = ()
    #: Members that came and went since the last generation began.
    came: CountedNames = field(default_factory=CountedNames)
    went: CountedNames = field(default_factory=CountedNames)


class History:
    """The last rebalances of each group: at most `limit` per group, and `total` over all groups.

    Events come in through `observe`, live from a node or read from a journal.  A record does not
    grow with its group, and a deleted group is forgotten.
    """

    def __init__(self, limit: int, total: int = TOTAL) -> None:
        self._limit = limit
        self._total = total
        #: All records, oldest first: the group of each, and its number within the group.
        self._order: deque[tuple[str, int]] = deque()
        self._groups: dict[str, _Group] = {}
        self._listeners: list[Callable[[RebalanceRecord], None]] = []

    # -- asking --------------------------------------------------------------------------------

    def last(self, group: str) -> tuple[RebalanceRecord, ...]:
        """The finished rebalances of a group, latest first."""
        known = self._groups.get(group)
        return tuple(reversed(known.last)) if known else ()

    def running(self, group: str) -> RebalanceRecord | None:
        """The rebalance that is going on in a group, if one is."""
        known = self._groups.get(group)
        return known.running if known else None

    def listen(self, listener: Callable[[RebalanceRecord], None]) -> None:
        """Have `listener` called with each rebalance when it ends; it must not raise."""
        self._listeners.append(listener)

    def forget(self, group: str) -> None:
        """Forget a group, as when another node takes it over."""
        self._groups.pop(group, None)

    # -- events --------------------------------------------------------------------------------

    def observe(self, ts_ms: int, event: Event) -> None:
        """Take in an event; most kinds, above all commits, are ignored."""
        if isinstance(event, TopicChanged):
            self._topic_changed(event)
        handle = self._HANDLERS.get(type(event))
        if handle is not None and not self._is_nothing_new(event):
            handle(self, self._group(event.group), ts_ms, event)

    def _is_nothing_new(self, event: Event) -> bool:
        """Whether an unknown group was recovered without members: there may be many of these."""
        is_empty = isinstance(event, GroupRecovered) and not event.members
        return is_empty and event.group not in self._groups

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            # What the members of a group own is unknown when it is first heard of.
            group = self._groups[name] = _Group(StoppedPartitions(None))
        return group

    def _topic_changed(self, event: TopicChanged) -> None:
        if event.change == "deleted":
            for group in self._groups.values():
                group.stopped.topic_deleted(event.topic)

    def _recovered(self, group: _Group, ts_ms: int, event: GroupRecovered) -> None:
        if group.running is not None and event.state not in _REBALANCING:
            self._end(group, ts_ms, RebalanceOutcome.INTERRUPTED)
        # No rebalance is charged for the time that the node was down.
        group.stopped = StoppedPartitions(event.assigned)

    def _joined(self, group: _Group, _ts_ms: int, event: MemberJoined) -> None:
        group.came += event.member

    def _replaced(self, group: _Group, _ts_ms: int, event: MemberReplaced) -> None:
        group.stopped.member_replaced(event.former_member, event.member)
        if event.former_member in group.awaited:
            group.awaited.add(event.member)

    def _gone(self, group: _Group, ts_ms: int, event: MemberGone) -> None:
        group.went += event.member
        group.stopped.member_gone(event.member, ts_ms)
        running = group.running
        if running is not None and event.member in group.awaited:
            waited_ms = ts_ms - running.started_ms
            late = LateMember(event.member, event.instance, event.host, waited_ms, event.how)
            group.late = _latest((*group.late, late))

    def _started(self, group: _Group, ts_ms: int, event: RebalanceStarted) -> None:
        if group.running is not None:
            self._end(group, ts_ms, RebalanceOutcome.SUPERSEDED)
        if event.from_state == "Empty":
            group.stopped = StoppedPartitions({})
        group.awaited, group.late = set(event.awaited), ()
        group.running = RebalanceRecord(
            group=event.group,
            outcome=RebalanceOutcome.RUNNING,
            cause=event.cause,
            detail=event.detail[:_DETAIL_CHARACTERS],
            from_state=event.from_state,
            generation=event.generation,
            follows=event.follows,
            started_ms=ts_ms,
            awaited=CountedNames.of(event.awaited),
        )

    def _phase_joined(self, group: _Group, ts_ms: int, event: PhaseJoined) -> None:
        running = group.running
        if running is None:
            running = _missed_start(event, ts_ms - event.took_ms)
        came, went = group.came, group.went
        group.came, group.went = CountedNames(), CountedNames()
        # Joins count from when the phase began, or began anew after the group was recovered.
        group.stopped.members_joined(event.members, ts_ms - event.took_ms)
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
            dropped=CountedNames.of(event.dropped),
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
        # Charge for the past before the new assignment replaces it.
        cost_ms = group.stopped.charge(ts_ms)
        group.stopped.assigned(event.assigned, needs_rejoin=event.needs_rejoin, ts=ts_ms)
        self._end(group, ts_ms, RebalanceOutcome.COMPLETED, cost_ms)

    def _emptied(self, group: _Group, ts_ms: int, event: GroupEmptied) -> None:
        if group.running is not None:
            group.running = replace(
                group.running, generation=event.generation, came=group.came, went=group.went
            )
            self._end(group, ts_ms, RebalanceOutcome.EMPTIED, group.stopped.charge(ts_ms))
        group.came, group.went = CountedNames(), CountedNames()
        group.stopped = StoppedPartitions({})

    def _deleted(self, _group: _Group, _ts_ms: int, event: GroupDeleted) -> None:
        self.forget(event.group)

    def _unclaimed(self, group: _Group, ts_ms: int, event: IdUnclaimed) -> None:
        running = group.running
        if running is not None:
            late = LateMember(event.member, None, "", ts_ms - running.started_ms, "unclaimed")
            group.late = _latest((*group.late, late))

    def _end(
        self, group: _Group, ts_ms: int, outcome: RebalanceOutcome, cost_ms: int | None = None
    ) -> None:
        if group.running is None:
            raise AssertionError("no rebalance is running")
        if outcome is RebalanceOutcome.SUPERSEDED:
            # What is stopped stays so; the next rebalance is charged from here on.
            cost_ms = group.stopped.charge(ts_ms)
        ended = replace(
            group.running, outcome=outcome, ended_ms=ts_ms, stopped_partition_ms=cost_ms
        )
        group.running, group.awaited, group.late = None, set(), ()
        self._keep(group, ended)
        for listener in self._listeners:
            listener(ended)

    def _keep(self, group: _Group, ended: RebalanceRecord) -> None:
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


def _missed_start(event: PhaseJoined | RebalanceCompleted, started_ms: int) -> RebalanceRecord:
    """A rebalance that began before the journal did."""
    return RebalanceRecord(
        group=event.group,
        outcome=RebalanceOutcome.RUNNING,
        cause=event.cause,
        detail="",
        from_state="",
        generation=event.generation,
        follows=None,
        started_ms=started_ms,
    )


def _came_late(event: PhaseJoined, awaited: set[str], waited_ms: int) -> list[LateMember]:
    late = []
    for phase in event.members:
        if phase.member not in awaited or phase.joined_after_ms == 0:
            continue
        after_ms, how = phase.joined_after_ms, "joined"
        if after_ms is None:
            after_ms, how = waited_ms, "away"
        late.append(LateMember(phase.member, phase.instance, phase.host, after_ms, how))
    return late


def _latest(late: tuple[LateMember, ...]) -> tuple[LateMember, ...]:
    return tuple(heapq.nlargest(_LATE_MAX, late, key=lambda each: each.after_ms))
