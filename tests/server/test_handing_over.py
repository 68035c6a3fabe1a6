"""Two servers on one store: what one gives up, the other takes without having to look for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from coterie_protocol import messages as m
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.live.wire import Wire

pytestmark = pytest.mark.asyncio

#: A third of it is how often a node looks by itself here, which no test waits for.
LEASE_MS: Final = 300_000


def options(store: str, node_id: int) -> ServerOptions:
    """One of several nodes, which hardly ever looks what the others do."""
    overrides = (
        f"node.id={node_id}",
        f"shard.lease.ms={LEASE_MS}",
        "shard.poll.interval.ms=60000",
    )
    return ServerOptions(
        settings=Settings.load(overrides=overrides),
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        store=store,
        topics={"orders": 1},
    )


async def coordinator_of(group: str, server: Server) -> tuple[int, int]:
    """The error and the node that a server tells for a group."""
    wire = await Wire.open(server.address.port)
    try:
        found = await wire.ask(m.FindCoordinatorRequest(key=group), 3)
    finally:
        wire.close()
    return found.error_code, found.node_id


async def serves_all(server: Server) -> None:
    """Wait until a server has all groups."""
    while True:
        if server.node.serves_all:
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URL of an empty store that several servers can use."""
    return f"sqlite:{tmp_path / 'shared.db'}"


async def test_server_that_stops_hands_its_groups_over(store: str) -> None:
    async with (
        asyncio.timeout(60),
        Server(options(store, 1)) as leaving,
        Server(options(store, 2)) as staying,
    ):
        assert leaving.node.serves_all
        assert await coordinator_of("billing", leaving) == (0, 1)
        await leaving.stop()
        await serves_all(staying)
        assert await coordinator_of("billing", staying) == (0, 2)
