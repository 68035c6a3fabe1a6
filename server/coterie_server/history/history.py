"""Puts the last rebalances of each group together from the events of the journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from coterie_protocol.journal import (
    ClockStepped,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    NodeStarted,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
)
from coterie_protocol.replay import ClockSteps
from coterie_protocol.replay.last_state import IN_REBALANCE
from coterie_server.history.group_history import GroupHistory, missed_start
from coterie_server.history.late import came_late, latest
from coterie_server.history.record import (
    DETAIL_CHARACTERS,
    NAME_CHARACTERS,
    Beginning,
    CountedNames,
    HistoryLimit,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
    remembered,
)
from coterie_server.history.stopped_partitions import Charge, StoppedPartitions
from coterie_server.history.waiting_moves import waiting_moves

__all__ = ["History"]

#: How many rebalances are kept in all: one takes some two kilobytes, so this is 20 megabytes.
TOTAL: Final = 10_000
#: How many deleted groups are remembered by name.
_DELETED_MAX: Final = 10_000
_OF_CLOCKS: Final = (ClockStepped, NodeStarted)


class History:
    """The last rebalances of each group: at most `limit` per group, and `total` over all groups.

    Events come in through `observe`, live from a node or read from a journal.  A record does not
    grow with its group, and a deleted group is forgotten.

    A history of a node begins when the node starts.  What its journal tells of a group's time
    before is a history of its own, and `prepend` joins the two.
    """

    def __init__(self, limit: int, total: int = TOTAL) -> None:
        self._limit, self._total = limit, total
        #: All records, oldest first: the group of each, and its number within the group.
        self._order: deque[tuple[str, int]] = deque()
        self._groups: dict[str, GroupHistory] = {}
        self._listeners: list[Callable[[RebalanceRecord], None]] = []
        #: When groups without members were read back from the store.
        self._recovered_ms: int | None = None
        self._deleted_groups: dict[str, None] = {}  # those deleted last
        #: The topics that there are; None if that is not known, as of a life that is over.
        self.topics: Container[str] | None = None
        #: How the clock was set by which events are dated.
        self.clock = ClockSteps()
        #: What it was told of that, for a former life to go by as well.
        self._steps: list[tuple[int, int | None]] = []
        #: How long owners had been silent that were given up or replaced, over all partitions.
        self.silent_partition_ms = 0

    # -- asking --------------------------------------------------------------------------------

    def last(self, group: str) -> tuple[RebalanceRecord, ...]:
        """The finished rebalances of a group, latest first."""
        known = self._groups.get(group)
        return tuple(reversed(known.last)) if known else ()

    def running(self, group: str) -> RebalanceRecord | None:
        """The rebalance that is going on in a group, if one is."""
        known = self._groups.get(group)
        return known.running if known else None

    def latest(self, group: str) -> RebalanceRecord | None:
        """The rebalance that is going on in a group, or its last one."""
        known = self._groups.get(group)
        if known is None:
            return None
        return known.running or (known.last[-1] if known.last else None)

    def last_hour(self, group: str, now_ms: int) -> int:
        """How many rebalances of a group have started in the last hour."""
        known = self._groups.get(group)
        return 0 if known is None else known.started.until(now_ms)

    def beginning(self, group: str) -> Beginning | None:
        """From when on the rebalances of a group are known; None if that is yet to be looked up."""
        known = self._groups.get(group)
        if known and known.beginning and (known.gap_ms or 0) > (known.dropped_ms or 0):
            return Beginning(known.gap_ms, HistoryLimit.MISSING)
        if known is not None and known.dropped_ms is not None:
            return Beginning(known.dropped_ms, HistoryLimit.KEPT)
        was_deleted = remembered(group) in self._deleted_groups  # and created again
        if was_deleted or (known and known.beginning and known.is_whole):
            return Beginning(None, HistoryLimit.COMPLETE)
        return known.beginning if known else None

    def read_back_ms(self, group: str, otherwise: int) -> int | None:
        """When a group was read back, if that was told of it first; `otherwise` if nothing was."""
        known = self._groups.get(group)
        return otherwise if known is None else known.recovered_ms

    @property
    def limit(self) -> int:
        """How many rebalances of a group are kept."""
        return self._limit

    def listen(self, listener: Callable[[RebalanceRecord], None]) -> None:
        """Have `listener` called with each rebalance when it ends; it must not raise."""
        self._listeners.append(listener)

    def forget(self, groups: Collection[str]) -> None:
        """Forget groups that are gone, or that another node has now, which may delete them."""
        long = {name for name in groups if len(name) > NAME_CHARACTERS}
        for name in groups:
            self._groups.pop(name, None)
        if long:
            self._order = deque(each for each in self._order if each[0] not in long)

    # -- events --------------------------------------------------------------------------------

    def observe(self, ts_ms: int, event: Event) -> None:
        """Take in an event; most kinds, above all commits, are ignored."""
        handle = self._HANDLERS.get(type(event))
        if handle is None:
            if isinstance(event, TopicChanged):
                self._topic_changed(ts_ms, event)
            elif isinstance(event, _OF_CLOCKS):
                step = ts_ms, event.stepped_ms if isinstance(event, ClockStepped) else None
                self.clock.note(*step)
                self._steps.append(step)
        elif self._is_nothing_new(event):
            self._recovered_ms = self._recovered_ms or ts_ms
        else:
            group = self._group(event.group)
            if group.is_carried_over and group.carried_over is not None:
                group.carried_over.append((ts_ms, event))
            group.note(ts_ms, event)
            handle(self, group, ts_ms, event)

    def lines_missing(self) -> None:
        """Take note that events are missing here, of whichever group."""
        for group in self._groups.values():
            group.miss_events()

    def _is_nothing_new(self, event: Event) -> bool:
        """Whether an unknown group was recovered without members: there may be many of these."""
        is_empty = isinstance(event, GroupRecovered) and not event.members
        return is_empty and event.group not in self._groups

    def _group(self, name: str) -> GroupHistory:
        group = self._groups.get(name)
        if group is None:
            # What the members of a group own is unknown when it is first heard of.
            group = self._groups[name] = GroupHistory(StoppedPartitions(None))
        return group

    def _topic_changed(self, ts_ms: int, event: TopicChanged) -> None:
        if event.change == "deleted":
            for group in self._groups.values():
                group.stopped.topic_deleted(event.topic)
                if group.is_carried_over and group.carried_over is not None:
                    group.carried_over.append((ts_ms, event))

    def _recovered(self, group: GroupHistory, ts_ms: int, event: GroupRecovered) -> None:
        is_another = event.state not in IN_REBALANCE or group.gap_ms == ts_ms
        if group.running is not None and is_another:
            self._end(group, ts_ms, RebalanceOutcome.INTERRUPTED)
        if not group.is_known:
            group.recovered_ms = ts_ms
            if event.state in IN_REBALANCE:
                group.carried_over, group.is_carried_over = [(ts_ms, event)], True
        group.read_back(ts_ms, event, self.topics)

    def _joined(self, group: GroupHistory, _ts_ms: int, event: MemberJoined) -> None:
        group.came += event.member

    def _replaced(self, group: GroupHistory, ts_ms: int, event: MemberReplaced) -> None:
        self.silent_partition_ms += group.stopped.member_replaced(
            event.former_member, event.member, ts_ms, event.silent_ms
        )
        group.moves.replaced(event.former_member, event.member)
        if event.former_member in group.awaited:
            group.awaited.add(event.member)

    def _gone(self, group: GroupHistory, ts_ms: int, event: MemberGone) -> None:
        group.went += event.member
        group.moves.gone(event.member)
        self.silent_partition_ms += group.stopped.member_gone(
            event.member, ts_ms, event.silent_ms if event.was_silent else None
        )
        running = group.running
        if running is not None and event.member in group.awaited:
            waited_ms = max(ts_ms - running.started_ms, 0)
            late = LateMember(event.member, event.instance, event.host, waited_ms, event.how)
            group.late = latest((*group.late, late))

    def _started(self, group: GroupHistory, ts_ms: int, event: RebalanceStarted) -> None:
        if group.running is not None:
            lost = group.has_gap
            outcome = RebalanceOutcome.INTERRUPTED if lost else RebalanceOutcome.SUPERSEDED
            self._end(group, ts_ms, outcome)
        if event.from_state == "Empty":
            group.own_nothing()
        group.started.note(ts_ms)
        group.awaited, group.late, group.phase_ms = set(event.awaited), (), ts_ms
        group.running = RebalanceRecord(
            group=event.group,
            outcome=RebalanceOutcome.RUNNING,
            cause=event.cause,
            detail=event.detail[:DETAIL_CHARACTERS],
            from_state=event.from_state,
            generation=event.generation,
            follows=event.follows,
            started_ms=ts_ms,
            awaited=CountedNames.of(event.awaited),
        )

    def _phase_joined(self, group: GroupHistory, ts_ms: int, event: PhaseJoined) -> None:
        running = group.running or missed_start(event, ts_ms, self.clock)
        came, went = group.came, group.went
        group.came, group.went = CountedNames(), CountedNames()
        group.said = event.members
        # Joins count from when the phase began, or began anew after the group was recovered.
        began_ms = self.clock.after(ts_ms, -event.took_ms)
        group.stopped.members_joined(event.members, began_ms, self.clock)
        waited_ms = max(ts_ms - running.started_ms, 0)
        before_ms = max(group.phase_ms - running.started_ms, 0)
        group.running = replace(
            running,
            generation=event.generation,
            joined_ms=ts_ms,
            prepare_ms=self.clock.lasted_ms(running.started_ms, ts_ms),
            protocol=event.protocol[:NAME_CHARACTERS],
            leader=event.leader[:NAME_CHARACTERS],
            members=len(event.members),
            came=came,
            went=went,
            dropped=CountedNames.of(event.dropped),
            late=latest((*group.late, *came_late(event, group.awaited, before_ms, waited_ms))),
        )

    def _completed(self, group: GroupHistory, ts_ms: int, event: RebalanceCompleted) -> None:
        if group.running is None:
            group.running = missed_start(event, ts_ms, self.clock)
        unseen = group.moves.assigned(event.assigned, needs_rejoin=event.needs_rejoin)
        group.running = replace(
            group.running,
            generation=event.generation,
            moved=event.moved + unseen,
            revoked=event.revoked,
            needs_rejoin=event.needs_rejoin,
            waiting_moves=waiting_moves(event, group.said),
        )
        group.said = ()
        cost = group.stopped.charge(ts_ms, self.clock)
        group.stopped.assigned(event.assigned, needs_rejoin=event.needs_rejoin, ts=ts_ms)
        self._end(group, ts_ms, RebalanceOutcome.COMPLETED, cost)

    def _emptied(self, group: GroupHistory, ts_ms: int, event: GroupEmptied) -> None:
        if group.running is not None:
            group.running = replace(
                group.running, generation=event.generation, came=group.came, went=group.went
            )
            self._end(
                group, ts_ms, RebalanceOutcome.EMPTIED, group.stopped.charge(ts_ms, self.clock)
            )
        group.came, group.went = CountedNames(), CountedNames()
        group.own_nothing()

    def _deleted(self, _group: GroupHistory, _ts_ms: int, event: GroupDeleted) -> None:
        self.forget((event.group,))
        self._deleted_groups[remembered(event.group)] = None
        if len(self._deleted_groups) > _DELETED_MAX:
            del self._deleted_groups[next(iter(self._deleted_groups))]

    def _unclaimed(self, group: GroupHistory, ts_ms: int, event: IdUnclaimed) -> None:
        running = group.running
        if running is not None:
            waited_ms = max(ts_ms - running.started_ms, 0)
            late = LateMember(event.member, None, "", waited_ms, "unclaimed")
            group.late = latest((*group.late, late))

    def _end(
        self, group: GroupHistory, ts_ms: int, outcome: RebalanceOutcome, cost: Charge | None = None
    ) -> None:
        if group.running is None:
            raise AssertionError("no rebalance is running")
        if outcome is RebalanceOutcome.SUPERSEDED:
            # What is stopped stays so; the next rebalance is charged from here on.
            cost = group.stopped.charge(ts_ms, self.clock)
        ended = replace(
            group.running,
            outcome=outcome,
            ended_ms=ts_ms,
            total_ms=self.clock.lasted_ms(group.running.started_ms, ts_ms),
            stopped_partition_ms=None if cost is None else cost.stopped_ms,
            silent_partition_ms=None if cost is None else cost.silent_ms,
        )
        group.note_end(outcome)
        self._keep(group, ended)
        for listener in self._listeners:
            listener(ended)

    def _keep(self, group: GroupHistory, ended: RebalanceRecord) -> None:
        self._order.append((ended.group, group.first_number + len(group.last)))
        group.last.append(ended)
        if len(group.last) > self._limit:
            group.drop_oldest()
        self._bound()

    def _bound(self) -> None:
        while len(self._order) > self._total:
            name, number = self._order.popleft()
            oldest = self._groups.get(name)
            if oldest is not None and oldest.last and oldest.first_number == number:
                oldest.drop_oldest()

    # -- the time before -----------------------------------------------------------------------

    def prepend(
        self,
        name: str,
        former: History,
        beginning: Beginning,
        started_ms: int = 0,
        generation: int = 0,
    ) -> None:
        """Put a group's rebalances in a former life of the node before those of this life.

        A rebalance that was going on as the former life ended is put together of its two parts,
        or is interrupted when the group was read back, or at `started_ms` if it was not.
        `generation` is that of the group, for a life in which none was told.
        `former` must not be used afterwards.  Listeners are not told.
        """
        if self.beginning(name) is not None:
            return
        group = self._group(name)
        is_complete = remembered(name) in former._deleted_groups
        group.beginning = Beginning(None, HistoryLimit.COMPLETE) if is_complete else beginning
        if all(stepped_ms is not None for _, stepped_ms in self._steps):
            former.clock.note(started_ms, None)
        for step in self._steps:
            former.clock.note(*step)
        for ts_ms, event in group.carried_over or ():
            former.observe(ts_ms, event)
        past = former._groups.get(name)
        if past is None:
            return
        at_ms = group.recovered_ms or self._recovered_ms or started_ms
        group.follow(past, generation, at_ms)
        if group.carried_over is None and past.running is not None:
            former._end(past, at_ms, RebalanceOutcome.INTERRUPTED)
        group.carry_over(past)
        group.started.put_first(past.started)
        self._put_first(name, group, past)

    def _put_first(self, name: str, group: GroupHistory, past: GroupHistory) -> None:
        group.dropped_ms = past.dropped_ms
        while past.last and len(group.last) < self._limit:
            group.last.appendleft(past.last.pop())
            group.first_number -= 1
            self._order.appendleft((name, group.first_number))
        if past.last:
            group.dropped_ms = past.last[-1].ended_ms
        self._bound()

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[History, GroupHistory, int, Any], None]]] = {
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
    #: The kinds of events about a group that matter here.
    KINDS: ClassVar[Collection[type[Event]]] = _HANDLERS.keys()
