"""What the simulator found while the system was built: each story is played again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_testing.sim.faults import Fault
from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.scene import SceneOptions
from coterie_testing.sim.witness import Violation
from tests.testing.sim.mutants import MUTANTS


def play(options: SceneOptions, *faults: Fault, seed: int = 0) -> None:
    """Let a story happen; what must hold has to hold."""
    result = execute(Run(seed, "swarm", options, faults))
    if result.failure is not None:
        raise result.failure


@pytest.mark.parametrize("seed", range(3))
def test_topic_made_anew_with_fewer_partitions(seed: int) -> None:
    """Partitions that are no more are let go of by everybody.

    Seed 24 of swarm: a topic of seven partitions was deleted and made anew with two.  The leader
    found five of what its member owned in nobody's target, took its view of the topics for old, as
    KIP-429 has it, and gave them back at each rebalance.  Nobody looked again, so the member worked
    on partitions that did not exist, for good.  Now whoever is assigned what it has not heard of
    looks at the topics, and loses what two answers in a row deny.
    """
    options = SceneOptions(workers=1, static=1, topics={"jobs": 7, "more": 1})
    play(options, Fault(36.366, "recreate_topic", target=0, amount=1), seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_topic_made_anew_under_a_follower(seed: int) -> None:
    """A follower looks at the topics too.

    Seed 47 of swarm: as above, but it was a follower that owned what was no more, and it looked at
    the topics only when they were old.  Now each member looks when it has joined.
    """
    options = SceneOptions(workers=2, topics={"jobs": 7, "more": 2}, trouble_s=5.0)
    play(options, Fault(3.8, "recreate_topic", target=0, amount=2), seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_topic_that_grows_while_the_disk_fails(seed: int) -> None:
    """Groups hear of a topic's growth, whatever became of their shard meanwhile.

    Seed 160 of hostile: the catalogue had just stored that a topic had grown when the shard of the
    group lost its memory to a failed write.  The group was told and forgot it, or was not there to
    be told, so the new partition had no owner until the leader looked by itself.  Now a shard that
    is read again is told once more what changed of late.
    """
    options = SceneOptions(
        workers=2, static=1, topics={"jobs": 4, "more": 1}, assignor="upgrade", trouble_s=40.0
    )
    play(
        options,
        Fault(36.882, "add_worker", target=7),
        Fault(38.089, "failing_disk", seconds=2.428, amount=3),
        Fault(39.084, "grow_topic", target=7, amount=1),
        seed=seed,
    )


@pytest.mark.parametrize("seed", range(3))
def test_name_that_is_taken_over_while_its_assignment_is_on_its_way(seed: int) -> None:
    """Who begins without knowing that its name has another owner has the older token.

    Seed 1004235 of brief: the answer to a static member's sync was held up in the network, its name
    was taken over meanwhile, and when the answer came it began to work.  That can't be prevented;
    but its token was of the time at which it began, and so higher than its successor's.  Now the
    coordinator issues tokens, and this one is as old as the answer.
    """
    options = SceneOptions(
        workers=2, static=2, topics={"jobs": 3, "more": 1}, assignor="sticky", trouble_s=2.0
    )
    play(
        options,
        Fault(0.036, "slow_disk", target=4, seconds=0.41, amount=2),
        Fault(0.291, "part_worker", target=1, seconds=22.184, amount=3),
        Fault(1.085, "twin_worker", target=7, seconds=0.149, amount=3),
        seed=1004235 + seed,
    )


#: So many turns of chance are enough to see a bug in the very story in which it was found.
_CHANCES = 100


@pytest.mark.parametrize("seed", range(3))
def test_commit_that_is_held_up_on_a_former_connection(seed: int) -> None:
    """What a member commits is not undone by what it committed before.

    Seed 228202229 of swarm: a commit was held up on a connection that its client had given up,
    and arrived after a later one that had been acknowledged on the next connection.  Both were of
    the same member in the same generation, and the next owner began behind what had been done.
    Now a member numbers its commits, and one that comes too late is refused.
    """
    options = SceneOptions(workers=3, topics={"jobs": 1, "more": 3}, trouble_s=15.0)
    play(
        options,
        Fault(1.681, "cut_worker", target=4, seconds=0.422, amount=3),
        Fault(5.737, "part_coordinator", target=3, seconds=1.609, amount=1),
        Fault(7.588, "part_coordinator", target=4, seconds=2.392, amount=2),
        Fault(11.158, "kill_worker", seconds=0.024, amount=3),
        seed=228202229 + seed,
    )


@pytest.mark.parametrize(
    ("story", "bug"),
    [
        (
            test_name_that_is_taken_over_while_its_assignment_is_on_its_way,
            "tokens made by the client",
        ),
        (test_commit_that_is_held_up_on_a_former_connection, "commits taken in any order"),
    ],
)
def test_story_fails_with_its_bug(story: Callable[[int], None], bug: str) -> None:
    """With what was wrong planted again, the witness says so, though not at each turn of chance."""
    mutant = next(each for each in MUTANTS if each.name == bug)
    with mutant.plant(), pytest.raises(Violation):
        _tell_often(story)


def _tell_often(story: Callable[[int], None]) -> None:
    for seed in range(_CHANCES):
        story(seed)
