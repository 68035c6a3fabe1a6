"""What a history knows of one group."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import chain

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    MemberPhase,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_protocol.replay import ClockSteps
from coterie_protocol.replay.deletions import deleted_topic
from coterie_protocol.replay.last_state import IN_REBALANCE, LastState
from coterie_protocol.replay.unseen_moves import UnseenMoves
from coterie_server.history.recent_count import RecentCount
from coterie_server.history.record import (
    Beginning,
    CountedNames,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
)
from coterie_server.history.stopped_partitions import StoppedPartitions

__all__ = ["GroupHistory", "missed_start"]


@dataclass(slots=True)
class GroupHistory:
    """What a history knows of one group."""

    stopped: StoppedPartitions
    moves: UnseenMoves = field(default_factory=UnseenMoves)
    last: deque[RebalanceRecord] = field(default_factory=deque)
    #: The number of the first of `last`; those that `prepend` put first have negative ones.
    first_number: int = 0
    #: When the latest of those ended that were dropped from `last`; None if none was.
    dropped_ms: int | None = None
    running: RebalanceRecord | None = None
    #: How many rebalances started of late.
    started: RecentCount = field(default_factory=RecentCount)
    #: The members that the running rebalance waits for, and those that it waited for in vain; of
    #: interest until its first phase is over.
    awaited: set[str] = field(default_factory=set)
    late: tuple[LateMember, ...] = ()
    #: When that phase began, or began anew as the group was read back: joins count from then.
    phase_ms: int = 0
    #: What members said as they joined the running rebalance.
    said: tuple[MemberPhase, ...] = ()
    #: Whether lines are missing since the running rebalance was last heard of.
    has_gap: bool = False
    #: Members that came and went since the last generation began.
    came: CountedNames = field(default_factory=CountedNames)
    went: CountedNames = field(default_factory=CountedNames)
    #: When the group was read back from the store.
    recovered_ms: int | None = None
    #: If a rebalance was going on then, what happened until one ended that no other one cut short,
    #: for `prepend`; and how many have ended by then.
    carried_over: list[tuple[int, Event]] | None = None
    is_carried_over: bool = False
    carried_ended: int = 0
    #: The first generation that was told, and the latest.
    first_generation: int | None = None
    generation: int | None = None
    #: How the events leave the group, and whether the latest one read it back just like that.
    last_state: LastState = field(default_factory=LastState)
    is_resumed: bool = False
    #: When the group was last read back in a generation of which nothing was told.
    gap_ms: int | None = None
    #: What `prepend` said; None before.
    beginning: Beginning | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything was heard of the group."""
        heard = self.last or self.running or self.came or self.went
        return bool(heard) or self.recovered_ms is not None

    @property
    def is_whole(self) -> bool:
        """Whether the first rebalance of all is among those that are known."""
        first = self.last[0] if self.last else self.running
        return first is not None and first.generation <= 1 and first.from_state == "Empty"

    def note(self, ts_ms: int, event: Event) -> None:
        """Take note of what an event tells of the group's state, generation and owners.

        If the group is read back in a later one than was told last, another node had it meanwhile,
        or a node was killed before its last lines were written.
        """
        self.is_resumed = self.last_state.note(event.kind, lambda name: getattr(event, name, None))
        generation: int | None = getattr(event, "generation", None)
        if generation is None:
            return
        if isinstance(event, GroupRecovered) and self.lacks(generation):
            self.gap_ms = ts_ms
        if isinstance(event, PhaseJoined):
            joined = [each for each in event.members if each.joined_after_ms is not None]
            self.moves.joined({each.member: each.owned for each in joined})
        if isinstance(event, RebalanceStarted):
            # Of topics that another node deletes, or had deleted before, nothing else may tell.
            topic = deleted_topic(event.cause, event.detail)
            if topic is not None:
                self.stopped.topic_deleted(topic)
        if self.first_generation is None:
            self.first_generation = generation
        self.generation = generation

    def lacks(self, generation: int) -> bool:
        """Whether nothing was told of how the group came into a generation."""
        return self.generation is not None and generation > self.generation

    def follow(self, past: GroupHistory, generation: int, at_ms: int) -> None:
        """Take note of what is missing since a former life, which this one went on from at a time.

        `generation` is that of the group, for a life in which none was told.
        """
        first = self.first_generation
        is_gap = past.lacks(generation if first is None else first)
        self.gap_ms = self.gap_ms or (at_ms if is_gap else past.gap_ms)

    def miss_events(self) -> None:
        """Take note that events are missing here."""
        self.has_gap = True
        self.stopped, self.moves = StoppedPartitions(None), UnseenMoves()
        self.last_state = LastState()

    def own_nothing(self) -> None:
        """Note that no member owns anything, and that nothing is on its way to one."""
        self.stopped, self.moves = StoppedPartitions({}), UnseenMoves.since({})

    def read_back(
        self, ts_ms: int, event: GroupRecovered, topics: Container[str] | None = None
    ) -> None:
        """Note that a node has read the group; which topics there are, if that is known."""
        goes_on, self.phase_ms = event.state in IN_REBALANCE, ts_ms
        # Members that were in no generation yet were not stored, and will come anew.
        self.came = CountedNames()
        if not goes_on:
            self.went = CountedNames()
        if self.is_resumed:
            assigned = None if goes_on else event.assigned
            self.stopped.read_back(event.members, assigned, ts_ms)
            self.moves.read_back()
        else:
            # Of a rebalance that goes on, only the time before can tell what it has cost by then.
            self.stopped = StoppedPartitions(event.assigned, ts_ms, is_whole=not goes_on)
            self.moves = UnseenMoves.since(event.assigned)
        if topics is not None:
            given = chain.from_iterable((event.assigned or {}).values())
            for topic in {each for each in given if each not in topics}:
                self.stopped.topic_deleted(topic)

    def note_end(self, outcome: RebalanceOutcome) -> None:
        """Note that the running rebalance has ended."""
        self.running, self.awaited, self.late = None, set(), ()
        self.has_gap = False
        if self.is_carried_over:
            self.carried_ended += 1
            # What one has cost that is cut short, the next one goes on with.
            self.is_carried_over = outcome is RebalanceOutcome.SUPERSEDED

    def carry_over(self, past: GroupHistory) -> None:
        """Take over from a former life, which has seen `carried_over`, what it knows better."""
        for number in reversed(range(self.carried_ended)):
            self.last[number] = past.last.pop()
        if self.is_carried_over:
            self.running, self.late, self.awaited = past.running, past.late, past.awaited
            self.came, self.went = past.came, past.went
            self.stopped, self.moves = past.stopped, past.moves
        self.carried_over, self.is_carried_over, self.carried_ended = None, False, 0

    def drop_oldest(self) -> None:
        """Forget the oldest of the last rebalances."""
        self.dropped_ms = self.last.popleft().ended_ms
        self.first_number += 1


def missed_start(
    event: PhaseJoined | RebalanceCompleted, ts_ms: int, clock: ClockSteps
) -> RebalanceRecord:
    """A rebalance that began before the journal did."""
    begun_ms, joined_ms, prepare_ms = event.took_ms, None, None
    if isinstance(event, RebalanceCompleted):
        begun_ms, joined_ms = event.total_ms, clock.after(ts_ms, -event.took_ms)
        prepare_ms = event.total_ms - event.took_ms
    return RebalanceRecord(
        group=event.group,
        outcome=RebalanceOutcome.RUNNING,
        cause=event.cause,
        detail="",
        from_state="",
        generation=event.generation,
        follows=None,
        started_ms=clock.after(ts_ms, -begun_ms),
        joined_ms=joined_ms,
        prepare_ms=prepare_ms,
    )
