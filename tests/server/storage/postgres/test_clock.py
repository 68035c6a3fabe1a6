"""A database whose clock is set back: what is gone is not waited for until it has caught up."""

from __future__ import annotations

import asyncio

import pytest

from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Another, Database

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000


async def set_back(database: Database, by: str = "10 minutes") -> None:
    """Set the clock back: that of the server can't be set, so all that expires does so later."""
    later = f"SET expires_at = expires_at + interval '{by}'"
    await database.run(f"UPDATE leases {later}; UPDATE nodes {later}")


async def test_leases_from_before_that_are_over(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    (lease,) = await store.claim([0], "ann", TTL_MS)
    await set_back(database)
    assert [each.is_valid for each in (await store.survey()).leases] == [False]
    (taken,) = await other.claim([0], "bob", TTL_MS)
    assert taken.fence > lease.fence


async def test_leases_that_are_renewed_after_that_are_valid(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    leases = await store.claim([0], "ann", TTL_MS)
    await set_back(database)
    assert len(await store.renew("ann", b"", leases, TTL_MS)) == 1
    assert [each.is_valid for each in (await store.survey()).leases] == [True]
    assert await other.claim([0], "bob", TTL_MS) == []


async def test_lease_ends_early_for_no_clock_that_is_corrected_a_little(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    """Two nodes may want a shard at the same moment, and have not seen each other's leases."""
    await store.claim([0], "ann", TTL_MS)
    await set_back(database, "30 seconds")
    assert await other.claim([0], "bob", TTL_MS) == []


async def test_name_of_a_process_that_died_is_awaited_for_a_lease(
    another: Another, database: Database
) -> None:
    dead = another()
    await dead.open()
    await dead.reserve("ann", TTL_MS)
    await set_back(database)
    async with another() as store, asyncio.timeout(60):
        await store.reserve("ann", 500)
    await dead.close()


async def test_name_is_not_had_before_the_leases_under_it_can_be_over(
    another: Another, store: PostgresStore, database: Database
) -> None:
    async with another() as former:
        await former.reserve("ann", 500)
        await former.claim([0], "ann", TTL_MS)
        await set_back(database)
        waiting = asyncio.create_task(store.reserve("ann", 500))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def claims_from(database: Database) -> object:
    """When claims may begin on the database's timeline."""
    async with database.connected() as connection:
        return await connection.fetchval("SELECT claims_from FROM timelines")


async def put_off(database: Database, by: str) -> None:
    """Have a replica have taken over, and let claims begin so much later."""
    later = f"SET claims_from = clock_timestamp() + interval '{by}'"
    await database.run(f"UPDATE timelines {later}")


async def test_shards_wait_for_no_clock_that_was_set_back_after_a_replica_took_over(
    store: PostgresStore, database: Database
) -> None:
    """Claims wait for the length of a lease then, and begin to do so anew.

    So it is where the store was made and not taken over: that is when claims begin, too.
    """
    await store.claim([0], "ann", 500)
    await put_off(database, "10 minutes")
    taken = await store.claim([1], "ann", 500)
    assert taken == []
    async with asyncio.timeout(60):
        while not taken:
            await asyncio.sleep(0.05)
            taken = await store.claim([1], "ann", 500)


async def test_claims_wait_for_leases_that_the_database_may_never_have_heard_of(
    store: PostgresStore, database: Database
) -> None:
    """They may be longer than those that are known, where nodes have different settings."""
    await store.claim([0], "ann", TTL_MS)
    await put_off(database, "10 minutes")
    before = await claims_from(database)
    await store.renew("ann", b"", [], TTL_MS)
    assert await claims_from(database) == before
