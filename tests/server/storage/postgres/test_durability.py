"""Every transaction is durable when it is acknowledged, whatever the server is told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.link import Link
from coterie_server.storage.postgres.session import Session
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
    connected = Link(Address.parse(postgres.url(connect_timeout="60")), answer_s=60)
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


@pytest_asyncio.fixture
async def _table(admin: asyncpg.Connection) -> AsyncIterator[None]:
    """A table that outlives a session."""
    await admin.execute("SET synchronous_commit TO local; CREATE TABLE confirmed (session int)")
    yield
    await bring_the_standby_back(admin)
    await admin.execute("DROP TABLE confirmed")


def writing(link: Link, *, repeat: bool) -> asyncio.Task[int]:
    """Begin to write to that table."""
    insert = "INSERT INTO confirmed VALUES (pg_backend_pid())"
    return asyncio.create_task(link.run(lambda each: each.execute(insert), repeat=repeat))


async def send_the_standby_away(admin: asyncpg.Connection) -> None:
    """Have writes wait for a standby that does not come, once the server has noticed."""
    await admin.execute("ALTER SYSTEM SET synchronous_standby_names TO 'away'")
    await admin.execute("SELECT pg_reload_conf()")


async def bring_the_standby_back(admin: asyncpg.Connection) -> None:
    """Have no write wait any more."""
    await admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
    await admin.execute("SELECT pg_reload_conf()")


async def waiting(
    admin: asyncpg.Connection, task: asyncio.Task[int], former: int = 0
) -> int | None:
    """The session that waits for the standby; None if it need not, and the task is done."""
    # A session that has ended is still there, as that it drops its temporary table waits as well.
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1"
    async with asyncio.timeout(30):
        while not task.done():
            if (process := await admin.fetchval(query, former)) is not None:
                return int(process)
    return None


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("told", ["warning", "error"])
async def test_what_no_standby_has_confirmed_is_not_acknowledged(
    admin: asyncpg.Connection, link: Link, told: str
) -> None:
    """Who cancels the wait is told of success, with a warning, though the primary alone has it."""
    await link.run(lambda each: each.execute(f"SET client_min_messages TO {told}"))
    await send_the_standby_away(admin)
    while (process := await waiting(admin, task := writing(link, repeat=False))) is None:
        pass
    await admin.execute(f"SELECT pg_cancel_backend({process})")
    with pytest.raises(StoreError, match="no standby has confirmed what was written"):
        await task


@pytest.mark.usefixtures("_table")
async def test_what_may_be_written_twice_is_written_until_a_standby_has_confirmed_it(
    admin: asyncpg.Connection, link: Link
) -> None:
    await send_the_standby_away(admin)
    while (process := await waiting(admin, task := writing(link, repeat=True))) is None:
        pass
    await admin.execute(f"SELECT pg_cancel_backend({process})")
    assert await waiting(admin, task, process) is not None
    await bring_the_standby_back(admin)
    await task
