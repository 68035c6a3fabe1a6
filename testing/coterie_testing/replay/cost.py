"""What a group's history cost: the same figures from a journal and from a replay."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    Line,
    MemberGone,
    Partitions,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.history import History, RebalanceRecord

__all__ = ["Cost", "cost_of"]

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a group's history."""

    #: How many rebalances began, by cause.
    rebalances: Counter[str] = field(default_factory=Counter)
    #: Partitions that changed owners, and that were revoked.
    moved: int = 0
    revoked: int = 0
    #: Partition-seconds without a worker at work. In a replay that is measured, and so includes
    #: silences that no coordinator noticed. In a journal it is what the rebalances cost, and for
    #: how long members had been silent that were given up or replaced; None if it can't be told.
    stopped_s: float | None = None
    #: For each partition of an expired member: how long after the last sign of life of that member
    #: it was assigned again.
    takeovers_s: tuple[float, ...] = ()
    #: Partition-seconds with two workers at work; None for a journal, which can't tell.
    overlap_s: float | None = None
    #: How many steps the replay took; 0 for a journal.
    steps: int = 0
    #: The group's lines.
    lines: Sequence[Line] = ()

    @property
    def rebalance_count(self) -> int:
        """How many rebalances there were."""
        return self.rebalances.total()

    @property
    def takeover_s(self) -> float | None:
        """The median of the takeovers."""
        return statistics.median(self.takeovers_s) if self.takeovers_s else None

    @property
    def slowest_takeover_s(self) -> float | None:
        """The longest takeover."""
        return max(self.takeovers_s, default=None)


def cost_of(lines: Iterable[Line], group: str) -> Cost:
    """Take the cost of a group's history from a journal."""
    kept = (line for line in lines if line.event.group in ("", group))
    return _Account().add_up(list(kept))


class _Account:
    """Adds up line by line."""

    def __init__(self) -> None:
        self._rebalances: Counter[str] = Counter()
        self._moved = self._revoked = 0
        self._stopped_ms = 0
        self._is_known = False
        self._takeovers_s: list[float] = []
        #: The partitions of expired members, and when those were last heard of.
        self._orphans: dict[TopicPartition, int] = {}

    def add_up(self, lines: Sequence[Line]) -> Cost:
        history = History(limit=1)
        history.listen(self._ended)
        for line in lines:
            history.observe(line.ts, line.event)
            self._add(line.ts, line.event)
        self._stopped_ms += history.silent_partition_ms
        return Cost(
            rebalances=self._rebalances,
            moved=self._moved,
            revoked=self._revoked,
            stopped_s=self._stopped_ms / 1000 if self._is_known else None,
            takeovers_s=tuple(self._takeovers_s),
            lines=[line for line in lines if line.event.group],
        )

    def _ended(self, rebalance: RebalanceRecord) -> None:
        self._moved += rebalance.moved
        self._revoked += rebalance.revoked
        if rebalance.stopped_partition_ms is not None:
            self._is_known = True
            self._stopped_ms += rebalance.stopped_partition_ms

    def _add(self, ts_ms: int, event: Event) -> None:
        match event:
            case RebalanceStarted(cause=cause):
                self._rebalances[cause] += 1
            case RebalanceCompleted():
                self._completed(ts_ms, event.assigned or {})
            case MemberGone(was_silent=True):
                for partition in _each(event.owned or {}):
                    self._orphans.setdefault(partition, ts_ms - event.silent_ms)
            case GroupEmptied():
                self._orphans.clear()

    def _completed(self, ts_ms: int, assigned: Mapping[str, Partitions]) -> None:
        for owned in assigned.values():
            for partition in _each(owned):
                since_ms = self._orphans.pop(partition, None)
                if since_ms is not None:
                    self._takeovers_s.append((ts_ms - since_ms) / 1000)


def _each(partitions: Partitions) -> Iterator[TopicPartition]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number
