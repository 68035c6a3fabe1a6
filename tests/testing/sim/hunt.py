"""Hunting planted bugs: seed after seed, until the simulator finds one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from coterie_testing.sim.faults import FaultOptions, plan
from coterie_testing.sim.runs import Result, Run, execute, run_of
from tests.testing.sim.mutants import Mutant

__all__ = ["Catch", "hunt", "run_for"]

#: Nothing but processes that share a name, or come back under it.
_NAMESAKES: Final = FaultOptions(twin_worker=3, restart_worker=2, add_worker=1, kill_coordinator=1)


@dataclass(frozen=True, slots=True)
class Catch:
    """What came of a hunt."""

    mutant: Mutant
    #: The runs that it took, and the time.
    seeds: int
    seconds: float
    #: The first run in which something was wrong; None if the bug got away.
    result: Result | None

    @property
    def check(self) -> str:
        """What was found wrong, up to where it gets particular."""
        if self.result is None or self.result.failure is None:
            return "NOT CAUGHT"
        text = str(self.result.failure) or repr(self.result.failure)
        return text.split("\n")[0]


def run_for(seed: int, profile: str) -> Run:
    """The run that a seed stands for; the profile `static` is for members with names."""
    if profile != "static":
        return run_of(seed, profile)
    run = run_of(seed, "brief")
    options = replace(run.options, static=run.options.workers)
    return replace(run, options=options, faults=plan(seed, _NAMESAKES, options.trouble_s))


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run one seed after the other with a bug planted, until something is wrong."""
    began_s = time.perf_counter()
    count = 0
    for seed in seeds:
        count += 1
        with mutant.plant():
            result = execute(run_for(seed, mutant.profile))
        if result.failure is not None:
            return Catch(mutant, count, time.perf_counter() - began_s, result)
    return Catch(mutant, count, time.perf_counter() - began_s, None)
