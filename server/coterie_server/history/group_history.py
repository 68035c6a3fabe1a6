"""What a history knows of one group."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from coterie_protocol.journal import Event, MemberPhase
from coterie_server.history.recent_count import RecentCount
from coterie_server.history.record import Beginning, CountedNames, LateMember, RebalanceRecord
from coterie_server.history.stopped_partitions import StoppedPartitions

__all__ = ["GroupHistory"]


@dataclass(slots=True)
class GroupHistory:
    """What a history knows of one group."""

    stopped: StoppedPartitions
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
    #: What members said as they joined the running rebalance.
    said: tuple[MemberPhase, ...] = ()
    #: Whether lines are missing since the running rebalance was last heard of.
    has_gap: bool = False
    #: Members that came and went since the last generation began.
    came: CountedNames = field(default_factory=CountedNames)
    went: CountedNames = field(default_factory=CountedNames)
    #: When the group was read back from the store.
    recovered_ms: int | None = None
    #: If a rebalance was going on then, what happened up to its end, for `prepend`.
    carried_over: list[tuple[int, Event]] | None = None
    is_carried_over: bool = False
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

    def drop_oldest(self) -> None:
        """Forget the oldest of the last rebalances."""
        self.dropped_ms = self.last.popleft().ended_ms
        self.first_number += 1
