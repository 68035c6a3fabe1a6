"""Many runs, on many cores, in the order of their seeds."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import structlog

from coterie_testing.sim.runs import Result, execute, run_of

__all__ = ["Campaign", "Totals"]

#: How many runs a worker is given at a time: enough that handing them out costs nothing.
_BATCH: Final = 8


@dataclass(slots=True)
class Totals:
    """What came of all runs so far."""

    runs: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count a run."""
        self.runs += 1
        self.steps += result.steps
        self.virtual_s += result.virtual_s
        self.counts.update(result.counts)


@dataclass(frozen=True, slots=True)
class Campaign:
    """Which runs there are to be."""

    seed: int
    profile: str
    #: How many runs; None for as many as it takes to take so many steps.
    runs: int | None = None
    steps: int = 0
    jobs: int = 1

    def results(self) -> Iterator[Result]:
        """The results, in the order of the seeds, until there are enough."""
        taken = 0
        for count, result in enumerate(self._endless(), 1):
            yield result
            taken += result.steps
            if count == self.runs or (self.runs is None and taken >= self.steps):
                return

    def _endless(self) -> Iterator[Result]:
        if self.jobs == 1:
            for seed in self._seeds():
                yield execute(run_of(seed, self.profile))
            return
        with ProcessPoolExecutor(self.jobs, initializer=_hush) as pool:
            try:
                yield from self._pooled(pool)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _pooled(self, pool: ProcessPoolExecutor) -> Iterator[Result]:
        waiting: deque[Future[list[Result]]] = deque()
        seeds = self._seeds()
        while True:
            while len(waiting) < 2 * self.jobs and (batch := list(itertools.islice(seeds, _BATCH))):
                waiting.append(pool.submit(_execute_all, batch, self.profile))
            if not waiting:
                return
            yield from waiting.popleft().result()

    def _seeds(self) -> Iterator[int]:
        if self.runs is None:
            return itertools.count(self.seed)
        return iter(range(self.seed, self.seed + self.runs))


def _hush() -> None:
    """Keep the parts of the system from logging: there are too many of them to listen to."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def _execute_all(seeds: list[int], profile: str) -> list[Result]:
    return [execute(run_of(seed, profile)) for seed in seeds]
