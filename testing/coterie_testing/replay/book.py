"""What a replay itself shows: when partitions were worked on, and when not."""

from __future__ import annotations

from collections import defaultdict

from coterie_client import Partition
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler

__all__ = ["WorkBook"]

TopicPartition = tuple[str, int]


class WorkBook:
    """Notes who is at work on what, and adds up the time in which nobody is, or two are.

    A process that is not heard of is not at work, and a group without processes stops nothing.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._world = scheduler
        self._workers: dict[TopicPartition, set[Worker]] = defaultdict(set)
        self._present: set[Worker] = set()
        self._silent: set[Worker] = set()
        self._idle: set[TopicPartition] = set()
        self._shared: set[TopicPartition] = set()
        self._reckoned_s = 0.0
        self._stopped_s = 0.0
        self._overlap_s = 0.0

    # -- who is there --------------------------------------------------------------------------

    def came(self, worker: Worker) -> None:
        """A process takes part from now on."""
        self._reckon()
        self._present.add(worker)

    def left(self, worker: Worker) -> None:
        """It takes part no more, whether or not it has finished yet."""
        self._reckon()
        self._present.discard(worker)
        if not self._present:
            self._idle.clear()

    def fell_silent(self, worker: Worker) -> None:
        """It is not heard of."""
        self._silent.add(worker)
        self._look_at_all_of(worker)

    def went_on(self, worker: Worker) -> None:
        """It is heard of again."""
        self._silent.discard(worker)
        self._look_at_all_of(worker)

    def forget(self, topic: str, partitions: int) -> None:
        """A topic has only so many partitions any more."""
        self._reckon()
        for key in [key for key in self._workers if key[0] == topic and key[1] >= partitions]:
            del self._workers[key]
            self._idle.discard(key)
            self._shared.discard(key)

    # -- what workers tell ---------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Somebody works on it."""
        self._workers[partition.key].add(worker)
        self._look_at(partition.key)

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """It goes on from an offset."""

    def acted(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Something was done."""

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Something was stored."""

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Somebody works on it no more."""
        if partition.key in self._workers:
            self._workers[partition.key].discard(worker)
            self._look_at(partition.key)

    def died(self, worker: Worker) -> None:
        """It works on nothing any more, and says nothing."""
        self._silent.discard(worker)
        for key, workers in self._workers.items():
            if worker in workers:
                workers.discard(worker)
                self._look_at(key)
        self.left(worker)

    # -- the sums ------------------------------------------------------------------------------

    @property
    def stopped_s(self) -> float:
        """Partition-seconds without anybody at work, until now."""
        self._reckon()
        return self._stopped_s

    @property
    def overlap_s(self) -> float:
        """Partition-seconds with more than one at work, until now."""
        self._reckon()
        return self._overlap_s

    def _look_at_all_of(self, worker: Worker) -> None:
        for key, workers in self._workers.items():
            if worker in workers:
                self._look_at(key)

    def _look_at(self, key: TopicPartition) -> None:
        self._reckon()
        at_work = len(self._workers[key] - self._silent)
        self._idle.discard(key)
        self._shared.discard(key)
        if at_work == 0:
            self._idle.add(key)
        elif at_work > 1:
            self._shared.add(key)

    def _reckon(self) -> None:
        """Add up what has passed since something changed."""
        passed_s, self._reckoned_s = self._world.now_s - self._reckoned_s, self._world.now_s
        if self._present:
            self._stopped_s += passed_s * len(self._idle)
        self._overlap_s += passed_s * len(self._shared)
