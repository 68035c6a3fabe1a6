"""When each partition of a group was worked on, by its workers' own words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from coterie_cli.demonstrating.lines import Line, What

__all__ = ["Diary", "Stint", "Stop"]


@dataclass(slots=True)
class Stint:
    """A worker's time with a partition."""

    who: str
    began_s: float
    #: Whether it was asked to end.
    is_ending: bool = False
    ended_s: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_s < math.inf


@dataclass(frozen=True, slots=True)
class Stop:
    """A time in which nobody worked on a partition that was worked on before."""

    partition: int
    from_s: float
    #: Infinite while nobody does.
    until_s: float

    def lasted_s(self, from_s: float, until_s: float) -> float:
        """How much of it lies in a span of time."""
        return max(0.0, min(self.until_s, until_s) - max(self.from_s, from_s))


@dataclass(slots=True)
class Diary:
    """The stints of each partition, in the order in which they began."""

    _stints: dict[int, list[Stint]] = field(default_factory=dict)

    def note(self, who: str, line: Line) -> None:
        """Write down what a worker tells; workers may be heard in another order than they spoke."""
        if line.what is What.BEGINS:
            stints = self._stints.setdefault(line.partition, [])
            stints.append(Stint(who, line.at_s))
            stints.sort(key=lambda stint: stint.began_s)
            return
        stint = next(each for each in self._open(who) if each[0] == line.partition)[1]
        if line.what is What.ENDING:
            stint.is_ending = True
        else:
            stint.ended_s = line.at_s

    def die(self, who: str, at_s: float) -> None:
        """Write down that a worker is no more."""
        for _, stint in list(self._open(who)):
            stint.ended_s = at_s

    def _open(self, who: str) -> Iterator[tuple[int, Stint]]:
        for partition, stints in self._stints.items():
            yield from (
                (partition, each) for each in stints if each.who == who and not each.is_over
            )

    # -- what it says --------------------------------------------------------------------------

    @property
    def current(self) -> dict[int, Stint]:
        """The stints that go on; of two at once, the later one."""
        return {
            partition: stints[-1]
            for partition, stints in self._stints.items()
            if not stints[-1].is_over
        }

    @property
    def idle(self) -> set[int]:
        """The partitions that nobody works on, and somebody did."""
        return self._stints.keys() - self.current.keys()

    def stops(self) -> Iterator[Stop]:
        """All that there were."""
        for partition, stints in self._stints.items():
            busy_until_s = stints[0].ended_s
            for stint in stints[1:]:
                if stint.began_s > busy_until_s:
                    yield Stop(partition, busy_until_s, stint.began_s)
                busy_until_s = max(busy_until_s, stint.ended_s)
            if busy_until_s < math.inf:
                yield Stop(partition, busy_until_s, math.inf)

    def endings(self) -> Iterator[float]:
        """The moments at which work on a partition ended, whatever came of it."""
        for stints in self._stints.values():
            yield from (stint.ended_s for stint in stints if stint.is_over)

    def overlaps(self) -> int:
        """How often a worker began with a partition before the one before it had ended."""
        return sum(
            later.began_s < earlier.ended_s
            for stints in self._stints.values()
            for earlier, later in pairwise(stints)
        )
