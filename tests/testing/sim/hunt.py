"""Hunting planted bugs: seed after seed, until the simulator finds one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from coterie_testing.sim.faults import Fault, FaultOptions, plan
from coterie_testing.sim.runs import Result, Run, execute, run_from_seed
from coterie_testing.sim.worker import WorkerOptions
from tests.testing.sim.mutants import Mutant

__all__ = ["PROFILES", "Catch", "Ground", "hunt", "run_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a bug is hunted: what goes wrong, and for whom."""

    faults: FaultOptions = field(default_factory=FaultOptions)
    #: What happens besides, in each run.
    always: tuple[Fault, ...] = ()
    #: The workers there are, at least.
    workers: int = 2
    is_static: bool = False
    faults_s: float = 10.0
    #: What is not as in other brief runs.
    others: Mapping[str, Any] = field(default_factory=dict)


#: What has to go wrong for a bug to show, where chance would take long to come by it.
PROFILES: Final = {
    "namesakes": Ground(
        faults=FaultOptions(
            duplicate_instance=3, restart_worker=2, add_worker=1, kill_coordinator=1, slow_network=1
        ),
        is_static=True,
    ),
    "restarts": Ground(faults=FaultOptions(kill_coordinator=3, add_worker=1, restart_worker=1)),
    "slow disks": Ground(
        faults=FaultOptions(kill_coordinator=3, slow_disk=3, add_worker=2, failing_disk=1)
    ),
    "clocks": Ground(
        faults=FaultOptions(worker_clock_jump=4, add_worker=2, stop_worker=2, long=True)
    ),
    "crowd": Ground(faults=FaultOptions(add_worker=4, stop_worker=1), workers=6),
    "newcomers": Ground(faults=FaultOptions(add_worker=4, stop_worker=3, slow_network=2)),
    "rifts": Ground(faults=FaultOptions(isolate_worker=3, add_worker=2, long=True), faults_s=40.0),
    "namesakes and restarts": Ground(
        faults=FaultOptions(duplicate_instance=4, restart_worker=2, kill_coordinator=4),
        is_static=True,
    ),
    "standstills": Ground(
        faults=FaultOptions(isolate_coordinator=3, slow_network=2, add_worker=1, long=True)
    ),
    "stragglers": Ground(
        faults=FaultOptions(add_worker=3, stop_worker=2, slow_network=3, slow_disk=2)
    ),
    "strangers": Ground(
        faults=FaultOptions(add_worker=4, stray_commit=3, stray_sync=3, stray_heartbeat=3)
    ),
    # The answer to a sync is read when the session of who asked has ended.
    "late answers": Ground(
        faults=FaultOptions(stop_worker=1, slow_network=1),
        always=(
            Fault(4.0, "pause_leader", seconds=2.0),
            Fault(4.0, "pause_follower", seconds=20.0),
            Fault(4.5, "add_worker"),
        ),
        workers=3,
        faults_s=30.0,
        others={"sessions_s": (60.0, 6.0)},
    ),
    # A leader takes longer to decide than others may be silent, and one of them has died.
    "slow leaders": Ground(
        faults=FaultOptions(slow_network=1),
        always=(
            Fault(4.0, "pause_leader", seconds=9.0),
            Fault(4.0, "kill_follower"),
            Fault(4.5, "add_worker"),
        ),
        workers=3,
        faults_s=20.0,
        others={"sessions_s": (60.0, 6.0)},
    ),
    # Nobody but the leader sees that topics change.
    "leaders look": Ground(
        faults=FaultOptions(grow_topic=3, add_worker=1),
        others={"settings": {"group_topic_change_rebalance": False}, "assignor": "range"},
    ),
    # Tasks that have ended go on for a while, and commit.
    "stubborn": Ground(
        faults=FaultOptions(remove_member=4, add_worker=2),
        faults_s=20.0,
        others={"worker": WorkerOptions(commits_late_s=4.0)},
    ),
    # The coordinator stands still for longer than sessions last, and has leases yet: it
    # goes on at once, whatever waits in its sockets.
    "pauses": Ground(
        faults=FaultOptions(add_worker=2, slow_network=1),
        always=(
            Fault(7.0, "pause_coordinator", seconds=7.5),
            Fault(25.0, "pause_coordinator", seconds=7.5),
        ),
        faults_s=40.0,
        others={"sessions_s": (6.0,)},
    ),
    # A commit waits on a connection that its client has given up, while others overtake it.
    "held up": Ground(
        faults=FaultOptions(add_worker=1),
        always=(
            Fault(1.681, "cut_worker", target=4, seconds=0.422, amount=3),
            Fault(5.737, "isolate_coordinator", target=3, seconds=1.609, amount=1),
            Fault(7.588, "isolate_coordinator", target=4, seconds=2.392, amount=2),
            Fault(11.158, "kill_worker", seconds=0.024, amount=3),
        ),
        workers=3,
        faults_s=15.0,
        others={"topics": {"jobs": 1, "more": 3}},
    ),
    "coordinator's clock": Ground(
        faults=FaultOptions(coordinator_clock_jump=4, add_worker=3, long=True), faults_s=40.0
    ),
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
    #: Seeds that fail without the bug, too.
    red: tuple[int, ...] = ()

    @property
    def check(self) -> str:
        """What was found wrong, up to where it gets particular."""
        if self.result is None or self.result.failure is None:
            return "NOT CAUGHT"
        text = str(self.result.failure) or repr(self.result.failure)
        return text.split("\n")[0]


def run_for(seed: int, profile: str) -> Run:
    """The run that a seed stands for; there are more profiles here than the command has."""
    ground = PROFILES.get(profile)
    if ground is None:
        return run_from_seed(seed, profile)
    run = run_from_seed(seed, "brief")
    workers = max(run.options.workers, ground.workers)
    options = replace(
        run.options,
        workers=workers,
        static=workers if ground.is_static else 0,
        faults_s=ground.faults_s,
        **ground.others,
    )
    faults = (*plan(seed, ground.faults, options.faults_s), *ground.always)
    return Run(seed, profile, options, tuple(sorted(faults, key=lambda fault: fault.at_s)))


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run one seed after the other with a bug planted, until something is wrong.

    A seed that fails without the bug as well has caught nothing.
    """
    began_s = time.perf_counter()
    count = 0
    red: list[int] = []
    for seed in seeds:
        count += 1
        run = run_for(seed, mutant.profile)
        with mutant.plant():
            result = execute(run)
        if result.failure is None:
            continue
        if execute(run).failure is None:
            return Catch(mutant, count, time.perf_counter() - began_s, result, tuple(red))
        red.append(seed)
    return Catch(mutant, count, time.perf_counter() - began_s, None, tuple(red))
