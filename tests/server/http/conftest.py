"""A browser that looks at the pages of a node."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from coterie_server.backfill import Backfill
from coterie_server.http import (
    NodeView,
    create_app,
)
from coterie_server.http.server import MAX_LINE_BYTES
from tests.server.http.pages import Browser, Node, view_of
from tests.support.watched_world import WatchedWorld


@pytest.fixture
def node(world: WatchedWorld) -> Node:
    """A node that is ready."""
    return Node(world)


@pytest.fixture
def view(node: Node) -> NodeView:
    """What the pages see of it."""
    return view_of(node)


@pytest_asyncio.fixture
async def browser(view: NodeView, world: WatchedWorld) -> AsyncIterator[Browser]:
    """Looks at its pages."""
    server = TestServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start_server(max_line_size=MAX_LINE_BYTES)
    async with TestClient(server) as client:
        yield client
