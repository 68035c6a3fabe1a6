"""What a journal tells of a group's cost; the same for real ones and for those of replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    Line,
    MemberGone,
    MemberReplaced,
    Partitions,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.history import History, RebalanceRecord

__all__ = ["Told", "told_of"]

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A group's cost over a time, as its coordinator saw it."""

    rebalances: Counter[str] = field(default_factory=Counter)
    #: Partitions that changed hands, and that were taken away.
    moved: int = 0
    revoked: int = 0
    #: Partition-seconds without anybody at work: what the rebalances cost, and for how long members
    #: that were given up had been silent. None if the assignments can't be read.
    stopped_s: float | None = None
    #: For each partition of a member that was given up as silent: how long after it was last heard
    #: of somebody was given the partition.
    takeovers_s: tuple[float, ...] = ()


def told_of(lines: Iterable[Line], group: str) -> Told:
    """What a journal tells of a group's cost."""
    return _Reckoning().reckon([line for line in lines if line.event.group == group])


class _Reckoning:
    """Adds up line by line."""

    def __init__(self) -> None:
        self._rebalances: Counter[str] = Counter()
        self._moved = self._revoked = 0
        self._stopped_ms = 0
        self._is_known = False
        self._takeovers_s: list[float] = []
        self._given: Mapping[str, Partitions] = {}
        #: The partitions of those who were given up, and when those were last heard of.
        self._orphans: dict[TopicPartition, int] = {}

    def reckon(self, lines: Sequence[Line]) -> Told:
        history = History(limit=1)
        history.listen(self._ended)
        for line in lines:
            history.observe(line.ts, line.event)
            self._note(line.ts, line.event)
        return Told(
            rebalances=self._rebalances,
            moved=self._moved,
            revoked=self._revoked,
            stopped_s=self._stopped_ms / 1000 if self._is_known else None,
            takeovers_s=tuple(self._takeovers_s),
        )

    def _ended(self, rebalance: RebalanceRecord) -> None:
        if rebalance.stopped_partition_ms is not None:
            self._is_known = True
            self._stopped_ms += rebalance.stopped_partition_ms

    def _note(self, ts_ms: int, event: Event) -> None:
        match event:
            case RebalanceStarted(cause=cause):
                self._rebalances[cause] += 1
            case RebalanceCompleted():
                self._moved += event.moved
                self._revoked += event.revoked
                self._taken(ts_ms, event.assigned or {})
            case GroupRecovered():
                self._given = event.assigned or {}
            case MemberReplaced():
                owned = self._given.get(event.former_member, {})
                self._stopped_ms += event.silent_ms * len(list(_each(owned)))
            case MemberGone(how="session_expired"):
                for partition in _each(event.owned or {}):
                    self._stopped_ms += event.silent_ms
                    self._orphans.setdefault(partition, ts_ms - event.silent_ms)
            case GroupEmptied():
                self._orphans.clear()

    def _taken(self, ts_ms: int, assigned: Mapping[str, Partitions]) -> None:
        self._given = assigned
        for owned in assigned.values():
            for partition in _each(owned):
                since_ms = self._orphans.pop(partition, None)
                if since_ms is not None:
                    self._takeovers_s.append((ts_ms - since_ms) / 1000)


def _each(partitions: Partitions) -> Iterator[TopicPartition]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number
