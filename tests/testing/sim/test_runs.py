"""The system under random faults, with its invariants checked.

Some seeds are fixed, others are new every time; a failure says how to repeat its run.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from dataclasses import replace
from typing import Final

import pytest

from coterie_testing.sim.faults import Fault
from coterie_testing.sim.invariants.checker import Violation
from coterie_testing.sim.runs import Result, Run, Tamper, execute, run_from_seed, shrink
from coterie_testing.sim.state import draw_state
from coterie_testing.sim.system import System, SystemOptions
from tests.support.profiles import by_profile

#: How many seeds of each profile; few in the quick run, and then not of those that take longest.
_FIXED: Final = {"brief": by_profile(quick=3, long=12)} | dict.fromkeys(
    ("calm", "rough", "hostile", "strangers", "stateful", "swarm"), by_profile(quick=0, long=2)
)
#: Seeds that once found a bug; by now they may stand for other runs.
_FOUND: Final = {
    "brief": (
        *(751770, 801231, 820446, 860018, 1000523, 1008772, 530000133, 530001739),
        *(600000159, 600005997, 610006664),
    ),
    "hostile": (830118, 870091),
}
_RANDOM_S: Final = by_profile(quick=1, long=4)

#: Runs with several coordinators: how many seeds in `make test`, and in `make test-all`.
_SEVERAL: Final = {
    "brief": (1, 60),
    "calm": (0, 8),
    "rough": (0, 12),
    "hostile": (0, 16),
    "strangers": (0, 8),
    "stateful": (0, 8),
    "failovers": (1, 25),
    "swarm": (1, 16),
}
#: Seeds that once found a bug, of the simulator perhaps, with so many coordinators.
_FOUND_AMONG_SEVERAL: Final = (
    *(("brief", seed, 3) for seed in (31, 162, 1548, 2265)),
    *(("failovers", seed, 3) for seed in (1007, 1090, 1223, 1234)),
    *(("hostile", seed, 3) for seed in (1055, 40205, 40620, 40647)),
    ("swarm", 2076, 3),
    *(("operated", seed, 5) for seed in (9934105616, 7734104008)),
    ("brief", 105365, 1),  # a late answer to one that has a successor, which is no violation
)


def _check(run: Run) -> Result:
    """Execute a run; a failure says how to repeat it."""
    result = execute(run)
    if result.failure is not None:
        faults = "\n".join(f"  {fault}" for fault in run.faults)
        pytest.fail(f"seed {run.seed}: {result.failure}\n{faults}\n{run.command} --trace")
    return result


@pytest.mark.parametrize("profile", [profile for profile, count in _FIXED.items() if count])
def test_runs_of_each_profile_pass(profile: str) -> None:
    done = [_check(run_from_seed(seed, profile)) for seed in range(_FIXED[profile])]
    assert sum(result.counts["commits"] for result in done) > 0
    assert sum(result.counts["rebalances completed"] for result in done) > 0


def test_workers_with_state_take_over_warm() -> None:
    done = [_check(run_from_seed(seed, "stateful")) for seed in range(by_profile(quick=1, long=3))]
    assert sum(result.counts["restores begun: warm-up"] for result in done) > 0
    assert sum(result.counts["client: promoted"] for result in done) > 0


@pytest.mark.parametrize("seed", range(by_profile(quick=1, long=15)))
def test_newcomers_never_begin_cold(seed: int) -> None:
    # Each partition begins cold once, where it is worked on first.
    chance = random.Random(seed)
    topics = {"jobs": chance.choice((4, 8, 12)), "more": 1}
    state = draw_state(seed)
    settings = replace(state.settings, acceptable_recovery_lag=20)
    options = SystemOptions(
        workers=chance.choice((1, 2, 3)),
        topics=topics,
        faults_s=22.0,
        state=replace(state, percent=100, settings=settings),
    )
    times = [round(chance.uniform(4, 20), 3) for _ in range(chance.randint(1, 4))]
    newcomers = tuple(Fault(at_s, "add_worker", 1) for at_s in sorted(times))
    counts = _check(Run(seed, "calm", options, newcomers)).counts
    assert counts["cold starts"] <= sum(topics.values())
    assert counts["warm starts"] > 0


@pytest.mark.parametrize("profile", ["brief", "swarm"])
def test_runs_of_groups_that_balance_loads_pass(profile: str) -> None:
    drawn = (run_from_seed(seed, profile) for seed in itertools.count(30_000))
    weighted = (replace(run, options=replace(run.options, weighted=True)) for run in drawn)
    balancing = (run for run in weighted if run.options.balances_loads)
    done = [_check(run) for run in itertools.islice(balancing, by_profile(quick=1, long=6))]
    assert sum(result.counts["rebalance started: load"] for result in done) > 0


@pytest.mark.parametrize("profile", _FOUND)
def test_runs_that_once_failed_pass(profile: str) -> None:
    seeds = _FOUND[profile]
    for seed in seeds[: by_profile(quick=1, long=len(seeds))]:
        _check(run_from_seed(seed, profile))


@pytest.mark.parametrize("profile", ["brief", "stateful", "swarm"])
def test_runs_of_fresh_seeds_pass(profile: str) -> None:
    first = int(os.environ["SIMULATOR_SEED"])
    until_s = time.monotonic() + _RANDOM_S / 3
    for seed in range(first, first + 1_000):
        _check(run_from_seed(seed, profile))
        if time.monotonic() > until_s:
            return


@pytest.mark.parametrize("profile", [profile for profile, (few, _) in _SEVERAL.items() if few])
def test_runs_with_several_coordinators_pass(profile: str) -> None:
    done = [_check(run_from_seed(seed, profile, 3)) for seed in range(_SEVERAL[profile][0])]
    assert sum(result.counts["commits"] for result in done) > 0


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize("profile", _SEVERAL)
def test_many_runs_with_several_coordinators_pass(profile: str, nodes: int) -> None:
    first, most = _SEVERAL[profile]
    for seed in range(first, most):
        _check(run_from_seed(seed, profile, nodes))


@pytest.mark.parametrize(
    ("profile", "seed", "nodes"),
    _FOUND_AMONG_SEVERAL[:: by_profile(quick=6, long=1)],
)
def test_runs_with_several_coordinators_that_once_failed_pass(
    profile: str, seed: int, nodes: int
) -> None:
    _check(run_from_seed(seed, profile, nodes))


def test_same_seed_gives_the_same_run_with_several_coordinators() -> None:
    first, again = (execute(run_from_seed(11, "failovers", 3)) for _ in range(2))
    assert (first.steps, first.virtual_s, first.counts) == (
        again.steps,
        again.virtual_s,
        again.counts,
    )


def test_command_of_a_run_names_its_coordinators() -> None:
    assert run_from_seed(3, "brief", 2).command.endswith(
        "--seed 3 --runs 1 --profile brief --nodes 2"
    )
    assert "--nodes" not in run_from_seed(3, "brief").command


def test_same_seed_gives_the_same_run() -> None:
    first, again = (execute(run_from_seed(11, "rough")) for _ in range(2))
    assert (first.steps, first.virtual_s, first.counts) == (
        again.steps,
        again.virtual_s,
        again.counts,
    )


def test_other_seed_gives_another_run() -> None:
    assert run_from_seed(1, "hostile") != run_from_seed(2, "hostile")
    assert execute(run_from_seed(1, "calm")).steps != execute(run_from_seed(2, "calm")).steps


# -- shrinking -------------------------------------------------------------------------------------


def _fails_after(*kinds: str) -> Tamper:
    """Plant a bug that shows as soon as each of these faults was injected."""

    def tamper(system: System) -> None:
        missing = set(kinds)

        def look(who: str, what: object) -> None:
            if who == "injector" and isinstance(what, str):
                missing.discard(what.partition(":")[0].replace(" ", "_"))
                if not missing:
                    system.checker.violation = Violation("planted")

        system.on_event = look

    return tamper


#: Two kinds that matter to the tests below, among others that do not.
_KINDS: Final = ("kill_worker", "cut_worker", "add_worker", "slow_disk", "grow_topic", "cut_worker")
_LONG: Final = Run(
    0,
    "brief",
    SystemOptions(workers=3, topics={"jobs": 3}, faults_s=3.0),
    tuple(Fault(0.5 + number / 4, kind, 1, 0.5, 1) for number, kind in enumerate(_KINDS)),
)


@pytest.mark.parametrize(
    "kinds", [("cut_worker",), pytest.param(("cut_worker", "grow_topic"), marks=pytest.mark.slow)]
)
def test_shrinking_leaves_the_faults_that_matter_and_one_worker(kinds: tuple[str, ...]) -> None:
    tamper = _fails_after(*kinds)
    failed = execute(_LONG, tamper)
    assert len(failed.run.faults) > len(kinds)
    least = shrink(failed, tamper)
    assert str(least.failure) == "planted"
    assert sorted(fault.kind for fault in least.run.faults) == sorted(kinds)
    assert least.run.options.workers == 1


def test_shrinking_keeps_a_run_with_nothing_to_leave_out() -> None:
    def at_once(system: System) -> None:
        system.scheduler.after(1.0, setattr, system.checker, "violation", Violation("planted"))

    bare = replace(_LONG, faults=(), options=replace(_LONG.options, workers=1))
    least = shrink(execute(bare, at_once), at_once)
    assert least.run == bare


def test_shrinking_gives_up_after_so_many_tries() -> None:
    tamper = _fails_after("cut_worker")
    failed = execute(_LONG, tamper)
    assert shrink(failed, tamper, tries=0) is failed
