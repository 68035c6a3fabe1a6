"""Runs in which the simulator found a bug, reduced to what matters and repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_testing.sim.faults import Fault
from coterie_testing.sim.invariants.checker import Violation
from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.system import SystemOptions
from tests.support.profiles import mostly_slow
from tests.testing.sim.mutants import MUTANTS


def execute_run(options: SystemOptions, *faults: Fault, seed: int = 0) -> None:
    """Execute a run, and raise its violation if it has one."""
    result = execute(Run(seed, "swarm", options, faults))
    if result.failure is not None:
        raise result.failure


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_topic_recreated_with_fewer_partitions(seed: int) -> None:
    """All members stop work on partitions that no longer exist.

    Seed 24 of swarm: a topic of seven partitions was deleted and recreated with two. The leader
    found five partitions that its member owned in no target, took its view of the topics to be old,
    as KIP-429 has it, and gave them back in each rebalance. It never looked again, so the member
    worked on partitions that did not exist for ever. Now a member that is assigned partitions it
    does not know looks at the topics, and loses what two answers in a row deny.
    """
    options = SystemOptions(workers=1, static=1, topics={"jobs": 7, "more": 1})
    execute_run(options, Fault(36.366, "recreate_topic", target=0, amount=1), seed=seed)


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_topic_recreated_under_a_follower(seed: int) -> None:
    """Followers look at the topics as well.

    Seed 47 of swarm: as above, but a follower owned what no longer existed, and it looked at the
    topics only when its view of them was old. Now each member looks when it has joined.
    """
    options = SystemOptions(workers=2, topics={"jobs": 7, "more": 2}, faults_s=5.0)
    execute_run(options, Fault(3.8, "recreate_topic", target=0, amount=2), seed=seed)


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_topic_that_grows_while_the_disk_fails(seed: int) -> None:
    """Groups learn that a topic grew even if their shard is read again at that moment.

    Seed 160 of hostile: the catalogue had just stored that a topic had grown when the shard of the
    group lost its memory to a failed write. The group was told and forgot it, or was not there to
    be told, so the new partition had no owner until the leader looked by itself. Now a shard that
    is read again is told what changed of late.
    """
    options = SystemOptions(
        workers=2, static=1, topics={"jobs": 4, "more": 1}, assignor="upgrade", faults_s=40.0
    )
    execute_run(
        options,
        Fault(36.882, "add_worker", target=7),
        Fault(38.089, "failing_disk", seconds=2.428, amount=3),
        Fault(39.084, "grow_topic", target=7, amount=1),
        seed=seed,
    )


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_instance_id_taken_over_while_an_assignment_is_on_its_way(seed: int) -> None:
    """A worker that begins without knowing that it was replaced has the older token.

    Seed 1004235 of brief: the answer to a static member's sync was held up in the network, another
    process took over its instance id meanwhile, and when the answer came it began to work. That
    can't be prevented; but its token was made of the time at which it began, and so was higher than
    its successor's. Now the coordinator issues tokens, and this one is as old as the answer.
    """
    options = SystemOptions(
        workers=2, static=2, topics={"jobs": 3, "more": 1}, assignor="sticky", faults_s=2.0
    )
    execute_run(
        options,
        Fault(0.036, "slow_disk", target=4, seconds=0.41, amount=2),
        Fault(0.291, "isolate_worker", target=1, seconds=22.184, amount=3),
        Fault(1.085, "duplicate_instance", target=7, seconds=0.149, amount=3),
        seed=1004235 + seed,
    )


#: Enough seeds to see a bug in the very run in which it was found.
_SEEDS = 500


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_commit_held_up_on_an_old_connection(seed: int) -> None:
    """A member's commit is not undone by an earlier one.

    Seed 228202229 of swarm: a commit was held up on a connection that its client had given up, and
    arrived after a later one that had been acknowledged on the next connection. Both were of the
    same member in the same generation, and the next owner began behind what had been done. Now a
    member numbers its commits, and one that arrives late is refused. Of seeds as the code is now,
    about one in a hundred shows the bug; the first of these does.
    """
    options = SystemOptions(workers=3, topics={"jobs": 1, "more": 3}, faults_s=15.0)
    execute_run(
        options,
        Fault(1.681, "cut_worker", target=4, seconds=0.422, amount=3),
        Fault(5.737, "isolate_coordinator", target=3, seconds=1.609, amount=1),
        Fault(7.588, "isolate_coordinator", target=4, seconds=2.392, amount=2),
        Fault(11.158, "kill_worker", seconds=0.024, amount=3),
        seed=228202964 + seed,
    )


@pytest.mark.parametrize(
    ("repeat", "bug"),
    [
        (
            test_instance_id_taken_over_while_an_assignment_is_on_its_way,
            "tokens made by the client",
        ),
        (test_commit_held_up_on_an_old_connection, "commits taken in any order"),
    ],
)
def test_run_fails_with_its_bug(repeat: Callable[[int], None], bug: str) -> None:
    """Chance decides whether a run shows the bug, so it has many."""
    mutant = next(each for each in MUTANTS if each.name == bug)
    with mutant.plant(), pytest.raises(Violation):
        _repeat_often(repeat)


def _repeat_often(repeat: Callable[[int], None]) -> None:
    for seed in range(_SEEDS):
        repeat(seed)
