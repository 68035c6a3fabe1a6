"""Every transaction is durable when it is acknowledged, whatever the server is told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.link import Link, Session
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def admin(postgres: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection of who runs the server."""
    connection = await asyncpg.connect(postgres.url())
    yield connection
    await connection.execute("ALTER SYSTEM RESET synchronous_commit")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


@pytest_asyncio.fixture
async def link(postgres: PostgresServer) -> AsyncIterator[Link]:
    connected = Link(Address.parse(postgres.url()))
    await connected.run(lambda session: session.execute("CREATE TEMP TABLE seen (said text)"))
    yield connected
    await connected.close()


async def written(link: Link) -> str:
    """How durable what a transaction writes is."""

    async def work(session: Session) -> str:
        setting = "current_setting('synchronous_commit')"
        await session.execute(f"TRUNCATE seen; INSERT INTO seen SELECT {setting}")
        (row,) = await session.fetch("SELECT said FROM seen")
        return str(row["said"])

    return await link.run(work)


async def tell(admin: asyncpg.Connection, setting: str) -> None:
    await admin.execute(f"ALTER SYSTEM SET synchronous_commit TO {setting}")
    await admin.execute("SELECT pg_reload_conf()")


async def test_it_cannot_be_switched_off(admin: asyncpg.Connection, link: Link) -> None:
    assert await written(link) == "on"
    await tell(admin, "off")
    assert {await written(link) for _ in range(100)} == {"on"}


@pytest.mark.parametrize("told", ["on", "local", "remote_apply"])
async def test_what_else_the_server_is_told_holds(
    admin: asyncpg.Connection, link: Link, told: str
) -> None:
    assert await written(link) == "on"
    await tell(admin, told)
    async with asyncio.timeout(30):
        while await written(link) != told:
            pass
