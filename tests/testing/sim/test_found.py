"""What the simulator found while the system was built: each story is played again."""

from __future__ import annotations

import pytest

from coterie_testing.sim.faults import Fault
from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.scene import SceneOptions


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
