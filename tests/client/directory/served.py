"""A node's own pages on a real connection, and how tests wait for a directory of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from coterie_client import Directory, NoOwnerError
from coterie_server.backfill import Backfill
from coterie_server.http import Tokens, create_app
from tests.server.http.pages import Node, view_of


def server_of(node: Node, tokens: Tokens | None = None, **more: Any) -> TestServer:
    world = node.world
    backfill = Backfill(world.history, None, 0)
    return TestServer(
        create_app(view_of(node), backfill, world.metrics, tokens=tokens), host="127.0.0.1", **more
    )


@asynccontextmanager
async def serving(node: Node, port: int = 0) -> AsyncIterator[TestServer]:
    server = server_of(node, port=port)
    await server.start_server()
    try:
        yield server
    finally:
        await server.app.shutdown()
        await server.close()


def url(server: TestServer) -> str:
    return f"http://127.0.0.1:{server.port}"


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110  # of what has no event
            await asyncio.sleep(0.005)


async def why_unknown(directory: Directory) -> str:
    with pytest.raises(NoOwnerError) as caught:
        await directory.owner(partition=0, wait=0.05)
    return str(caught.value)
