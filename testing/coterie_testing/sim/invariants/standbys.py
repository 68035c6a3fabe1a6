"""Standbys: a restore never goes on beside work, nor for what its client does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from coterie_client import Partition, Role, Standby
from coterie_testing.sim.worker import Worker

__all__ = ["StandbyChecker"]

TopicPartition = tuple[str, int]

#: By how much a log may grow from the moment at which a copy has caught up until it is used.
_GROWTH: Final = 10


class StandbyChecker:
    """Knows which restores go on; each method says what must not be."""

    def __init__(self, counts: Counter[str]) -> None:
        self._running: dict[tuple[Worker, TopicPartition], Standby] = {}
        self._counts = counts

    # -- what workers do -----------------------------------------------------------------------

    def restoring(self, worker: Worker, standby: Standby, *, is_at_work: bool) -> Iterator[str]:
        """A restore begins."""
        key = worker, standby.key
        if is_at_work:
            yield f"{standby}: {worker.name} restores it while it works on it"
        if key in self._running:
            yield f"{standby}: {worker.name} restores it twice at once"
        self._running[key] = standby
        self._counts[f"restores begun: {standby.role.value}"] += 1

    def restored(self, worker: Worker, standby: Standby) -> Iterator[str]:
        """A restore got some way further."""
        if not standby.is_held:
            yield f"{standby}: {worker.name} restores what its own client does not hold"
        self._counts["steps of restores"] += 1

    def restore_ended(self, worker: Worker, standby: Standby) -> None:
        """A restore has ended."""
        self._running.pop((worker, standby.key), None)

    def work_started(self, worker: Worker, partition: Partition, lag: int | None) -> Iterator[str]:
        """Work begins, with a state that is so far behind if it needs one."""
        if (worker, partition.key) in self._running:
            yield f"{partition}: {worker.name} works on it while it still restores it"
        if lag is not None:
            is_warm = lag <= worker.acceptable_lag + _GROWTH
            self._counts["warm starts" if is_warm else "cold starts"] += 1

    def died(self, worker: Worker) -> None:
        """None of its restores goes on."""
        for key in [key for key in self._running if key[0] is worker]:
            del self._running[key]

    # -- at the end ----------------------------------------------------------------------------

    def check_settled(
        self,
        workers: Iterable[Worker],
        partitions: Iterable[TopicPartition],
        *,
        are_few: bool = False,
    ) -> Iterator[str]:
        """Each standby is kept up to date, and there are as many as there should be.

        There may be fewer where members get none because they are drained, or the group is frozen.
        """
        members = list(workers)
        for worker in members:
            held = {each.key for each in worker.group.standbys}
            running = {key for each, key in self._running if each is worker}
            if held != running:
                yield f"{worker.name} holds {sorted(held)}, but restores {sorted(running)}"
            if any(each.role is Role.WARM_UP for each in worker.group.standbys):
                yield f"{worker.name} still warms up"
            both = held & {each.key for each in worker.group.owned}
            if both:
                yield f"{worker.name} owns its own standbys: {sorted(both)}"
        if not are_few:
            yield from self._check_number(members, partitions)

    def _check_number(
        self, workers: list[Worker], partitions: Iterable[TopicPartition]
    ) -> Iterator[str]:
        """With members that are all alike, each partition has all its standbys."""
        state = workers[0].options.state if workers else None
        is_alike = all(
            each.options.state is not None and each.options.topics == workers[0].options.topics
            for each in workers
        )
        if state is None or not is_alike:
            return
        wanted = min(state.options.settings.num_standbys, len(workers) - 1)
        counts = Counter(each.key for worker in workers for each in worker.group.standbys)
        for partition in partitions:
            if counts[partition] != wanted:
                yield f"{partition} has {counts[partition]} standbys and not {wanted}"
