"""What a node says and counts while its store fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock, Mock

import pytest
import pytest_asyncio

from coterie_server.address import Address
from coterie_server.serving.durable_queue import Meter
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import MemoryStore, StoreError
from tests.server.net.doubles import until
from tests.support.nodes import node_of

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def store() -> AsyncIterator[MemoryStore]:
    """The node's store."""
    async with MemoryStore() as store:
        yield store


@pytest.fixture
def meter() -> Mock:
    """What counts for the node."""
    return Mock(spec=Meter)


@pytest_asyncio.fixture
async def node(store: MemoryStore, meter: Mock) -> AsyncIterator[Node]:
    """A node that shares its store, and looks at it every few milliseconds."""
    options = NodeOptions(1, Address("h1", 9092), 2, lease_ms=60_000, look_every_ms=5)
    node = node_of(options, store, meter=meter)
    await node.start()
    yield node
    await node.stop()


async def test_each_look_in_vain_counts_though_nobody_asks_for_anything(
    node: Node, store: MemoryStore, meter: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (node.trouble, meter.store_failed.call_count) == ("", 0)
    with monkeypatch.context() as broken:
        broken.setattr(store, "survey", AsyncMock(side_effect=StoreError("it is away")))
        await until(lambda: meter.store_failed.call_count >= 2)
        assert node.trouble == "The other nodes, and what they have, can't be seen: it is away."
    await until(lambda: node.trouble == "")


async def test_a_shard_that_is_about_to_be_read_has_not_failed(
    node: Node, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lease,) = await store.claim([0], "node-1", 60_000)
    gate = asyncio.Event()
    monkeypatch.setattr(store, "load", AsyncMock(side_effect=gate.wait, return_value=[]))
    shard = node.shards[0]
    shard.fence()
    shard.take_over(lease)
    await until(lambda: "served" in node.trouble)
    assert node.trouble == "1 of 3 shards can't be served yet."
    gate.set()
