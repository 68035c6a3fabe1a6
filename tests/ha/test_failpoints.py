"""kill -9 of a coordinator at exact points of a rebalance, while another one is there.

The points are those that Kafka's own design of a fail-over tells apart, from the notification that
makes a rebalance necessary to the last member that is told of its end.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.ha.conftest import PARTITIONS, TOPIC
from tests.ha.nodes import LEASE_MS, FailingNode, Nodes
from tests.ha.raw_group import RawGroup, find_coordinator
from tests.live.ownership import overlaps
from tests.live.wire import Wire, run

pytestmark = pytest.mark.slow

MEMBERS: Final = 3
GROWN: Final = 8
#: Rebalances of groups that never fail are over in some hundredths of a second.
PATIENCE_S: Final = 60.0
#: Beyond the lease, until a group is served again, on a machine that is busy.
SLACK_S: Final = 10.0
#: Long enough for a rebalance that should not be.
CALM_S: Final = 0.6


@dataclass(frozen=True, slots=True)
class Point:
    """Where a coordinator is killed, and what is durable there."""

    name: str
    #: How many members are told, or have joined.
    count: int
    #: In which state the group is found by the coordinator that takes over.
    state: str
    #: Whether the rebalance has made its generation.
    is_made: bool = False
    #: Whether the coordinator that takes over begins the rebalance.
    is_begun_anew: bool = False

    def __str__(self) -> str:
        return self.name


POINTS: Final = (
    Point("rebalance_due", 1, "Stable", is_begun_anew=True),
    Point("rebalance_stored", 1, "PreparingRebalance"),
    Point("told_to_rejoin", 1, "PreparingRebalance"),
    Point("joined", 2, "PreparingRebalance"),
    Point("generation_stored", 1, "CompletingRebalance", is_made=True),
    Point("told_generation", 1, "CompletingRebalance", is_made=True),
    Point("assignment_stored", 1, "Stable", is_made=True),
    Point("told_assignment", 1, "Stable", is_made=True),
)


@dataclass(slots=True)
class Story:
    """A group in a generation, on a node that is about to fail."""

    nodes: Nodes
    failing: FailingNode
    other: FailingNode
    group: RawGroup
    generation: int = 0
    wire: Wire | None = None

    @classmethod
    async def begin(cls, nodes: Nodes, name: str, failing: FailingNode) -> Story:
        """Let members form a generation, and commit."""
        (other,) = (node for node in nodes.both if node is not failing)
        group = RawGroup(name, TOPIC, nodes.ports, PARTITIONS)
        story = cls(nodes, failing, other, group)
        group.come(MEMBERS)
        story.generation = await story.settle()
        return story

    async def settle(self, generation: int = 0) -> int:
        """Wait until all members work in one generation, and stay in it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                settled = await self.group.until_settled(generation)
                await asyncio.sleep(CALM_S)
                if await self.group.until_settled(generation) == settled:
                    break
            await self.group.until_committed()
        return settled

    async def grow(self) -> None:
        """Give the topic more partitions, by the node that goes on."""
        self.group.partitions = GROWN
        self.wire = await Wire.open(self.other.port)
        topic = m.CreatePartitionsTopic(name=TOPIC, count=GROWN, assignments=None)
        request = m.CreatePartitionsRequest(topics=(topic,), timeout_ms=20_000, validate_only=False)
        # Its answer is not waited for: it may need the node that fails.
        self.wire.send(request, 1)

    async def until_hit(self) -> float:
        """Wait until the node has come to its failpoint; return when that was."""
        return await asyncio.to_thread(self.failing.wait_until_hit)

    async def stored(self) -> dict[int, int]:
        """What the node that took over has stored of the group."""
        wire = await Wire.open(self.other.port)
        answer = await wire.ask(m.OffsetFetchRequest(group_id=self.group.name, topics=None), 5)
        wire.close()
        assert answer.error_code == ErrorCode.NONE
        (topic,) = answer.topics
        return {each.partition_index: each.committed_offset for each in topic.partitions}

    async def check_promises(self) -> None:
        """Nothing acknowledged is lost, and no partition had two owners."""
        group = self.group
        assert await find_coordinator([self.other.port], group.name) == self.other.port
        acknowledged = dict(group.acknowledged)
        stored = await self.stored()
        for partition, offset in acknowledged.items():
            assert offset <= stored[partition] <= group.sent[partition], partition
        await group.go()
        if self.wire is not None:
            self.wire.close()
        assert group.broken == []
        assert group.forgotten == []
        assert overlaps(group.ownerships) == []
        for partition, tokens in group.tokens.items():
            assert tokens == sorted(set(tokens)), partition

    def check_served_again(self, hit_s: float) -> None:
        """The group was answered within a lease and a little."""
        again_s = min(at_s for at_s in self.group.served_s if at_s > hit_s + 0.05)
        assert again_s - hit_s < LEASE_MS / 1000 + SLACK_S

    def check_journals(self, point: Point) -> list[Event]:
        """The journal of the node that took over goes on where the other one's ends."""
        self.other.end()
        before = self.failing.events(self.group.name)
        after = self.other.events(self.group.name)
        (recovered,) = (each for each in after if isinstance(each, GroupRecovered))
        assert recovered.state == point.state
        assert recovered.generation == self.generation + point.is_made
        assert set(recovered.members) >= {member.id for member in self.group.members[:MEMBERS]}
        numbers = [each.generation for each in [*before, *after] if isinstance(each, PhaseJoined)]
        assert numbers == sorted(set(numbers))
        ended = [e.generation for e in [*before, *after] if isinstance(e, RebalanceCompleted)]
        assert ended == sorted(set(ended))
        return after


@pytest.fixture(params=[0, 1], ids=["with-the-topics", "without-the-topics"])
def which(request: pytest.FixtureRequest) -> int:
    """Return which node fails: the one that has the catalogue of topics, or the other one."""
    number: int = request.param
    return number


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_rebalance_for_a_topic_goes_on_where_it_was_stored(
    nodes: Nodes, which: int, point: Point
) -> None:
    failing = nodes.both[which]
    name = nodes.group_on(failing)

    async def play() -> Story:
        story = await Story.begin(nodes, name, failing)
        known = [member.id for member in story.group.members]
        failing.arm(point.name, name, point.count, signal.SIGKILL)
        await story.grow()
        hit_s = await story.until_hit()
        assert await story.settle(story.generation + 1) == story.generation + 1
        assert [member.id for member in story.group.members] == known
        for member in story.group.members:
            assert member.generations[-1] == story.generation + 1
        story.check_served_again(hit_s)
        await story.check_promises()
        return story

    after = (story := run(play())).check_journals(point)
    started = [each for each in after if isinstance(each, RebalanceStarted)]
    assert [each.cause for each in started] == ["topic_changed"] * point.is_begun_anew
    ended = [each for each in after if isinstance(each, RebalanceCompleted)]
    is_over = point.is_made and point.state == "Stable"
    assert [each.generation for each in ended] == [story.generation + 1] * (not is_over)
    assert all(each.cause == "topic_changed" for each in ended)


NEWCOMERS_POINTS: Final = (
    Point("rebalance_due", 1, "Stable"),
    Point("rebalance_stored", 1, "PreparingRebalance"),
    Point("told_to_rejoin", 1, "PreparingRebalance"),
    Point("joined", 3, "PreparingRebalance"),
    Point("generation_stored", 1, "CompletingRebalance", is_made=True),
    Point("told_generation", 1, "CompletingRebalance", is_made=True),
)


@pytest.mark.parametrize("point", NEWCOMERS_POINTS, ids=str)
def test_rebalance_for_a_new_member_goes_on_with_the_others(nodes: Nodes, point: Point) -> None:
    """A member that was in no generation yet is not known, and comes again."""
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> Story:
        story = await Story.begin(nodes, name, failing)
        known = [member.id for member in story.group.members]
        failing.arm(point.name, name, point.count, signal.SIGKILL)
        story.group.come()
        hit_s = await story.until_hit()
        settled = await story.settle(story.generation + 1)
        # Once more, if the others were quicker than the one that has to come again.
        assert settled <= story.generation + (1 if point.is_made else 2)
        assert [member.id for member in story.group.members[:MEMBERS]] == known
        story.check_served_again(hit_s)
        await story.check_promises()
        return story

    run(play()).check_journals(point)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_node_that_is_stopped_in_a_rebalance_hands_it_over(nodes: Nodes, point: Point) -> None:
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> float:
        story = await Story.begin(nodes, name, failing)
        failing.arm(point.name, name, point.count, signal.SIGTERM)
        await story.grow()
        hit_s = await story.until_hit()
        assert await story.settle(story.generation + 1) == story.generation + 1
        await story.check_promises()
        again_s = [at_s for at_s in story.group.served_s if at_s > hit_s]
        return max(later - at_s for at_s, later in pairwise([hit_s, *again_s]))

    # Without waiting for the lease to expire.
    assert run(play()) < LEASE_MS / 1000
    assert failing.process.wait(PATIENCE_S) == 0  # a second signal would not let it finish
