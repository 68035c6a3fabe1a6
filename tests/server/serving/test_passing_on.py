"""Changes of topics that a node passes on to the one that has them, which may just change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import pytest_asyncio

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.net import Exchange
from coterie_server.security import ANONYMOUS
from coterie_server.serving import topic_service
from coterie_server.serving.cluster import NodeNote
from coterie_server.serving.failures import failure
from coterie_server.serving.node import Node
from coterie_server.serving.peers import NODE_CLIENT_ID, PeerError
from coterie_server.storage import MemoryStore
from tests.server.serving.test_companions import node_on, until
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio

DELETE: Final = m.DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000)
VERSION: Final = 5
DONE: Final = failure(DELETE, VERSION, ErrorCode.NONE)
AWAY: Final = PeerError("no node has the catalogue of topics just now")
MOVED: Final = failure(DELETE, VERSION, ErrorCode.NOT_CONTROLLER)
IN_DOUBT: Final = PeerError("it hung up", was_sent=True)


class Owner:
    """The node that has the topics, as the one that asks it sees it: what it says in turn."""

    def __init__(self) -> None:
        self.says: list[Any] = []
        #: Whether it answers; it hears of the request in any case.
        self.gate = asyncio.Event()
        self.gate.set()
        self.requests = 0

    async def __call__(self, _node: NodeNote, api: ApiKey, _message: Any, _version: int) -> Any:
        """Say the next thing, and the last one again and again."""
        assert api is ApiKey.DELETE_TOPICS
        self.requests += 1
        await self.gate.wait()
        said = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if isinstance(said, PeerError):
            raise said
        return said


@dataclass
class World:
    """A node that has not the topics, and the one that has."""

    node: Node
    owner: Owner

    async def delete(self, client_id: str = "client") -> ErrorCode:
        """Ask the former to delete a topic; the error that it answers."""
        return await self.begin_deletion(client_id)[1]

    def begin_deletion(
        self, client_id: str = "client"
    ) -> tuple[SimpleNamespace, asyncio.Task[ErrorCode]]:
        """The same: the request, and what its answer will be."""
        request = Pending(DELETE, VERSION)
        exchange = SimpleNamespace(
            message=DELETE,
            version=VERSION,
            request=SimpleNamespace(api_key=ApiKey.DELETE_TOPICS),
            principal=ANONYMOUS,
            client_id=client_id,
            abandoned=False,
            reply=request.reply,
        )
        self.node.handle(cast(Exchange, exchange))

        async def error() -> ErrorCode:
            (deleted,) = (await request.answer).responses
            return ErrorCode(deleted.error_code)

        return exchange, asyncio.create_task(error())


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """Two nodes."""
    async with MemoryStore() as store, store.twin() as twin:
        first = node_on(store, 1)
        await first.start({"t": 1})
        world = World(node_on(twin, 2), Owner())
        world.node.ask = world.owner
        await world.node.start()
        await until(lambda: world.node.cluster.others != [] and not world.node.are_unread())
        yield world
        await world.node.stop()
        await first.stop()


@pytest.mark.parametrize("said", [AWAY, MOVED], ids=["away", "moved"])
async def test_client_waits_until_a_node_has_the_topics(world: World, said: Any) -> None:
    """Stock admin clients raise NOT_CONTROLLER, as Kafka's brokers do not let them see it."""
    world.owner.says = [said, said, DONE]
    assert await world.delete() is ErrorCode.NONE


@pytest.mark.parametrize("said", [AWAY, MOVED], ids=["away", "moved"])
async def test_client_is_told_if_that_takes_long(
    world: World, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_service, "_WITHOUT_OWNER_S", 0.0)
    world.owner.says = [said]
    assert await world.delete() is ErrorCode.NOT_CONTROLLER


async def test_what_may_have_been_done_is_not_asked_for_again(world: World) -> None:
    world.owner.says = [IN_DOUBT, DONE]
    assert await world.delete() is ErrorCode.REQUEST_TIMED_OUT


async def test_node_is_told_at_once_that_this_one_has_not_the_topics(world: World) -> None:
    """It looks for the right one itself."""
    world.owner.says = [AWAY, DONE]
    assert await world.delete(NODE_CLIENT_ID) is ErrorCode.NOT_CONTROLLER


async def test_few_requests_are_passed_on_at_a_time(world: World) -> None:
    """Each takes a connection, and a client may send very many without waiting."""
    world.owner.says = [DONE]
    world.owner.gate.clear()
    begun = [world.begin_deletion() for _ in range(100)]
    await until(lambda: world.owner.requests > 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.owner.requests <= 20
    gone = begun.pop()
    gone[0].abandoned = True
    world.owner.gate.set()
    assert {await deleted for _, deleted in begun} == {ErrorCode.NONE}
    assert world.owner.requests == len(begun)
    gone[1].cancel()


async def test_request_whose_turn_does_not_come_may_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie_server.serving.other_nodes._TURN_S", 0.0)
    monkeypatch.setattr(topic_service, "_WITHOUT_OWNER_S", 0.0)
    world.owner.says = [DONE]
    world.owner.gate.clear()
    begun = [world.begin_deletion()[1] for _ in range(100)]
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    world.owner.gate.set()
    answered = [await each for each in begun]
    assert set(answered) == {ErrorCode.NONE, ErrorCode.NOT_CONTROLLER}


async def test_no_client_that_asks_while_the_node_stops_is_left_without_an_answer(
    world: World,
) -> None:
    asked: list[Pending] = []
    stopping = asyncio.create_task(world.node.stop())
    while not stopping.done():
        asked.append(Pending(m.MetadataRequest(topics=(m.MetadataRequestTopic(name="t"),)), 4))
        world.node.handle(cast(Exchange, asked[-1]))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(each.closed or each.answer.done() for each in asked)
