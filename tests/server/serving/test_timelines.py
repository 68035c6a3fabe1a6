"""Nodes whose database goes on in another timeline."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.net import Exchange
from coterie_server.serving.cluster import CATALOGUE_SHARD
from coterie_server.serving.node import Node
from coterie_server.storage import KeptRecord, MemoryStore
from tests.server.serving.test_companions import (
    BRIEF_LEASE_MS,
    SHARDS,
    node_on,
    owned,
    until,
)
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio


class SlowStore(MemoryStore):
    """A store in which nobody reads the topics before the test allows it."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._content = store._content  # noqa: SLF001  # as a twin has it
        self.may_read = asyncio.Event()

    async def load(self, shard: int) -> list[KeptRecord]:
        """What a shard holds, when it may be told."""
        if shard == CATALOGUE_SHARD:
            await self.may_read.wait()
        return await super().load(shard)


async def create(node: Node, name: str) -> ErrorCode:
    """Have a topic created by the node that has the topics."""
    topic = m.CreatableTopic(
        name=name, num_partitions=3, replication_factor=-1, assignments=(), configs=()
    )
    request = Pending(m.CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
    node.handle(cast("Exchange", request))
    return ErrorCode((await request.answer).topics[0].error_code)


@pytest.mark.parametrize("timeline", [1, 3])
async def test_nodes_hear_of_topics_in_any_timeline(timeline: int) -> None:
    """A replica that takes over begins a higher one, and a server that is upgraded the first."""
    async with MemoryStore() as store, store.twin() as twin:
        content = store._content  # noqa: SLF001  # what no node does
        content.timeline = 2
        first = node_on(store, 1, lease_ms=BRIEF_LEASE_MS)
        second = node_on(twin, 2, lease_ms=BRIEF_LEASE_MS)
        await first.start({"old": 1})
        await second.start({"old": 1})
        await until(lambda: second.topics.get("old") == 1)
        content.timeline = timeline
        await until(
            lambda: {lease.lease.fence.timeline for lease in content.leases.values()} == {timeline}
        )
        await until(lambda: len(owned(first)) + len(owned(second)) == SHARDS + 1)
        owner, other = (first, second) if -1 in owned(first) else (second, first)
        await until(lambda: owner.all_shards()[-1].is_served)
        assert await create(owner, "new") is ErrorCode.NONE
        await until(lambda: other.topics.get("new") == 3)
        for node in (first, second):
            await node.stop()


async def test_a_deletion_ends_though_the_timeline_changes_meanwhile() -> None:
    """Or the topic could not be made again, and who asks about it would wait for ever."""
    async with MemoryStore() as store, SlowStore(store) as slow:
        slow.may_read.set()
        first = node_on(store, 1, lease_ms=BRIEF_LEASE_MS)
        second = node_on(slow, 2, lease_ms=BRIEF_LEASE_MS)
        await first.start({"old": 1})
        await second.start({})
        await until(lambda: second.topics.get("old") == 1)
        await until(lambda: bool(owned(second)))
        assert CATALOGUE_SHARD in owned(first)
        slow.may_read.clear()
        deletion = m.DeleteTopicsRequest(topic_names=("old",), timeout_ms=0)
        request = Pending(deletion, 5)
        first.handle(cast("Exchange", request))
        answer = (await request.answer).responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        content = store._content  # noqa: SLF001  # as above
        content.timeline += 1
        await until(
            lambda: (
                {each.lease.fence.timeline for each in content.leases.values()}
                == {content.timeline}
            )
        )
        slow.may_read.set()
        await until(lambda: len(owned(first)) + len(owned(second)) == SHARDS + 1)
        owner = first if CATALOGUE_SHARD in owned(first) else second
        await until(lambda: owner.all_shards()[CATALOGUE_SHARD].is_served)
        async with asyncio.timeout(30):
            assert await create(owner, "old") is ErrorCode.NONE
        for node in (first, second):
            await node.stop()
