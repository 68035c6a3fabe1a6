"""A coordinator fails at a given point, or hands over, and another one takes over.

The first five are the points at which Kafka's "Consumer Coordinator" design asks what becomes of a
rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coterie_client.membership.events import GroupJoined, JoinStarted, PartitionsLost
from coterie_protocol.journal import (
    GroupRecovered,
    MemberGone,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
)
from coterie_server.group import GroupState
from coterie_testing.sim.system import GROUP
from tests.support.profiles import by_profile
from tests.testing.sim.several import AWAY_S, Several

SEEDS = range(by_profile(quick=1, long=3))


@pytest.fixture
def several() -> Iterator[Callable[..., Several]]:
    """Makes systems, and ends them."""
    made: list[Several] = []

    def make(seed: int, **options: int) -> Several:
        made.append(Several(seed, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Failure:
    """The coordinator of a group is killed, and another one takes over."""

    def __init__(self, world: Several) -> None:
        self.world = world
        self.at_s = world.system.scheduler.now_s
        self.former = world.coordinator
        self.generation = world.stored_generation()
        self.former.kill()
        world.until(lambda: world.coordinator.is_up and bool(world.coordinator.shards), AWAY_S)
        world.until(lambda: world.state() is not None, AWAY_S)
        assert world.coordinator is not self.former

    def started(self) -> list[RebalanceStarted]:
        """The rebalances that began since."""
        found = self.world.seen(RebalanceStarted, since_s=self.at_s)
        return [event for event in found if isinstance(event, RebalanceStarted)]

    def generations(self) -> list[int]:
        """The generations that formed since."""
        found = self.world.seen(PhaseJoined, since_s=self.at_s)
        return [event.generation for event in found if isinstance(event, PhaseJoined)]

    def causes(self) -> list[str]:
        """Why they formed."""
        found = self.world.seen(PhaseJoined, since_s=self.at_s)
        return [event.cause for event in found if isinstance(event, PhaseJoined)]

    def end(self) -> None:
        """All is well, and no member was dropped or lost its work over it."""
        self.world.until(self.world.is_well, 30.0)
        self.world.run(5.0)
        self.world.check_well()
        assert not self.world.seen(MemberGone, PartitionsLost, since_s=self.at_s)


# -- the five points -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fails_after_the_notification(several: Callable[..., Several], seed: int) -> None:
    """A topic has grown, and its group has not been told: who takes over sees that."""
    world = several(seed)
    world.system.ask_admin(lambda admin: admin.topics.grow("jobs", 9))
    world.until(lambda: world.stored_partitions("jobs") == 9)
    assert world.state() is GroupState.STABLE
    failure = Failure(world)
    failure.end()
    assert [(each.cause, each.detail) for each in failure.started()] == [
        ("topic_changed", "jobs grown")
    ]
    assert failure.generations() == [failure.generation + 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fails_after_telling_some_members(several: Callable[..., Several], seed: int) -> None:
    """Some join the rebalance that is over, and the others hear of the one that goes on."""
    world = several(seed)
    since_s = world.system.scheduler.now_s
    joined = world.system.add_worker()
    world.until(lambda: _rejoining(world, since_s) == 1)
    assert world.state() is GroupState.PREPARING
    failure = Failure(world)
    failure.end()
    assert joined.group.owned
    assert failure.causes()[0] == "member_joined"
    assert set(failure.causes()) <= {"member_joined", "revocation_follow_up"}


def _rejoining(world: Several, since_s: float) -> int:
    """How many members have been told of a rebalance."""
    found = world.seen(JoinStarted, since_s=since_s)
    return sum(isinstance(each, JoinStarted) and each.reason != "first join" for each in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fails_with_some_joins_in(several: Callable[..., Several], seed: int) -> None:
    """They are lost with it, so all join again, by the coordinator that takes over."""
    world = several(seed)
    world.system.add_worker()
    world.until(lambda: _parked(world) == 2)
    assert world.state() is GroupState.PREPARING
    failure = Failure(world)
    failure.end()
    assert failure.generations()[0] == failure.generation + 1


def _parked(world: Several) -> int:
    node = world.coordinator.node
    group = node.group(GROUP) if node is not None else None
    return group.parked_joins if group is not None else 0


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fails_after_the_generation_is_written(
    several: Callable[..., Several], seed: int
) -> None:
    """No member has heard of the generation, so each of them is told that it has missed it."""
    world = several(seed)
    before = world.stored_generation()
    world.system.add_worker()
    world.until(lambda: world.stored_generation() > before)
    failure = Failure(world)
    assert failure.generation == before + 1
    failure.end()
    assert failure.generations()[0] == before + 2


@pytest.mark.parametrize("seed", SEEDS)
def test_it_fails_after_telling_some_of_the_generation(
    several: Callable[..., Several], seed: int
) -> None:
    """Those that were told go on in it until the others have joined again."""
    world = several(seed)
    before = world.stored_generation()
    world.system.add_worker()
    world.until(lambda: 0 < _in_generation(world, before + 1) < len(world.system.running))
    failure = Failure(world)
    assert failure.generation == before + 1
    failure.end()
    assert world.stored_generation() > before + 1


def _in_generation(world: Several, generation: int) -> int:
    found = world.seen(GroupJoined)
    return sum(isinstance(each, GroupJoined) and each.generation == generation for each in found)


# -- nothing to rebalance for ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_members_carry_on_in_their_generation(several: Callable[..., Several], seed: int) -> None:
    """A coordinator that fails is no reason to rebalance."""
    world = several(seed)
    failure = Failure(world)
    failure.end()
    assert failure.generations() == []
    recovered = world.seen(GroupRecovered, since_s=failure.at_s)
    assert [each.generation for each in recovered if isinstance(each, GroupRecovered)] == [
        failure.generation
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_planned_hand_over_goes_unnoticed(several: Callable[..., Several], seed: int) -> None:
    """Coordinators join one that works alone, shards move to them, and work goes on."""
    world = several(seed, running=1)
    alone = world.coordinator
    since_s = world.system.scheduler.now_s
    world.system.start_coordinators()
    world.until(lambda: world.system.is_shared_out, 30.0)
    world.run(20.0)
    assert len(alone.shards) <= 2
    assert not world.seen(RebalanceStarted, MemberGone, PartitionsLost, since_s=since_s)
    world.check_well()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_graceful_stop_in_the_middle_of_a_rebalance(
    several: Callable[..., Several], seed: int
) -> None:
    """Another one has the group in well under a second, and the rebalance goes on."""
    world = several(seed)
    since_s = world.system.scheduler.now_s
    world.system.add_worker()
    world.until(lambda: _parked(world) == 2)
    former = world.coordinator
    former.stop()
    world.until(lambda: world.coordinator is not former and world.state() is not None, 1.0)
    world.until(world.is_well, 30.0)
    world.run(5.0)
    world.check_well()
    assert not world.seen(MemberGone, PartitionsLost, since_s=since_s)
    assert world.seen(RebalanceCompleted, since_s=since_s)


# -- topics that are deleted -----------------------------------------------------------------------


class Deletion:
    """A topic is deleted and made anew, while something befalls the group's coordinator."""

    def __init__(self, world: Several, topic: str) -> None:
        self.world, self.topic = world, topic
        self.is_answered = False
        self.offsets_then = -1
        assert world.stored_offsets(topic)
        world.system.ask_admin(self._recreate)

    async def _recreate(self, admin: object) -> None:
        topics = admin.topics  # type: ignore[attr-defined]
        number = self.world.system.checker.offsets.deletion_asked(self.topic)
        await topics.delete(self.topic)
        self.world.system.checker.offsets.deletion_done(self.topic, number)
        self.is_answered, self.offsets_then = True, self.world.stored_offsets(self.topic)
        self.world.system.checker.offsets.creation_asked(self.topic)
        await topics.create(self.topic, partitions=2)


@pytest.mark.parametrize("fate", ["paused", "killed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_is_deleted_when_all_groups_have_forgotten_it(
    several: Callable[..., Several], seed: int, fate: str
) -> None:
    """A coordinator that is away can't forget, so the one that takes over has to."""
    world = several(seed)
    world.until(lambda: world.coordinator is not world.topics_owner, 60.0)
    former = world.coordinator
    assert former.process is not None
    if fate == "paused":
        former.process.pause()
    else:
        former.kill()
    since_s = world.system.scheduler.now_s
    deletion = Deletion(world, "more")
    world.run(1.0)
    assert world.stored_partitions("more") == 0
    assert not deletion.is_answered
    world.until(lambda: deletion.is_answered, 20.0)
    assert deletion.offsets_then == 0
    if fate == "paused":
        former.process.resume()
    world.until(world.is_well, 60.0)
    world.run(5.0)
    world.check_well()
    told = [
        each.change
        for each in world.seen(TopicChanged, since_s=since_s)
        if isinstance(each, TopicChanged)
    ]
    assert told == ["deleted", "created"]
