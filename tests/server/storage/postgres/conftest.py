"""Stores in a real PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Another
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import TcpProxy

Connect = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture
def schema() -> str:
    """The schema of a test."""
    return f"test_{uuid4().hex[:12]}"


@pytest.fixture
def another(postgres: PostgresServer, schema: str) -> Another:
    """Return what makes stores of one schema."""
    return lambda: PostgresStore(postgres.url(schema=schema))


@pytest_asyncio.fixture
async def store(another: Another) -> AsyncIterator[PostgresStore]:
    """An open, empty store."""
    async with another() as opened:
        assert isinstance(opened, PostgresStore)
        yield opened


@pytest_asyncio.fixture
async def other(another: Another) -> AsyncIterator[PostgresStore]:
    """A second open store of the same schema."""
    async with another() as opened:
        assert isinstance(opened, PostgresStore)
        yield opened


@pytest_asyncio.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[TcpProxy]:
    """A network between a store and its server."""
    async with TcpProxy(postgres.port) as opened:
        yield opened


@pytest_asyncio.fixture
async def distant(proxy: TcpProxy, schema: str, another: Another) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy, which gives up soon."""
    async with another():
        pass  # the tables are made without the proxy
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?schema={schema}"
    store = PostgresStore(f"{url}&connect_timeout=0.6", answer_s=0.3)
    async with store:
        yield store
        proxy.refuses = False
        proxy.go_on()


@pytest.fixture
def connect(postgres: PostgresServer) -> Connect:
    """Return what connects to the database as any other program."""

    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(postgres.url())
        try:
            yield connection
        finally:
            await connection.close()

    return connected
