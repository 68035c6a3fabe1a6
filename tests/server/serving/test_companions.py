"""Nodes that are started together on an empty store, in whichever order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.address import Address
from coterie_server.net import Exchange
from coterie_server.serving.catalogue_shard import CatalogueShard
from coterie_server.serving.cluster import NodeNote
from coterie_server.serving.durable_queue import DurableQueue
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.serving.peers import PeerError
from coterie_server.storage import MemoryStore, StoreError
from tests.support.nodes import node_of
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio

SHARDS = 5
COMPANIONS = (1, 2)
#: Of those whose ends are not waited for: a test that was held up must not see them.
LONG_LEASE_MS = 60_000
BRIEF_LEASE_MS = 1_000


def node_on(
    store: MemoryStore,
    node_id: int,
    *,
    accept_loss: bool = False,
    companions: tuple[int, ...] = COMPANIONS,
    lease_ms: int = LONG_LEASE_MS,
) -> Node:
    """One of them."""
    options = NodeOptions(
        node_id,
        Address(f"h{node_id}", 9092),
        SHARDS,
        lease_ms=lease_ms,
        accept_loss=accept_loss,
        look_every_ms=10,
        companions=companions,
    )
    node = node_of(options, store)

    async def ask(node: NodeNote, _api: ApiKey, _message: Any, _version: int) -> Any:
        raise PeerError(f"node {node.node_id} is not asked")

    node.ask = ask
    return node


@pytest_asyncio.fixture
async def store() -> AsyncIterator[MemoryStore]:
    """What they share."""
    async with MemoryStore() as store:
        yield store


def owned(node: Node) -> set[int]:
    """The shards that a node has, with the catalogue."""
    return {shard.shard for shard in node.all_shards() if shard.is_owned}


async def until(true: Callable[[], bool]) -> None:
    """Wait for what takes a lease at most."""
    for _ in range(3_000):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come true")


async def test_each_leaves_the_others_their_share(store: MemoryStore) -> None:
    async with store.twin() as twin:
        first, second = node_on(store, 1), node_on(twin, 2)
        await first.start()
        assert len(owned(first)) == 3
        await second.start()
        assert owned(first).isdisjoint(owned(second))
        assert len(owned(second)) == 3
        for node in (first, second):
            await node.stop()


async def test_one_that_does_not_come_gets_nothing(store: MemoryStore) -> None:
    node = node_on(store, 1, lease_ms=BRIEF_LEASE_MS)
    await node.start()
    await until(lambda: len(owned(node)) == SHARDS + 1)
    await node.stop()


async def listed(node: Node) -> ErrorCode:
    """How a node answers when it is asked for its groups."""
    request = Pending(m.ListGroupsRequest(), 4)
    node.handle(cast("Exchange", request))
    return ErrorCode((await request.answer).error_code)


async def test_groups_are_not_listed_while_some_are_with_no_node(store: MemoryStore) -> None:
    """A list that lacks groups without saying so would be worse than none."""
    node = node_on(store, 1, lease_ms=BRIEF_LEASE_MS)
    await node.start()
    assert await listed(node) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await until(lambda: len(owned(node)) == SHARDS + 1)
    assert await listed(node) is ErrorCode.NONE
    await node.stop()


async def test_groups_are_not_listed_while_some_are_given_away(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun is stored first, which may take a while."""
    is_stored = asyncio.Event()

    async def settle(_: DurableQueue) -> None:
        await is_stored.wait()

    node = node_on(store, 1, lease_ms=BRIEF_LEASE_MS)
    await node.start()
    await until(lambda: len(owned(node)) == SHARDS + 1)
    monkeypatch.setattr(DurableQueue, "settle", settle)
    giving = asyncio.ensure_future(node.shards[0].give_up())
    await asyncio.sleep(0)
    assert await listed(node) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    is_stored.set()
    await giving
    await node.stop()


async def test_topic_that_one_needs_waits_for_the_one_that_has_the_topics(
    store: MemoryStore,
) -> None:
    """Once that was refused, since no node had them yet."""
    async with store.twin() as twin:
        first, second = node_on(store, 1), node_on(twin, 2)
        starting = asyncio.ensure_future(second.start({"t": 1}))
        await until(lambda: len(owned(second)) == 3)
        assert -1 not in owned(second)
        await first.start({"t": 1})
        async with asyncio.timeout(60):
            await starting
        assert dict(second.topics) == {"t": 1}
        for node in (first, second):
            await node.stop()


async def test_loss_can_be_accepted_while_another_node_has_some_shards(store: MemoryStore) -> None:
    """Once it waited for those to be stored, which only their node can do."""
    async with store.twin() as twin:
        first, second = node_on(store, 1), node_on(twin, 2, accept_loss=True)
        await first.start()
        await second.start()
        assert len(owned(second)) == 3
        for node in (first, second):
            await node.stop()


async def test_loss_that_is_accepted_beside_another_node_is_said_to_be_so_in_part(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The groups of that node go on in their generations, as if nothing were lost."""
    async with store.twin() as twin:
        first, second = node_on(store, 1), node_on(twin, 2, accept_loss=True)
        await first.start()
        await second.start()
        warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert any("other nodes" in said and said.endswith("shards=2") for said in warned), warned
        for node in (first, second):
            await node.stop()


async def test_loss_that_is_accepted_by_the_only_node_is_said_to_be_so(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    node = node_on(store, 1, accept_loss=True, companions=())
    await node.start()
    await node.stop()
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert any("taken for lost" in said for said in warned)
    assert not any("other nodes" in said for said in warned)


async def commit(node: Node, group: str) -> None:
    """Have a group commit 7 in the topic t."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=None
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
    request = Pending(m.OffsetCommitRequest(group_id=group, topics=(topic,)), 7)
    node.handle(cast("Exchange", request))
    assert (await request.answer).topics[0].partitions[0].error_code == ErrorCode.NONE


async def lose_topics(store: MemoryStore) -> None:
    """Have a group commit 7 in a topic, and lose all topics."""
    node = node_on(store, 1, companions=())
    await node.start({"t": 1})
    await commit(node, "g")
    await node.stop()
    (lease,) = await store.claim([-1], "ann", LONG_LEASE_MS)
    await store.append(lease, [(key, None) for key, _ in await store.load(-1)])
    await store.release([lease])


@pytest.mark.parametrize("topics", [{}, {"t": 1}])
async def test_offsets_in_lost_topics_are_kept_by_a_start_that_accepts_the_loss(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, topics: dict[str, int]
) -> None:
    """They are told of if they go with the next one, as their topics were not made anew."""
    await lose_topics(store)
    node = node_on(store, 1, accept_loss=True, companions=())
    await node.start(topics)
    group = node.group("g")
    assert group is not None
    assert group.offsets["t", 0].offset == 7
    await node.stop()
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert any("topics that the store lacks" in said for said in warned) == (not topics)


class Altered(MemoryStore):
    """A store of which what was agreed on is not what it was."""

    def __init__(self, shards: str) -> None:
        super().__init__()
        self.shards = shards

    async def agree(self, name: str, value: str) -> str:
        """Return what it has become."""
        assert name == "shards"
        return self.shards or await super().agree(name, value)


@pytest.mark.parametrize("shards", ["many", "0", "-5", "", "5.0"])
async def test_number_of_shards_that_is_none_is_called_damage(shards: str) -> None:
    async with Altered(shards or " ") as store:
        with pytest.raises(StoreError, match=r"damaged \(what it has as shards was never agreed"):
            await node_on(store, 1, companions=()).start()


async def test_groups_that_are_in_no_shard_of_theirs_are_not_taken_for_gone() -> None:
    """By another number of shards, requests look for nearly all groups elsewhere."""
    async with Altered("") as store:
        node = node_on(store, 1, companions=())
        await node.start({"t": 1})
        for number in range(5):
            await commit(node, f"g{number}")
        await node.stop()
        store.shards = "4"
        node = node_on(store, 1, companions=())
        with pytest.raises(StoreError, match=r"damaged \(group 'g\d' is in shard \d, but not by"):
            await node.start()


async def test_topic_is_made_though_the_topics_change_hands_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that starts a moment later may be given them just when the first one makes a topic."""
    node = node_on(store, 1)
    ensure, tried = CatalogueShard.ensure, []

    async def given_away_at_first(self: CatalogueShard, name: str, partitions: int) -> None:
        tried.append(name)
        if len(tried) == 1:
            raise StoreError("could not be stored; the log says why")
        await ensure(self, name, partitions)

    monkeypatch.setattr(CatalogueShard, "ensure", given_away_at_first)
    await node.start({"t": 3})
    try:
        assert (tried, node.topics["t"]) == (["t", "t"], 3)
    finally:
        await node.stop()
