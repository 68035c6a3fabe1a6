"""Timing that is robust on a busy machine: interleaved, in processor time, as ratios.

In each round all contenders take a turn (A B C, B C A, C A B, ...), so that a slow spell of the
machine slows all of them.  Ratios are taken within one round and then summed up over the rounds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Final

__all__ = ["FULL", "QUICK", "RATIO", "Effort", "Figure", "calm", "interleave", "ratio", "summary"]


#: The unit of a ratio.
RATIO: Final = "x"


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to measure."""

    #: The number of rounds; at least two, so that there is a spread.
    rounds: int
    #: The approximate length of a turn.
    turn_ms: float
    #: Whether this only tries that everything runs; a suite may then leave out slow parts.
    quick: bool


FULL: Final = Effort(rounds=41, turn_ms=8.0, quick=False)
QUICK: Final = Effort(rounds=2, turn_ms=0.0, quick=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number: the median over the rounds, and the quartiles."""

    median: float
    low: float
    high: float
    unit: str = RATIO
    #: Whether it meets the project's aim; None if there is no aim.
    reached: bool | None = None

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


@contextmanager
def calm() -> Iterator[None]:
    """Hide existing objects from the garbage collector.

    The collector stays on, as in production, and counts against the contender that allocates; but
    it does not scan objects of the benchmark itself.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def interleave(
    contenders: Mapping[str, Callable[[], object]], effort: Effort
) -> dict[str, list[float]]:
    """Time the contenders in turns; return each one's seconds per call, round by round."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with calm():
        calls = {name: _calls_per_turn(contenders[name], effort.turn_ms) for name in names}
        for turn in range(effort.rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                seconds[name].append(_seconds_per_call(contenders[name], calls[name]))
    return seconds


def _calls_per_turn(call: Callable[[], object], turn_ms: float) -> int:
    """The number of calls that fill a turn; finding out also warms up caches."""
    calls = 1
    while (taken := _seconds_per_call(call, calls) * calls * 1000) < turn_ms / 2:
        calls *= 2
    return max(1, round(calls * turn_ms / taken)) if taken else calls


def _seconds_per_call(call: Callable[[], object], calls: int) -> float:
    gc.collect()
    start = time.process_time_ns()
    for _ in repeat(None, calls):
        call()
    return max(time.process_time_ns() - start, 1) / calls / 1e9


def ratio(over: Sequence[float], under: Sequence[float]) -> Figure:
    """Compare two contenders, round by round."""
    return summary([a / b for a, b in zip(over, under, strict=True)])


def summary(values: Sequence[float], *, unit: str = RATIO, scale: float = 1.0) -> Figure:
    """Sum up the numbers of all rounds."""
    scaled = [value * scale for value in values]
    if len(scaled) == 1:
        return Figure(scaled[0], scaled[0], scaled[0], unit)
    low, median, high = statistics.quantiles(scaled, n=4, method="inclusive")
    return Figure(median, low, high, unit)
