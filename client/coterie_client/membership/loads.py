"""The loads of a member's partitions, and since when it has them, as it tells the leader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from coterie_assignors import Assignor, Weights
from coterie_client.membership.smoothing import SmoothedLoad
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.loads import Load, LoadReport

__all__ = ["Loads"]


class Loads:
    """Smooths loads, and remembers when partitions came and went.

    That goes by assignments, not by what is worked on: an eager member lets go of everything before
    it joins, and what it gets back has not moved.
    """

    def __init__(self, assignors: Sequence[Assignor] = ()) -> None:
        found = (each.weights for each in assignors if each.weights is not None)
        #: None if no assignor wants to know.
        self.weights: Weights | None = next(found, None)
        self._loads: dict[TopicPartition, SmoothedLoad] = {}
        self._since_ms: dict[TopicPartition, int] = {}
        #: What was assigned elsewhere, when, and with which load.
        self._left: dict[TopicPartition, tuple[int, float | None]] = {}
        #: What was told last, as far as loads were known, and when.
        self._told: dict[TopicPartition, float] = {}
        self.told_ms: int | None = None

    def add(self, partition: TopicPartition, value: float, now_ms: int) -> None:
        """Note the load of a partition from now on."""
        if self.weights is None:
            return
        smoothed = self._loads.get(partition)
        if smoothed is None:
            self._loads[partition] = SmoothedLoad(self.weights.smoothing_ms, value, now_ms)
        else:
            smoothed.add(value, now_ms)

    def assigned(self, partitions: AbstractSet[TopicPartition], now_ms: int) -> None:
        """Note what the member has from now on, and that the rest went to other members."""
        for partition in self._since_ms.keys() - partitions:
            del self._since_ms[partition]
            smoothed = self._loads.pop(partition, None)
            self._left[partition] = (now_ms, smoothed.mean(now_ms) if smoothed else None)
        for partition in partitions - self._since_ms.keys():
            self._since_ms[partition] = now_ms
            self._left.pop(partition, None)
            self._loads.pop(partition, None)

    def forget(self) -> None:
        """Have nothing any more: the group went on without this member."""
        self._loads.clear()
        self._since_ms.clear()

    def report(self, now_ms: int) -> LoadReport:
        """What to tell the leader."""
        rest_ms = self.weights.rest_ms if self.weights is not None else 0
        self._left = {p: e for p, e in self._left.items() if now_ms - e[0] < rest_ms}
        return LoadReport(
            owned={p: Load(self._mean(p, now_ms), now_ms - t) for p, t in self._since_ms.items()},
            left={p: Load(value, now_ms - t) for p, (t, value) in self._left.items()},
        )

    def tell(self, assignors: Iterable[Assignor], now_ms: int) -> None:
        """Hand the assignors that want them the present loads."""
        self._told = {
            p: load for p in self._since_ms if (load := self._mean(p, now_ms)) is not None
        }
        self.told_ms = now_ms
        for assignor in assignors:
            if assignor.weights is not None:
                assignor.note_loads(self.report(now_ms))

    def growth(self, now_ms: int) -> float:
        """How many times the load that was told last the present one is, of the same partitions."""
        told = {p: load for p, load in self._told.items() if p in self._since_ms}
        before = sum(told.values())
        return sum(self._mean(p, now_ms) or 0.0 for p in told) / before if before else 1.0

    def _mean(self, partition: TopicPartition, now_ms: int) -> float | None:
        smoothed = self._loads.get(partition)
        return None if smoothed is None else smoothed.mean(now_ms)
