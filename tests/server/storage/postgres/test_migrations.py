"""How the tables come to be, whoever makes them."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres import PostgresStore
from coterie_server.storage.postgres.schema import VERSION
from tests.server.storage.doubles import Another, Database
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.asyncio


async def test_many_nodes_start_at_once(another: Another, database: Database) -> None:
    stores = [another() for _ in range(8)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
        agreed = await asyncio.gather(
            *(store.agree("shards", str(number)) for number, store in enumerate(stores))
        )
        assert len(set(agreed)) == 1
    finally:
        await asyncio.gather(*(store.close() for store in stores))
    async with database.connected() as connection:
        assert await connection.fetchval("SELECT array_agg(version) FROM coterie_version") == [
            VERSION
        ]


async def test_tables_that_were_begun_are_finished(another: Another, database: Database) -> None:
    """As where a database makes tables outside of transactions, and a node died meanwhile."""
    async with another():
        pass
    await database.run("DELETE FROM coterie_version; DROP TABLE leases; DELETE FROM timelines")
    async with another() as store:
        assert len(await store.claim([0], "ann", 1000)) == 1


async def test_newer_version_is_refused(another: Another, database: Database) -> None:
    async with another():
        pass
    async with database.connected() as connection:
        await connection.execute("INSERT INTO coterie_version VALUES ($1)", VERSION + 1)
    with pytest.raises(StoreError, match=rf"have version {VERSION + 1}, and this Coterie"):
        await another().open()


async def test_tables_of_another_program_are_refused(
    another: Another, database: Database, schema: str
) -> None:
    await database.run(f"CREATE SCHEMA {schema}")
    await database.run("CREATE TABLE records (title text)")
    with pytest.raises(StoreError, match=rf"schema {schema} has tables of another .* \(records\)"):
        await another().open()
    async with database.connected() as connection:
        tables = await connection.fetchval(
            "SELECT count(*) FROM pg_tables WHERE schemaname = $1", schema
        )
    assert tables == 1


@pytest.mark.parametrize("name", ['a"b', "Groups of ours", "a'b; DROP TABLE x", "é" * 31])
async def test_schema_may_have_any_name(postgres: PostgresServer, name: str) -> None:
    async with PostgresStore(postgres.url(schema=quote(name))) as store:
        (lease,) = await store.claim([0], "ann", 1000)
        await store.append(lease, [(b"a", b"1"), (b"b", None)])
        assert await store.load(0) == [(b"a", b"1")]


async def test_schemas_are_apart(postgres: PostgresServer, schema: str) -> None:
    async with (
        PostgresStore(postgres.url(schema=schema)) as one,
        PostgresStore(postgres.url(schema=f"{schema}_2")) as two,
    ):
        (lease,) = await one.claim([0], "ann", 1000)
        assert len(await two.claim([0], "bob", 1000)) == 1
        await one.append(lease, [(b"a", b"1")])
        assert await two.load(0) == []


async def test_damaged_record_is_noticed(another: Another, database: Database) -> None:
    async with another() as store:
        (lease,) = await store.claim([0], "ann", 1000)
        await store.append(lease, [(b"a", b"1")])
        await database.run("UPDATE records SET value = '2'")
        with pytest.raises(StoreError, match="a record of shard 0 is not what was written"):
            await store.load(0)


async def test_long_keys_are_kept(another: Another) -> None:
    """An index takes keys of some 2,700 bytes; names of groups may be longer."""
    alike = [b"k" * 5000 + bytes([number]) for number in range(5)]
    keys = [b"k", *alike, b"k" * 1024, b"k" * 1025, b"k" * 32_000, b"l"]
    async with another() as store:
        (lease,) = await store.claim([0], "ann", 1000)
        await store.append(lease, [(key, key[-3:]) for key in keys])
        assert await store.load(0) == [(key, key[-3:]) for key in sorted(keys)]
        chunks = [chunk async for chunk in store.scan(0, chunk_records=2)]
        assert sorted(record for chunk in chunks for record in chunk) == [
            (key, key[-3:]) for key in sorted(keys)
        ]
        await store.append(lease, [(key, None) for key in keys])
        assert await store.load(0) == []


async def test_large_appends_are_kept(another: Another) -> None:
    """Each is a statement of its own, as several would be too long."""
    async with another() as store:
        (lease,) = await store.claim([0], "ann", 1000)
        values = [bytes([number]) * 700_000 for number in range(4)]
        await asyncio.gather(
            *(store.append(lease, [(b"%d" % n, value)]) for n, value in enumerate(values)),
            *(store.append(lease, [(b"%d" % n, b"last")]) for n in range(2)),
        )
        assert [value for _, value in await store.load(0)] == [b"last", b"last", *values[2:]]
