"""Where partitions end is asked of all nodes, of which one may be dead or reading its groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.net import Exchange
from coterie_server.serving.cluster import NodeNote
from coterie_server.serving.node import Node
from coterie_server.serving.peers import PeerError
from coterie_server.storage import MemoryStore
from tests.server.serving.test_companions import node_on, until
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio

LATEST, EARLIEST = -1, -2
RETRY = ErrorCode.NOT_LEADER_OR_FOLLOWER


def at(timestamp: int, *, by_itself: bool = False, topic_name: str = "t") -> m.ListOffsetsRequest:
    """A question for the offset of a partition."""
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = m.ListOffsetsTopic(name=topic_name, partitions=(partition,))
    return m.ListOffsetsRequest(replica_id=-1, by_itself=by_itself, topics=(topic,))


async def asked(node: Node, message: m.ListOffsetsRequest) -> tuple[int, int]:
    """The error and the offset that a node answers."""
    request = Pending(message, 8)
    node.handle(cast(Exchange, request))
    async with asyncio.timeout(60):
        answer = await request.answer
    ((partition,),) = (topic.partitions for topic in answer.topics)
    return partition.error_code, partition.offset


class Peer:
    """The other node, as the one that asks it sees it."""

    def __init__(self) -> None:
        self.error, self.offset = ErrorCode.NONE, 7
        self.is_dead = False
        #: Whether it answers; it hears of the question in any case.
        self.gate = asyncio.Event()
        self.gate.set()
        #: What it was asked about: partitions, by topic.
        self.asked: list[dict[str, list[int]]] = []

    async def __call__(self, node: NodeNote, api: ApiKey, message: Any, _version: int) -> Any:
        """Answer."""
        if self.is_dead or api is not ApiKey.LIST_OFFSETS:
            raise PeerError(f"node {node.node_id} does not answer")
        assert message.by_itself
        self.asked.append(
            {
                each.name: sorted(p.partition_index for p in each.partitions)
                for each in message.topics
            }
        )
        offset = self.offset
        await self.gate.wait()
        found = m.ListOffsetsPartitionResponse(
            partition_index=0, error_code=self.error, offset=offset
        )
        topic = m.ListOffsetsTopicResponse(name="t", partitions=(found,))
        return m.ListOffsetsResponse(topics=(topic,))


@dataclass
class World:
    """A node that has the topics, and how another one answers it."""

    node: Node
    peer: Peer


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """Two nodes that share the shards."""
    async with MemoryStore() as store, store.twin() as twin:
        world = World(node_on(store, 1), Peer())
        world.node.ask = world.peer
        await world.node.start({"t": 1})
        other = node_on(twin, 2)
        await other.start()
        await until(lambda: world.node.cluster.others != [] and not world.node.are_unread())
        yield world
        await world.node.stop()
        await other.stop()


async def test_end_is_the_highest_that_any_node_knows(world: World) -> None:
    assert await asked(world.node, at(LATEST)) == (ErrorCode.NONE, 7)


async def test_end_is_not_told_while_a_node_is_dead(world: World) -> None:
    """Clients ask again, on the same connection."""
    world.peer.is_dead = True
    assert await asked(world.node, at(LATEST)) == (RETRY, -1)
    assert await asked(world.node, at(EARLIEST)) == (ErrorCode.NONE, 0)
    world.peer.is_dead = False
    assert await asked(world.node, at(LATEST)) == (ErrorCode.NONE, 7)


async def test_node_that_can_not_be_asked_is_told_of_once_and_not_with_each_request(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coterie_server.log.repeats.QUIET_MS", 10**9)
    world.peer.is_dead = True
    for _ in range(20):
        assert await asked(world.node, at(LATEST)) == (RETRY, -1)
    told = [each for each in caplog.records if "another node can't be asked" in each.getMessage()]
    assert len(told) == 1


async def test_end_is_not_told_while_another_node_reads_its_groups(world: World) -> None:
    world.peer.error = RETRY
    assert await asked(world.node, at(LATEST)) == (RETRY, -1)


async def test_topic_that_another_node_has_not_heard_of_ends_where_this_one_says(
    world: World,
) -> None:
    world.peer.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await asked(world.node, at(LATEST)) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("by_itself", [False, True])
async def test_end_is_not_told_while_groups_are_being_read(
    world: World, *, by_itself: bool
) -> None:
    """What they have committed is not known yet."""
    shard = next(each for each in world.node.shards if each.is_owned)
    core, shard.core = shard.core, None
    assert await asked(world.node, at(LATEST, by_itself=by_itself)) == (RETRY, -1)
    shard.core = core
    assert (await asked(world.node, at(LATEST, by_itself=by_itself)))[0] == ErrorCode.NONE


async def test_groups_that_can_not_be_read_hold_up_no_question_for_ends(world: World) -> None:
    """They may stay so until an operator has seen to it."""
    shard = next(each for each in world.node.shards if each.is_owned)
    core, shard.core = shard.core, None
    shard.failure = "the row is damaged"
    assert await asked(world.node, at(LATEST)) == (ErrorCode.NONE, 7)
    shard.core, shard.failure = core, ""


async def test_however_many_ask_a_node_is_asked_one_thing_at_a_time(world: World) -> None:
    """A client that sends questions without waiting must not use up the connections."""
    world.peer.gate.clear()
    first = asyncio.create_task(asked(world.node, at(LATEST)))
    await until(lambda: len(world.peer.asked) == 1)
    others = [asyncio.create_task(asked(world.node, at(LATEST))) for _ in range(1000)]
    others.append(asyncio.create_task(asked(world.node, at(LATEST, topic_name="other"))))
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.peer.asked == [{"t": [0]}]
    world.peer.gate.set()
    assert await first == (ErrorCode.NONE, 7)
    assert {await each for each in others[:-1]} == {(ErrorCode.NONE, 7)}
    assert (await others[-1])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.peer.asked[1:] == [{"t": [0], "other": [0]}]


async def test_those_who_share_an_answer_go_on_a_few_at_a_time(world: World) -> None:
    """Thousands of them in one turn of the event loop would cost the node its leases."""
    questions = [Pending(at(LATEST), 8) for _ in range(100)]
    for each in questions:
        world.node.handle(cast(Exchange, each))
    answered, at_once = 0, 0
    while answered < len(questions):
        await asyncio.sleep(0)
        before, answered = answered, sum(each.answer.done() for each in questions)
        at_once = max(at_once, answered - before)
    assert at_once <= 10


async def test_answer_to_an_earlier_question_is_none_to_a_later_one(world: World) -> None:
    """The later client may know of a commit that came in between."""
    world.peer.gate.clear()
    early = asyncio.create_task(asked(world.node, at(LATEST)))
    await until(lambda: len(world.peer.asked) == 1)
    world.peer.offset = 8
    late = asyncio.create_task(asked(world.node, at(LATEST)))
    await asyncio.sleep(0)
    world.peer.gate.set()
    assert await early in ((ErrorCode.NONE, 7), (ErrorCode.NONE, 8))  # it may be told late
    assert await late == (ErrorCode.NONE, 8)


async def test_question_that_is_large_already_takes_in_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it might be larger than the other node takes."""
    monkeypatch.setattr("coterie_server.serving.other_ends._QUESTION_BYTES", 10)
    world.peer.gate.clear()
    first = asyncio.create_task(asked(world.node, at(LATEST)))
    await until(lambda: len(world.peer.asked) == 1)
    names = ["a" * 10, "b" * 10, "t"]
    later = [asyncio.create_task(asked(world.node, at(LATEST, topic_name=name))) for name in names]
    await asyncio.sleep(0)
    world.peer.gate.set()
    await asyncio.gather(first, *later)
    assert [list(each) for each in world.peer.asked] == [["t"], ["a" * 10], ["b" * 10], ["t"]]
