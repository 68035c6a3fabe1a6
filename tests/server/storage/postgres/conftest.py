"""Stores in a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Another, Database
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def kind() -> str:
    """Return which kind of store the fixtures for all kinds make."""
    return "postgres"


@pytest.fixture
def database(postgres: PostgresServer, schema: str) -> Database:
    """Return the database, for what no store does."""
    return Database(postgres.url(), schema)


@pytest_asyncio.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[TcpProxy]:
    """A network between a store and its server."""
    async with TcpProxy(postgres.port) as opened:
        yield opened


@pytest_asyncio.fixture
async def distant(
    postgres: PostgresServer, proxy: TcpProxy, schema: str, another: Another
) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy, which gives up soon."""
    async with another():
        pass  # the tables are made without the proxy
    url = postgres.url(proxy.port, schema=schema, connect_timeout="2")
    async with PostgresStore(url, answer_s=1.0) as store:
        yield store
        proxy.mend()
