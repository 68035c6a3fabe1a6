"""Hunting planted bugs: seed after seed, until the simulator finds one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from coterie_assignors import WarmSettings
from coterie_testing.sim.faults import Fault, FaultOptions, plan
from coterie_testing.sim.runs import Result, Run, execute, run_from_seed
from coterie_testing.sim.state import StateOptions
from coterie_testing.sim.worker import WorkerOptions
from tests.testing.sim.mutants import Mutant

__all__ = ["PROFILES", "Catch", "Profile", "hunt", "run_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The runs in which a bug is hunted."""

    faults: FaultOptions = field(default_factory=FaultOptions)
    #: Faults that are injected in every run.
    always: tuple[Fault, ...] = ()
    #: How many workers there are at least.
    workers: int = 2
    is_static: bool = False
    faults_s: float = 10.0
    #: Other options that differ from brief runs.
    others: Mapping[str, Any] = field(default_factory=dict)


#: Profiles for bugs that random faults would take long to show.
PROFILES: Final = {
    "namesakes": Profile(
        faults=FaultOptions(
            duplicate_instance=3, restart_worker=2, add_worker=1, kill_coordinator=1, slow_network=1
        ),
        is_static=True,
    ),
    "restarts": Profile(faults=FaultOptions(kill_coordinator=3, add_worker=1, restart_worker=1)),
    "slow disks": Profile(
        faults=FaultOptions(kill_coordinator=3, slow_disk=3, add_worker=2, failing_disk=1)
    ),
    "clocks": Profile(
        faults=FaultOptions(worker_clock_jump=4, add_worker=2, stop_worker=2, long=True)
    ),
    "operations": Profile(
        faults=FaultOptions(
            add_worker=3,
            stop_worker=2,
            kill_coordinator=1,
            drain_worker=3,
            pin_partition=3,
            freeze_group=2,
            lift_operation=2,
        ),
        workers=3,
        faults_s=15.0,
    ),
    "newcomers to a frozen group": Profile(
        always=(
            Fault(4.0, "freeze_group", seconds=20.0),
            Fault(5.0, "add_worker"),
            Fault(8.0, "stop_worker", 0),
        ),
        faults=FaultOptions(stop_worker=1, add_worker=1),
        workers=3,
        faults_s=15.0,
    ),
    "crowd": Profile(faults=FaultOptions(add_worker=4, stop_worker=1), workers=6),
    "newcomers": Profile(faults=FaultOptions(add_worker=4, stop_worker=3, slow_network=2)),
    "rifts": Profile(faults=FaultOptions(isolate_worker=3, add_worker=2, long=True), faults_s=40.0),
    "namesakes and restarts": Profile(
        faults=FaultOptions(duplicate_instance=4, restart_worker=2, kill_coordinator=4),
        is_static=True,
    ),
    "standstills": Profile(
        faults=FaultOptions(isolate_coordinator=3, slow_network=2, add_worker=1, long=True)
    ),
    "stragglers": Profile(
        faults=FaultOptions(add_worker=3, stop_worker=2, slow_network=3, slow_disk=2)
    ),
    "strangers": Profile(
        faults=FaultOptions(add_worker=4, stray_commit=3, stray_sync=3, stray_heartbeat=3)
    ),
    # The answer to a sync is read when the session of its member has ended.
    "late answers": Profile(
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
    "slow leaders": Profile(
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
    # Only the leader sees that topics change.
    "leaders look": Profile(
        faults=FaultOptions(grow_topic=3, add_worker=1),
        others={"settings": {"group_topic_change_rebalance": False}, "assignor": "range"},
    ),
    # Tasks that have ended go on for a while, and commit.
    "stubborn": Profile(
        faults=FaultOptions(remove_member=4, add_worker=2),
        faults_s=20.0,
        others={"worker": WorkerOptions(commits_late_s=4.0)},
    ),
    # The coordinator is paused for longer than sessions last, and still has its leases: it
    # goes on at once, whatever waits in its sockets.
    "pauses": Profile(
        faults=FaultOptions(add_worker=2, slow_network=1),
        always=(
            Fault(7.0, "pause_coordinator", seconds=7.5),
            Fault(25.0, "pause_coordinator", seconds=7.5),
        ),
        faults_s=40.0,
        others={"sessions_s": (6.0,)},
    ),
    # A commit waits on a connection that its client has given up, while others overtake it.
    "held up": Profile(
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
    # Members with state come and go.
    "warm-ups": Profile(
        faults=FaultOptions(
            add_worker=3, stop_worker=1, restart_worker=1, kill_warming=1, kill_leader=1
        ),
        faults_s=15.0,
        others={
            "state": StateOptions(
                WarmSettings(
                    acceptable_recovery_lag=20,
                    num_standbys=1,
                    probing_rebalance_interval_ms=5_000,
                    allow_short_probing=True,
                )
            ),
            "assignor": "cooperative-sticky",
        },
    ),
    # Shards move, and topics change meanwhile.
    "several": Profile(
        faults=FaultOptions(
            kill_coordinator=2,
            stop_coordinator=2,
            pause_coordinator=2,
            cut_off_coordinator=2,
            grow_topic=2,
            recreate_topic=2,
            add_worker=1,
        ),
        faults_s=15.0,
        others={"nodes": 3},
    ),
    "paused among several": Profile(
        faults=FaultOptions(pause_coordinator=4, cut_off_coordinator=3, slow_disk=2, long=True),
        faults_s=30.0,
        others={"nodes": 3},
    ),
    # What is to be stored gathers behind what is on its way to the database.
    "slow database": Profile(
        faults=FaultOptions(kill_coordinator=4, slow_disk=4, add_worker=2, failing_disk=1),
        workers=4,
        faults_s=20.0,
        others={"nodes": 2},
    ),
    # Static members come back after their sessions, and the group rebalances meanwhile.
    "absences": Profile(
        faults=FaultOptions(
            absent_worker=4, add_worker=4, stop_worker=2, kill_coordinator=2, isolate_worker=2
        ),
        workers=3,
        is_static=True,
        faults_s=60.0,
        others={
            "settings": {"group_static_registration_timeout_ms": 40_000},
            "assignor": "cooperative-sticky",
        },
    ),
    "coordinator's clock": Profile(
        faults=FaultOptions(coordinator_clock_jump=4, add_worker=3, long=True), faults_s=40.0
    ),
}


@dataclass(frozen=True, slots=True)
class Catch:
    """The result of a hunt."""

    mutant: Mutant
    #: How many runs it took, and how long.
    seeds: int
    seconds: float
    #: The first run that failed; None if the bug was not found.
    result: Result | None
    #: Seeds that fail without the bug, too.
    red: tuple[int, ...] = ()

    @property
    def check(self) -> str:
        """The violation, in one line."""
        if self.result is None or self.result.failure is None:
            return "NOT CAUGHT"
        text = str(self.result.failure) or repr(self.result.failure)
        return text.split("\n")[0]


def run_for(seed: int, profile: str) -> Run:
    """Draw a run from a seed; there are more profiles here than the command has."""
    hunting = PROFILES.get(profile)
    if hunting is None:
        return run_from_seed(seed, profile)
    run = run_from_seed(seed, "brief")
    workers = max(run.options.workers, hunting.workers)
    options = replace(
        run.options,
        workers=workers,
        static=workers if hunting.is_static else 0,
        faults_s=hunting.faults_s,
        **hunting.others,
    )
    faults = (*plan(seed, hunting.faults, options.faults_s), *hunting.always)
    return Run(seed, profile, options, tuple(sorted(faults, key=lambda fault: fault.at_s)))


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run one seed after the other with a bug planted, until a run fails.

    A run that fails without the bug as well has caught nothing.
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
