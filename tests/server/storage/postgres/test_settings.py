"""What administrators set for a role or a database, and what servers do by themselves."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from uuid import uuid4

import pytest

from coterie_server.storage.postgres import PostgresStore, link, shared_link
from coterie_server.storage.postgres.literals import KEY_BYTES
from coterie_server.storage.postgres.sql import Statements
from tests.server.storage.doubles import Another, Database
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000
#: What PostgreSQL takes for worth being compiled, by default: that takes longer than a statement.
COMPILED_ABOVE = 100_000

SETTINGS = [
    "array_nulls = off",
    "standard_conforming_strings = off",
    "backslash_quote = off",
    "bytea_output = escape",
    "datestyle = 'German, DMY'",
    "timezone = 'America/St_Johns'",
    "search_path = nowhere",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = serializable",
    "lock_timeout = 1",
    "idle_in_transaction_session_timeout = 1",
]


@pytest.mark.parametrize("setting", SETTINGS)
async def test_settings_of_a_role_change_nothing_of_what_is_kept(
    setting: str, postgres: PostgresServer, database: Database, schema: str
) -> None:
    role = f"set_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} SUPERUSER LOGIN; ALTER ROLE {role} SET {setting}")
    long = b"\\'" * KEY_BYTES
    kept = [(b"\0\xff", b"1"), (b"key", "ä\0\U0001f600".encode()), (long, b"")]
    async with PostgresStore(postgres.url(user=role, schema=schema)) as store:
        await store.reserve("ann", TTL_MS)
        (lease,) = await store.claim([0], "ann", TTL_MS)
        await store.append(lease, [*kept, (b"gone", b"1")])
        await store.append(lease, [(b"gone", None)])
        assert await store.load(0) == sorted(kept)
        assert len(await store.renew("ann", b"note", [lease], TTL_MS)) == 1
        assert [each.owner for each in (await store.survey()).leases] == ["ann"]
        await store.release([lease])


async def test_no_look_at_the_store_is_worth_being_compiled(
    another: Another, database: Database, schema: str
) -> None:
    """Tables that no one has analyzed are taken for larger than they are."""
    async with another() as store:
        await store.claim(range(50), "ann", TTL_MS)
    statements = Statements(schema, has_timelines=True)
    looks: list[tuple[object, ...]] = [
        (statements.survey(),),
        (statements.lease_of(), 0),
        (statements.claimed(), b""),
        (statements.held(), "ann"),
        (statements.entry(), "ann"),
    ]
    async with database.connected() as connection:
        # They have as many pages as after a while in which dead rows were kept.
        await connection.execute("UPDATE leases SET owner = repeat('x', 16000)")
        for query, *values in looks:
            told = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *values)
            (plan,) = json.loads(told)
            assert plan["Plan"]["Total Cost"] < COMPILED_ABOVE / 10, query


async def test_node_goes_on_with_fewer_connections_than_it_wants(
    postgres: PostgresServer, database: Database, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Or it would be given shards, and serve none of them."""
    role = f"few_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 2")
    await database.run(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    async with PostgresStore(postgres.url(user=role, schema=schema)) as store:
        leases = await store.claim(range(10), "ann", TTL_MS)
        await store.renew("ann", b"note", leases, TTL_MS)
        for lease in leases:
            await store.append(lease, [(b"a", b"%d" % lease.shard)])
        for lease in leases:
            assert await store.load(lease.shard) == [(b"a", b"%d" % lease.shard)]
    lines = [record.getMessage() for record in caplog.records]
    assert sum("connections are shared, as some can't be made" in line for line in lines) == 1


async def test_connections_are_shared_no_longer_than_need_be(
    postgres: PostgresServer,
    database: Database,
    schema: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name in ((link, "_LEFT_S"), (shared_link, "_SHARED_S")):
        monkeypatch.setattr(module, name, 0.0)
    caplog.set_level(logging.INFO)
    role = f"few_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 2")
    await database.run(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    async with PostgresStore(postgres.url(user=role, schema=schema)) as store:
        leases = await store.claim(range(3), "ann", TTL_MS)
        await store.renew("ann", b"note", [], TTL_MS)
        for lease in leases:
            await store.append(lease, [(b"a", b"1")])
        await database.run(f"ALTER ROLE {role} CONNECTION LIMIT 20")
        for lease in leases:
            await store.append(lease, [(b"a", b"2")])
    assert "connections are shared no more" in caplog.text


async def end_connections(database: Database, role: str, but: Sequence[int] = ()) -> None:
    """End all connections of a role, but those of some of the server's processes.

    An append that is sent on one that is lost rightly fails, so this process is to know of that.
    """
    query = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE usename = $1 AND pid <> ALL($2)"
    )
    async with database.connected() as connection:
        await connection.execute(query, role, but)
    for _ in range(20):  # all are gone, and to be told so takes some turns of the loop
        await asyncio.sleep(0)


async def test_appends_go_on_though_no_connection_can_be_made_any_more(
    postgres: PostgresServer, database: Database, schema: str
) -> None:
    """As when the role's password is another one by now: those at hand may live for months.

    A node that has its leases renewed over one would keep its shards, and serve none.
    """
    role = f"barred_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} LOGIN")
    await database.run(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    async with (
        database.connected() as connection,
        PostgresStore(postgres.url(user=role, schema=schema)) as store,
    ):
        leases = await store.claim(range(10), "ann", TTL_MS)
        await store.renew("ann", b"note", [], TTL_MS)
        query = "SELECT pid FROM pg_stat_activity WHERE usename = $1"
        needed = [row["pid"] for row in await connection.fetch(query, role)]
        for value in (b"1", b"2"):
            await asyncio.gather(*(store.append(lease, [(b"a", value)]) for lease in leases))
            await database.run(f"ALTER ROLE {role} NOLOGIN")
            await end_connections(database, role, but=needed)
        assert await store.renew("ann", b"note", leases, TTL_MS)
        assert await store.load(0) == [(b"a", b"2")]


@pytest.mark.parametrize("made_first", ["for renewals", "for appends"])
async def test_connections_without_which_nothing_goes_on_get_room_from_the_others(
    made_first: str, postgres: PostgresServer, database: Database, schema: str
) -> None:
    """After a restart of the server, say, to which others have connected meanwhile.

    Those that were made again first would keep for themselves what is left.
    """
    role = f"few_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} LOGIN")
    await database.run(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    async with PostgresStore(postgres.url(user=role, schema=schema)) as store:
        leases = await store.claim(range(10), "ann", TTL_MS)

        async def append_to_all() -> None:
            await asyncio.gather(*(store.append(lease, [(b"a", b"1")]) for lease in leases))

        async def renew() -> None:
            assert len(await store.renew("ann", b"note", leases, TTL_MS)) == len(leases)

        await renew()
        await append_to_all()
        await database.run(f"ALTER ROLE {role} CONNECTION LIMIT 3")
        await end_connections(database, role)
        steps = [renew, append_to_all]
        for step in steps if made_first == "for renewals" else reversed(steps):
            await step()
        assert {lease.shard for lease in await store.claim([10, 11], "ann", TTL_MS)} == {10, 11}
        await append_to_all()
