"""Two servers on one store: what one gives up, the other takes without having to look for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from coterie_protocol import messages as m
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from coterie_server.serving import catalogue_shard
from coterie_server.serving.topic_service import TopicService
from tests.live.wire import Wire

pytestmark = pytest.mark.asyncio

#: A third of it is how often a node looks by itself here, which no test waits for.
LEASE_MS: Final = 300_000


def options(store: str, node_id: int, look_every_ms: int = 60_000) -> ServerOptions:
    """One of several nodes, which hardly ever looks what the others do."""
    overrides = (
        f"node.id={node_id}",
        f"shard.lease.ms={LEASE_MS}",
        f"shard.poll.interval.ms={look_every_ms}",
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


async def test_server_that_stops_tells_that_a_topic_is_deleted(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the groups of the other one, which still have to hear of that."""
    monkeypatch.setattr(catalogue_shard, "_DELETION_MIN_S", 60.0)
    delete = m.DeleteTopicsRequest(topic_names=("orders",), timeout_ms=60_000)
    answers: list[asyncio.Future[m.DeleteTopicsResponse]] = []
    give_up = TopicService.give_up

    async def delete_first(topics: TopicService) -> None:
        answers.append(asyncio.ensure_future(wire.ask(delete, 5)))
        while leaving.node.topics:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)
        await give_up(topics)

    async with (
        asyncio.timeout(120),
        Server(options(store, 1, look_every_ms=500)) as leaving,
        Server(options(store, 2, look_every_ms=500)),
    ):
        wire = await Wire.open(leaving.address.port)
        monkeypatch.setattr(TopicService, "give_up", delete_first)
        await leaving.stop()
        (deleted,) = (await answers[0]).responses
        wire.close()
        assert deleted.error_code == 0
