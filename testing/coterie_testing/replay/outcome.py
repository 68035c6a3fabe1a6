"""What a history cost: told by the work that was done or not, and by the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coterie_client import Partition
from coterie_protocol.journal import Line, RebalanceCompleted, RebalanceStarted
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import World

__all__ = ["Outcome", "WorkBook", "outcome_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A group's cost over a time."""

    rebalances: Counter[str] = field(default_factory=Counter)
    #: Partitions that changed hands, and that were taken away.
    moved: int = 0
    revoked: int = 0
    #: Partition-seconds without anybody at work, once there was somebody; None if a journal alone
    #: can't tell.
    stopped_s: float | None = None
    #: For each process that ended without goodbye: how long its partitions had nobody.
    takeovers_s: tuple[float, ...] = ()
    lines: Sequence[Line] = ()

    @property
    def rebalance_count(self) -> int:
        """How many rebalances there were."""
        return self.rebalances.total()

    @property
    def slowest_takeover_s(self) -> float | None:
        """The longest time that a dead process's partitions had nobody."""
        return max(self.takeovers_s, default=None)


def outcome_of(lines: Iterable[Line], group: str) -> Outcome:
    """What a journal tells of a group's cost."""
    kept = [line for line in lines if line.event.group == group]
    rebalances: Counter[str] = Counter()
    moved = revoked = 0
    for line in kept:
        match line.event:
            case RebalanceStarted(cause=cause):
                rebalances[cause] += 1
            case RebalanceCompleted() as completed:
                moved += completed.moved
                revoked += completed.revoked
    return Outcome(rebalances=rebalances, moved=moved, revoked=revoked, lines=kept)


class WorkBook:
    """Notes when partitions are worked on, and adds up when they are not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._workers: dict[tuple[str, int], set[Worker]] = {}
        self._idle_since_s: dict[tuple[str, int], float] = {}
        self._stopped_s = 0.0
        #: The partitions of those who died, until somebody takes them.
        self._orphaned_s: dict[tuple[str, int], float] = {}
        self.takeovers_s: list[float] = []

    # -- what workers tell ---------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Somebody works on it."""
        key, now_s = partition.key, self._world.now_s
        self._workers.setdefault(key, set()).add(worker)
        self._stopped_s += now_s - self._idle_since_s.pop(key, now_s)
        if key in self._orphaned_s:
            self.takeovers_s.append(now_s - self._orphaned_s.pop(key))

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """It goes on from an offset."""

    def touched(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Something was done."""

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Something was stored."""

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Somebody works on it no more."""
        self._end(worker, partition.key)

    def died(self, worker: Worker) -> None:
        """It works on nothing any more, and says nothing."""
        for key, workers in self._workers.items():
            if worker in workers:
                self._end(worker, key)
                self._orphaned_s.setdefault(key, self._world.now_s)

    def _end(self, worker: Worker, key: tuple[str, int]) -> None:
        workers = self._workers.get(key, set())
        workers.discard(worker)
        if not workers:
            self._idle_since_s.setdefault(key, self._world.now_s)

    # -- the sum -------------------------------------------------------------------------------

    def stopped_s(self) -> float:
        """Partition-seconds without anybody at work, until now."""
        now_s = self._world.now_s
        return self._stopped_s + sum(now_s - since_s for since_s in self._idle_since_s.values())
