"""Hunting planted bugs: seed after seed, until the simulator finds one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from coterie_testing.sim.faults import FaultOptions, plan
from coterie_testing.sim.runs import Result, Run, execute, run_of
from tests.testing.sim.mutants import Mutant

__all__ = ["PROFILES", "Catch", "hunt", "run_for"]

#: What has to go wrong for a bug to show, where chance would take long to come by it.
PROFILES: Final = {
    "namesakes": FaultOptions(
        twin_worker=3, restart_worker=2, add_worker=1, kill_coordinator=1, slow_network=1
    ),
    "restarts": FaultOptions(kill_coordinator=3, add_worker=1, restart_worker=1),
    "slow disks": FaultOptions(kill_coordinator=3, slow_disk=3, add_worker=2, failing_disk=1),
    "clocks": FaultOptions(worker_clock_jump=4, add_worker=2, stop_worker=2, long=True),
    "crowd": FaultOptions(add_worker=4, stop_worker=1),
    "newcomers": FaultOptions(add_worker=4, stop_worker=3, slow_network=2),
    "pauses": FaultOptions(pause_coordinator=3, add_worker=2, slow_network=1, long=True),
    "coordinator's clock": FaultOptions(coordinator_clock_jump=4, add_worker=3, long=True),
    "rifts": FaultOptions(part_worker=3, add_worker=2, long=True),
    "namesakes and restarts": FaultOptions(twin_worker=4, restart_worker=2, kill_coordinator=4),
    "standstills": FaultOptions(part_coordinator=3, slow_network=2, add_worker=1, long=True),
    "stragglers": FaultOptions(add_worker=3, stop_worker=2, slow_network=3, slow_disk=2),
}


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
    """The run that a seed stands for; there are more profiles here than the command has."""
    if profile not in PROFILES:
        return run_of(seed, profile)
    run = run_of(seed, "brief")
    workers = 6 if profile == "crowd" else max(run.options.workers, 2)
    options = replace(
        run.options,
        workers=workers,
        static=workers if profile.startswith("namesakes") else 0,
        trouble_s=40.0 if profile in ("rifts", "pauses", "coordinator's clock") else 10.0,
    )
    return Run(seed, profile, options, plan(seed, PROFILES[profile], options.trouble_s))


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
