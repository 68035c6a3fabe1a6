"""When each partition of a group was worked on, and by which worker, as the workers tell it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from coterie_cli.demo.messages import WorkEvent, WorkEventKind

__all__ = ["Stint", "Stop", "WorkLog"]


@dataclass(slots=True)
class Stint:
    """The time during which one worker works on a partition."""

    worker: str
    began_s: float
    #: Whether the worker was asked to let go.
    is_ending: bool = False
    ended_s: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_s < math.inf


@dataclass(frozen=True, slots=True)
class Stop:
    """A time between two stints on a partition, in which no worker works on it."""

    partition: int
    from_s: float
    #: Infinite if it goes on.
    until_s: float

    def lasted_s(self, from_s: float, until_s: float) -> float:
        """How much of it lies within a span of time."""
        return max(0.0, min(self.until_s, until_s) - max(self.from_s, from_s))


@dataclass(slots=True)
class WorkLog:
    """The stints on each partition, in the order in which they began."""

    _stints: dict[int, list[Stint]] = field(default_factory=dict)

    def add(self, worker: str, event: WorkEvent) -> None:
        """Record an event; events of different workers may come in another order than they were."""
        if event.kind is WorkEventKind.BEGINS:
            stints = self._stints.setdefault(event.partition, [])
            stints.append(Stint(worker, event.at_s))
            stints.sort(key=lambda stint: stint.began_s)
            return
        stint = next(each for each in self._open(worker) if each[0] == event.partition)[1]
        if event.kind is WorkEventKind.ENDING:
            stint.is_ending = True
        else:
            stint.ended_s = event.at_s

    def end_all(self, worker: str, at_s: float) -> None:
        """Record that a worker died, and with it all of its work."""
        for _, stint in list(self._open(worker)):
            stint.ended_s = at_s

    def _open(self, worker: str) -> Iterator[tuple[int, Stint]]:
        for partition, stints in self._stints.items():
            yield from (
                (partition, each) for each in stints if each.worker == worker and not each.is_over
            )

    @property
    def current(self) -> dict[int, Stint]:
        """The stints that go on, by partition; the later one if a partition has two."""
        return {
            partition: stints[-1]
            for partition, stints in self._stints.items()
            if not stints[-1].is_over
        }

    @property
    def idle(self) -> set[int]:
        """The partitions that were worked on, and are not now."""
        return self._stints.keys() - self.current.keys()

    def stops(self) -> Iterator[Stop]:
        """All stops of all partitions."""
        for partition, stints in self._stints.items():
            busy_until_s = stints[0].ended_s
            for stint in stints[1:]:
                if stint.began_s > busy_until_s:
                    yield Stop(partition, busy_until_s, stint.began_s)
                busy_until_s = max(busy_until_s, stint.ended_s)
            if busy_until_s < math.inf:
                yield Stop(partition, busy_until_s, math.inf)

    def endings(self) -> Iterator[float]:
        """The moments at which stints ended."""
        for stints in self._stints.values():
            yield from (stint.ended_s for stint in stints if stint.is_over)

    def overlaps(self) -> int:
        """How often a stint on a partition began before the one before it had ended."""
        return sum(
            later.began_s < earlier.ended_s
            for stints in self._stints.values()
            for earlier, later in pairwise(stints)
        )
