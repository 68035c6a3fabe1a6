"""What a node says and counts while its store fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio

from coterie_server.address import Address
from coterie_server.config.assembly import RandomIds, catalogue_config, group_config
from coterie_server.config.settings import Settings
from coterie_server.serving.clock import Clock
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import MemoryStore, StoreError
from coterie_server.topics import Catalogue

pytestmark = pytest.mark.asyncio


class Meter(Counter[str]):
    """Counts as metrics do."""

    def store_appended(self, records: int, seconds: float) -> None:
        """Count nothing."""

    def store_failed(self) -> None:
        """Count a failure."""
        self["failures"] += 1


@pytest_asyncio.fixture
async def store() -> AsyncIterator[MemoryStore]:
    """The node's store."""
    async with MemoryStore() as store:
        yield store


@pytest.fixture
def meter() -> Meter:
    """What the node counts."""
    return Meter()


@pytest_asyncio.fixture
async def node(store: MemoryStore, meter: Meter) -> AsyncIterator[Node]:
    """A node that shares its store, and looks at it every few milliseconds."""
    settings = Settings()
    options = NodeOptions(1, Address("h1", 9092), 2, lease_ms=60_000, look_every_ms=5)
    config = catalogue_config(settings, options)
    node = Node(
        options,
        group_config(settings),
        store,
        Clock(),
        make_ids=lambda _epoch: RandomIds(),
        make_catalogue=lambda ends: Catalogue(config, RandomIds(), ends),
        observe=lambda _ts, _event: None,
        meter=meter,
    )
    await node.start()
    yield node
    await node.stop()


async def until(true: Callable[[], bool]) -> None:
    """Wait for what takes some looks at the store."""
    for _ in range(10_000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come true")


async def test_each_look_in_vain_counts_though_nobody_asks_for_anything(
    node: Node, store: MemoryStore, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (node.trouble, meter["failures"]) == ("", 0)
    with monkeypatch.context() as broken:
        broken.setattr(store, "survey", AsyncMock(side_effect=StoreError("it is away")))
        await until(lambda: meter["failures"] >= 2)
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
