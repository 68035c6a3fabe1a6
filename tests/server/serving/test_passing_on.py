"""Changes of topics that a node passes on to the one that has them, which may just change."""

from __future__ import annotations

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

    async def __call__(self, _node: NodeNote, api: ApiKey, _message: Any, _version: int) -> Any:
        """Say the next thing, and the last one again and again."""
        assert api is ApiKey.DELETE_TOPICS
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
        (deleted,) = (await request.answer).responses
        return ErrorCode(deleted.error_code)


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
