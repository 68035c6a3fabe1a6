"""Requests about very many groups or topics keep no other client waiting.

What is counted is how many heartbeats another client has answered meanwhile, one after the other:
if all the work were done in one turn of the event loop, there would be none or one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import pytest
import pytest_asyncio

from coterie_protocol import ApiKey, decode_response, encode_request, response_class
from coterie_protocol import messages as m
from coterie_protocol.schema import declaration_of
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.support.requests import Pending
from tests.support.turns import finished

# One loop for all, as those that change nothing share a server.
pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUPS: Final = tuple(f"group-{number:04}" for number in range(4000))
PARTITIONS: Final = 4000
TOPICS: Final = 4000
#: With one turn there would be one at most.  4,000 things are eight pieces, and a heartbeat's way
#: there and back takes three turns.
HEARTBEATS_AT_LEAST: Final = 2
BEAT: Final = m.HeartbeatRequest(group_id="none", generation_id=1, member_id="x")


@dataclass(slots=True)
class Client:
    """A connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, server: Server) -> Self:
        """Connect to a server."""
        address = server.address
        return cls(*await asyncio.open_connection(address.host, address.port, limit=2**24))

    def send(self, message: Any, version: int) -> None:
        """Send a request."""
        self.writer.write(encode_request(message, version, 1, "client"))

    async def receive(self, api: ApiKey, version: int) -> Any:
        """Wait for an answer."""
        size = int.from_bytes(await self.reader.readexactly(4))
        payload = await self.reader.readexactly(size)
        return decode_response(response_class(api), version, payload)[1]

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and wait for the answer."""
        self.send(message, version)
        api = declaration_of(type(message)).api
        assert api is not None
        return await self.receive(api, version)

    async def close(self) -> None:
        """End the connection."""
        self.writer.close()
        await self.writer.wait_closed()


@dataclass(slots=True)
class World:
    """A server with very many groups, an administrator, and another client."""

    server: Server
    admin: Client
    other: Client

    async def heartbeats_during(self, message: Any, version: int) -> tuple[int, Any]:
        """How many heartbeats are answered until a request is, and its answer."""
        asking = asyncio.create_task(self.admin.ask(message, version))
        beats = 0
        while not asking.done():
            answer = self.other.ask(BEAT, 3)
            done, _ = await asyncio.wait(
                {asking, beating := asyncio.create_task(answer)},
                return_when=asyncio.FIRST_COMPLETED,
            )
            beats += beating in done and asking not in done
            await beating
        return beats, asking.result()


def commit(group: str, topic: str, partitions: int) -> m.OffsetCommitRequest:
    """A commit that makes a group."""
    rows = tuple(
        m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=""
        )
        for index in range(partitions)
    )
    return m.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(m.OffsetCommitRequestTopic(name=topic, partitions=rows),),
    )


@asynccontextmanager
async def serving() -> AsyncIterator[World]:
    """Give a server with a group that has 4,000 offsets."""
    options = ServerOptions(
        settings=Settings(group_initial_rebalance_delay_ms=0),
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        topics={"t": 1, "large": PARTITIONS},
    )
    async with Server(options) as server:
        admin, other = await Client.connect(server), await Client.connect(server)
        await other.ask(BEAT, 3)  # a connection that stays silent at first is closed
        await admin.ask(commit("large", "large", PARTITIONS), 7)
        yield World(server, admin, other)
        await admin.close()
        await other.close()


@asynccontextmanager
async def serving_many() -> AsyncIterator[World]:
    """Give a server with 4,000 other groups, too."""
    async with serving() as world:
        for group in GROUPS:
            world.admin.send(commit(group, "t", 1), 7)
        for _ in GROUPS:
            await world.admin.receive(ApiKey.OFFSET_COMMIT, 7)
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world() -> AsyncIterator[World]:
    """Give a server of the test's own."""
    async with serving() as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def changing() -> AsyncIterator[World]:
    """Give a server with many groups to a test that changes them."""
    async with serving_many() as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded() -> AsyncIterator[World]:
    """Give a server with many groups that all tests share."""
    async with serving_many() as world:
        yield world


async def test_all_groups_are_listed(crowded: World) -> None:
    beats, answer = await crowded.heartbeats_during(m.ListGroupsRequest(), 4)
    assert {group.group_id for group in answer.groups} == {*GROUPS, "large"}
    assert beats >= HEARTBEATS_AT_LEAST


async def test_many_groups_are_described(crowded: World) -> None:
    request = m.DescribeGroupsRequest(groups=GROUPS)
    beats, answer = await crowded.heartbeats_during(request, 5)
    assert [group.group_id for group in answer.groups] == list(GROUPS)
    assert {group.group_state for group in answer.groups} == {"Empty"}
    assert beats >= HEARTBEATS_AT_LEAST


async def test_coordinators_of_many_groups_are_found(world: World) -> None:
    request = m.FindCoordinatorRequest(key_type=0, coordinator_keys=GROUPS)
    beats, answer = await world.heartbeats_during(request, 4)
    assert [found.key for found in answer.coordinators] == list(GROUPS)
    assert {found.error_code for found in answer.coordinators} == {0}
    assert beats >= HEARTBEATS_AT_LEAST


async def test_many_groups_are_deleted(changing: World) -> None:
    request = m.DeleteGroupsRequest(groups_names=GROUPS)
    beats, answer = await changing.heartbeats_during(request, 2)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        (group, 0) for group in GROUPS
    ]
    assert beats >= HEARTBEATS_AT_LEAST


async def test_offsets_of_many_groups_are_fetched(crowded: World) -> None:
    asked = tuple(m.OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS)
    beats, answer = await crowded.heartbeats_during(m.OffsetFetchRequest(groups=asked), 8)
    assert [group.group_id for group in answer.groups] == list(GROUPS)
    assert all(group.topics[0].partitions[0].committed_offset == 1 for group in answer.groups)
    assert beats >= HEARTBEATS_AT_LEAST


async def test_many_offsets_of_one_group_are_fetched(world: World) -> None:
    request = m.OffsetFetchRequest(group_id="large", topics=None)
    beats, answer = await world.heartbeats_during(request, 7)
    indexes = [each.partition_index for each in answer.topics[0].partitions]
    assert indexes == list(range(PARTITIONS))
    assert beats >= HEARTBEATS_AT_LEAST


async def test_all_topics_are_told(world: World) -> None:
    topics = tuple(
        m.CreatableTopic(
            name=f"topic-{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        for number in range(TOPICS)
    )
    await world.admin.ask(m.CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
    beats, answer = await world.heartbeats_during(m.MetadataRequest(topics=None), 9)
    assert len(answer.topics) == TOPICS + 2
    assert beats >= HEARTBEATS_AT_LEAST


async def test_a_topic_of_many_partitions_is_told(world: World) -> None:
    request = m.MetadataRequest(topics=(m.MetadataRequestTopic(name="large"),))
    beats, answer = await world.heartbeats_during(request, 9)
    assert [each.partition_index for each in answer.topics[0].partitions] == list(range(PARTITIONS))
    assert beats >= HEARTBEATS_AT_LEAST


async def test_a_topic_of_many_partitions_is_told_again(world: World) -> None:
    """Its partitions need not be made any more, but the answer has to be written."""
    request = m.MetadataRequest(topics=(m.MetadataRequestTopic(name="large"),))
    await world.admin.ask(request, 9)
    beats, answer = await world.heartbeats_during(request, 9)
    assert [each.partition_index for each in answer.topics[0].partitions] == list(range(PARTITIONS))
    assert beats >= HEARTBEATS_AT_LEAST


async def test_ends_of_many_partitions_are_told(world: World) -> None:
    asked = tuple(
        m.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)
    )
    request = m.ListOffsetsRequest(
        replica_id=-1, topics=(m.ListOffsetsTopic(name="large", partitions=asked),)
    )
    beats, answer = await world.heartbeats_during(request, 5)
    assert [each.offset for each in answer.topics[0].partitions] == [1] * PARTITIONS
    assert beats >= HEARTBEATS_AT_LEAST


async def test_a_deleted_topic_is_forgotten_by_many_groups(changing: World) -> None:
    request = m.DeleteTopicsRequest(topic_names=("t",), timeout_ms=30_000)
    beats, answer = await changing.heartbeats_during(request, 4)
    assert answer.responses[0].error_code == 0
    offsets = m.OffsetFetchRequest(group_id=GROUPS[0], topics=None)
    assert (await changing.admin.ask(offsets, 7)).topics == ()
    assert beats >= 1  # the groups of forty shards are looked at in one turn


async def test_a_change_that_comes_while_an_answer_is_made_is_not_in_it(world: World) -> None:
    """It may not be durable when the answer leaves."""
    shard = next(shard for shard in world.server.node.shards if shard.group_count)
    assert shard.core is not None
    asked = Pending(m.OffsetFetchRequest(group_id="large", topics=None), 7)
    shard.handle(asked)
    offsets = shard.core.groups["large"].offsets
    offsets.drop(list(offsets))
    answer = finished(await asked.answer)
    assert len(answer.topics[0].partitions) == PARTITIONS
