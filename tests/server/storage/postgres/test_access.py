"""Who may use the database, and what is said to those who may not."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from coterie_server.storage import open_store
from coterie_server.storage.abc import Store, StoreError
from coterie_server.storage.postgres import PostgresStore
from coterie_server.storage.postgres.errors import ENDED_AT_ONCE, explain
from tests.server.storage.doubles import Another, Database
from tests.support.ports import free_port
from tests.support.postgres_server import GUARDED, PostgresServer, running_server

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

ROLES = Path(__file__).parents[4] / "docs" / "how-to" / "postgresql-roles.sql"
TTL_MS = 60_000
PASSWORD = "p%4/ss@w?rd"  # noqa: S105  # of a server that lives for these tests
QUOTED = "p%254%2Fss%40w%3Frd"


@pytest.fixture
def guarded(postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL, without a password, of a role that needs one."""
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    return postgres.url(user=GUARDED, schema=schema)


async def make_role(database: Database) -> None:
    """Make the role, unless another test did."""
    async with database.connected() as connection:
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", GUARDED):
            await connection.execute(f"CREATE ROLE {GUARDED} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")


async def is_usable(store: Store) -> bool:
    async with store:
        return bool(await store.claim([0], "ann", TTL_MS))


async def refusal(store: Store) -> str:
    """Why a store does not open; no text about that has the password."""
    with pytest.raises(StoreError) as caught:
        await store.open()
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + store.url
    assert not any(secret in told for secret in (PASSWORD, QUOTED, "w?rd", "w%3Frd"))
    return str(caught.value).removeprefix(f"{store.url}: ")


async def test_password_in_the_url(guarded: str, database: Database) -> None:
    await make_role(database)
    store = open_store(guarded.replace("@", f":{QUOTED}@"))
    assert store.url == guarded
    assert await is_usable(store)


async def test_password_as_a_parameter(guarded: str, database: Database) -> None:
    await make_role(database)
    store = open_store(f"{guarded}&password={QUOTED}")
    assert store.url == guarded
    assert await is_usable(store)


async def test_password_in_the_environment(
    guarded: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_role(database)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert await is_usable(open_store(guarded))


async def test_password_in_a_file(
    guarded: str, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await make_role(database)
    file = tmp_path / "passwords"
    file.write_text(f"*:*:*:{GUARDED}:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert await is_usable(open_store(guarded))


async def test_wrong_password(guarded: str, database: Database) -> None:
    await make_role(database)
    store = open_store(guarded.replace("@", f":{QUOTED}x@"))
    assert await refusal(store) == (
        "it refused the password. Set the right one by PGPASSWORD or PGPASSFILE, or give the whole"
        " URL by COTERIE_STORE"
    )


async def test_no_password(guarded: str, database: Database) -> None:
    await make_role(database)
    assert "password" in await refusal(open_store(guarded))


async def test_no_such_database(postgres: PostgresServer) -> None:
    url = postgres.url().removesuffix("/postgres") + "/nowhere"
    assert await refusal(open_store(url)) == (
        'there is no such database (database "nowhere" does not exist). Create it, or correct the'
        " URL"
    )


async def test_no_such_role(postgres: PostgresServer) -> None:
    said = await refusal(open_store(postgres.url(user="stranger")))
    assert said.startswith('it lets this role not in (role "stranger" does not exist). See its pg')


async def test_nothing_listens() -> None:
    url = f"postgresql://ann:{QUOTED}@127.0.0.1:{free_port()}/coterie?connect_timeout=0.1"
    assert (await refusal(open_store(url))).startswith("it can't be reached: ")


async def test_unusable_parameter(postgres: PostgresServer) -> None:
    said = await refusal(open_store(postgres.url(sslmode="perhaps")))
    assert said.startswith("it can't be used (`sslmode` parameter must be one of: ")


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ({"schemas": "a"}, 'it can\'t be used (unrecognized configuration parameter "schemas")'),
        ({"client_encoding": "utf9"}, "it can't be used (invalid value for parameter"),
        (
            {"sslmode": "verify-full", "sslrootcert": "/nowhere/ca.pem"},
            "it can't be used (a file that its TLS needs: No such file or directory)",
        ),
    ],
    ids=["mistyped", "no value of its", "no file"],
)
async def test_mistaken_parameters_are_refused_at_once(
    postgres: PostgresServer, parameter: dict[str, Any], said: str
) -> None:
    """As they will be no better in a moment, however long there would be time for that."""
    async with asyncio.timeout(60):
        told = await refusal(open_store(postgres.url(connect_timeout="3600", **parameter)))
    assert told.startswith(said)


async def test_role_that_is_told_to_write_nothing(
    postgres: PostgresServer, database: Database
) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    await database.run(
        f"CREATE ROLE {role} SUPERUSER LOGIN;"
        f" ALTER ROLE {role} SET default_transaction_read_only = on"
    )
    said = await refusal(PostgresStore(postgres.url(user=role, connect_timeout="0.1")))
    assert said.startswith("it is read-only: default_transaction_read_only is on, for the role")


async def test_too_many_connections(postgres: PostgresServer, database: Database) -> None:
    role = f"busy_{uuid4().hex[:8]}"
    await database.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    store = PostgresStore(postgres.url(user=role, connect_timeout="0.1"))
    said = await refusal(store)
    assert said.startswith(f'it takes no more connections (too many connections for role "{role}")')


async def test_tables_that_are_gone(another: Another, database: Database) -> None:
    async with another() as store:
        (lease,) = await store.claim([0], "ann", TTL_MS)
        await database.run("DROP TABLE records")
        with pytest.raises(StoreError, match="its tables are gone"):
            await store.append(lease, [(b"a", b"1")])
        with pytest.raises(StoreError, match="its tables are gone"):
            await store.load(0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncpg.DiskFullError("could not extend file"), "its disk is full (could not extend"),
        (asyncpg.CannotConnectNowError("starting up"), "it takes no connections now (starting up)"),
        (asyncpg.ReadOnlySQLTransactionError("no"), "it is read-only: a standby, or no longer the"),
        (asyncpg.DivisionByZeroError("division by zero"), "PostgreSQL failed: division by zero (2"),
        (asyncpg.InterfaceError("connection is closed"), "the connection was lost (connection is"),
        (
            asyncpg.ProtocolViolationError("no more connections allowed (max_client_conn)"),
            "it takes no more connections (no more connections allowed (max_client_conn))",
        ),
        (TimeoutError(), "it did not answer in time"),
        (OSError(5, "I/O error"), "it can't be reached: [Errno 5] I/O error"),
        (ssl.SSLCertVerificationError(1, "wrong name"), "TLS with it failed (wrong name). See "),
        (ConnectionError("it rejected SSL upgrade"), "TLS with it failed (it rejected SSL upgrade"),
        (asyncpg.TargetServerAttributeNotMatched("no"), "it is not what target_session_attrs"),
        (ConnectionError(ENDED_AT_ONCE), "it can't be reached: it closed the connection at once"),
    ],
)
async def test_what_is_said(error: Exception, said: str) -> None:
    explained = explain("postgresql://ann@db", error)
    assert str(explained).startswith(f"postgresql://ann@db: {said}")
    assert explained.__cause__ is error


async def test_values_of_rows_are_not_told() -> None:
    error = asyncpg.UniqueViolationError("duplicate key")
    error.detail = "Key (value)=(secret) already exists."
    assert "secret" not in str(explain("postgresql://ann@db", error))


async def test_roles_are_made_by_one_that_is_no_superuser() -> None:
    """As on servers that are rented, where nobody is one."""
    script = ROLES.read_text(encoding="utf-8")
    with running_server() as server:
        await Database(server.url(), "coterie").run(
            "CREATE ROLE dba LOGIN CREATEROLE; GRANT CREATE ON DATABASE postgres TO dba"
        )
        await Database(server.url(user="dba"), "coterie").run(script)
        async with PostgresStore(server.url(user="coterie_migrate")):
            pass
        assert await is_usable(PostgresStore(server.url(user="coterie_node")))


@pytest.mark.slow
async def test_least_privileges() -> None:
    """The roles of the documentation's file: one makes the tables, the other uses them."""
    script = ROLES.read_text(encoding="utf-8")
    with running_server() as server:
        await Database(server.url(), "coterie").run(script)
        node = PostgresStore(server.url(user="coterie_node"))
        said = await refusal(node)
        assert said.startswith("the role may not make the tables in schema coterie (permission de")
        async with PostgresStore(server.url(user="coterie_migrate")):
            pass
        async with node:
            await node.reserve("ann", TTL_MS)
            leases = await node.claim(range(3), "ann", TTL_MS)
            leases = await node.renew("ann", b"", leases, TTL_MS)
            await node.append(leases[0], [(b"a", b"1"), (b"b", None)])
            assert await node.load(0) == [(b"a", b"1")]
            assert len((await node.survey()).nodes) == 1
            await node.withdraw("ann")
            await node.release(leases)
            assert await node.agree("shards", "50") == "50"
        as_node = Database(server.url(user="coterie_node"), "coterie")
        for forbidden in ("CREATE TABLE x (y int)", "DROP TABLE records", "CREATE SCHEMA z"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await as_node.run(forbidden)
