"""Measures for how long partitions have no worker, or two, in a replay."""

from __future__ import annotations

from collections import defaultdict

from coterie_client import Partition
from coterie_testing.sim.worker import Worker, WorkObserver
from coterie_testing.virtual import Scheduler

__all__ = ["WorkMeter"]

TopicPartition = tuple[str, int]


class WorkMeter(WorkObserver):
    """Adds up the time in which partitions have no worker at work, or more than one.

    A silent process does not count as at work; while a group has no processes, nothing counts.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._workers: dict[TopicPartition, set[Worker]] = defaultdict(set)
        self._present: set[Worker] = set()
        self._silent: set[Worker] = set()
        self._idle: set[TopicPartition] = set()
        self._shared: set[TopicPartition] = set()
        self._counted_until_s = 0.0
        self._stopped_s = 0.0
        self._overlap_s = 0.0

    # -- processes -----------------------------------------------------------------------------

    def came(self, worker: Worker) -> None:
        """A process starts."""
        self._add_up()
        self._present.add(worker)

    def left(self, worker: Worker) -> None:
        """A process leaves, whether or not its work has finished yet."""
        self._add_up()
        self._present.discard(worker)
        if not self._present:
            self._idle.clear()

    def fell_silent(self, worker: Worker) -> None:
        """A process falls silent."""
        self._silent.add(worker)
        self._update_all_of(worker)

    def woke_up(self, worker: Worker) -> None:
        """A silent process is heard of again."""
        self._silent.discard(worker)
        self._update_all_of(worker)

    def forget(self, topic: str, partitions: int) -> None:
        """A topic shrinks, or is deleted: its other partitions do not count any more."""
        self._add_up()
        for key in [key for key in self._workers if key[0] == topic and key[1] >= partitions]:
            del self._workers[key]
            self._idle.discard(key)
            self._shared.discard(key)

    # -- work ----------------------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition begins."""
        self._workers[partition.key].add(worker)
        self._update(partition.key)

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition ended."""
        if partition.key in self._workers:
            self._workers[partition.key].discard(worker)
            self._update(partition.key)

    def died(self, worker: Worker) -> None:
        """A process was killed."""
        self._silent.discard(worker)
        for key, workers in self._workers.items():
            if worker in workers:
                workers.discard(worker)
                self._update(key)
        self.left(worker)

    # -- the sums ------------------------------------------------------------------------------

    @property
    def stopped_s(self) -> float:
        """Partition-seconds without a worker at work, until now."""
        self._add_up()
        return self._stopped_s

    @property
    def overlap_s(self) -> float:
        """Partition-seconds with more than one worker at work, until now."""
        self._add_up()
        return self._overlap_s

    def _update_all_of(self, worker: Worker) -> None:
        for key, workers in self._workers.items():
            if worker in workers:
                self._update(key)

    def _update(self, key: TopicPartition) -> None:
        self._add_up()
        at_work = len(self._workers[key] - self._silent)
        self._idle.discard(key)
        self._shared.discard(key)
        if at_work == 0:
            self._idle.add(key)
        elif at_work > 1:
            self._shared.add(key)

    def _add_up(self) -> None:
        """Add the time since the last change."""
        passed_s, self._counted_until_s = (
            self._scheduler.now_s - self._counted_until_s,
            self._scheduler.now_s,
        )
        if self._present:
            self._stopped_s += passed_s * len(self._idle)
        self._overlap_s += passed_s * len(self._shared)
