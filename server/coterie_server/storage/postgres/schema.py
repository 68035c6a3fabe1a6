"""The tables of the PostgreSQL store, and how they come to be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import asyncpg

from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.address import quoted
from coterie_server.storage.postgres.errors import sqlstate
from coterie_server.storage.postgres.session import Session
from coterie_server.storage.postgres.sql import NO_TIMELINE, Statements

__all__ = ["VERSION", "open_schema"]

VERSION: Final = 1

#: Each makes one version out of the one before.  `{s}` is the schema, quoted, `{timeline}` the
#: database's timeline.  It is a single transaction, and can be run again where a database has none
#: around such statements.
_MIGRATIONS: Final = {
    1: f"""
        CREATE TABLE IF NOT EXISTS {{s}}.records (
            shard int NOT NULL,
            place bytea NOT NULL,
            rest bytea,
            value bytea NOT NULL,
            checksum bigint NOT NULL,
            PRIMARY KEY (shard, place)
        );
        CREATE TABLE IF NOT EXISTS {{s}}.fences (
            shard int PRIMARY KEY,
            timeline int NOT NULL DEFAULT {NO_TIMELINE},
            epoch bigint NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS {{s}}.leases (
            shard int PRIMARY KEY,
            timeline int NOT NULL DEFAULT {NO_TIMELINE},
            epoch bigint NOT NULL DEFAULT 0,
            owner text,
            claim bytea,
            length_ms bigint NOT NULL DEFAULT 0,
            expires_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE TABLE IF NOT EXISTS {{s}}.nodes (
            owner text PRIMARY KEY,
            life bytea NOT NULL,
            note bytea,
            timeline int NOT NULL,
            expires_at timestamptz NOT NULL
        );
        CREATE TABLE IF NOT EXISTS {{s}}.agreed (
            name text PRIMARY KEY,
            value text NOT NULL
        );
        CREATE TABLE IF NOT EXISTS {{s}}.timelines (
            only_row int PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
            timeline int NOT NULL,
            claims_from timestamptz NOT NULL
        );
        INSERT INTO {{s}}.timelines (timeline, claims_from)
            VALUES ({{timeline}}, clock_timestamp()) ON CONFLICT (only_row) DO NOTHING;
        INSERT INTO {{s}}.coterie_version (version) VALUES (1)
    """,
}

_VERSION_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {s}.coterie_version (
        version int PRIMARY KEY,
        since timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""

#: Another node was quicker: what was to be made is there already.
_MADE_MEANWHILE: Final = frozenset({"23505", "42710", "42P06", "42P07"})
_ATTEMPTS: Final = 50
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Found:
    """What a database has under the schema's name."""

    has_schema: bool
    #: 0 if the table of versions is empty, None if there is none.
    version: int | None
    #: Tables of other programs, or of none: with our names, but without a version.
    foreign: tuple[str, ...]


async def open_schema(session: Session, shown: str, schema: str) -> Statements:
    """Make or bring up to date what a store needs; return the statements for it.

    Any number of nodes may do so at once.
    """
    statements = Statements(schema, has_timelines=await _has_timelines(session))
    for _ in range(_ATTEMPTS):
        found = await _look(session, schema)
        _check(found, shown, schema)
        if found.version == VERSION:
            return statements
        try:
            await _advance(session, found, statements)
        except asyncpg.PostgresError as error:
            if sqlstate(error) == "42501":
                raise _lacks_privilege(shown, schema, error) from error
            if sqlstate(error) not in _MADE_MEANWHILE:
                raise
            await asyncio.sleep(_PAUSE_S)
    raise StoreError(f"{shown}: another node does not finish making the tables of {schema}")


async def _has_timelines(session: Session) -> bool:
    """Whether a replica that takes over begins a new timeline.

    Where replicas share their storage, or agree on each transaction, they have no timelines, and
    lose nothing.
    """
    (product,) = await session.fetch("SELECT version() AS name")
    if any(word in product["name"] for word in ("CockroachDB", "-YB-")):
        return False
    try:
        await session.fetch("SELECT pg_walfile_name(pg_current_wal_lsn())")
    except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFunctionError):
        return False
    return True


async def _look(session: Session, schema: str) -> _Found:
    names = await session.fetch("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", schema)
    tables = await session.fetch(
        "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = $1", schema
    )
    here = {row["tablename"] for row in tables}
    if "coterie_version" not in here:
        ours = {"records", "fences", "leases", "nodes", "agreed", "timelines"}
        return _Found(bool(names), None, tuple(sorted(here & ours)))
    (row,) = await session.fetch(
        f"SELECT coalesce(max(version), 0) AS version FROM {quoted(schema)}.coterie_version"
    )
    return _Found(bool(names), row["version"], ())


def _check(found: _Found, shown: str, schema: str) -> None:
    if found.version is not None and found.version > VERSION:
        raise StoreError(
            f"{shown}: the tables in schema {schema} have version {found.version}, and this"
            f" Coterie knows none above {VERSION}. Use the newer one that made them"
        )
    if found.foreign:
        raise StoreError(
            f"{shown}: schema {schema} has tables of another program ({', '.join(found.foreign)})."
            " Choose another one by ?schema=NAME"
        )


async def _advance(session: Session, found: _Found, statements: Statements) -> None:
    """Make what is missing first."""
    name = quoted(statements.schema)
    if not found.has_schema:
        await session.execute(f"CREATE SCHEMA {name}")
    elif found.version is None:
        await session.execute(_VERSION_TABLE.format(s=name))
    else:
        migration = _MIGRATIONS[found.version + 1]
        await session.execute(migration.format(s=name, timeline=statements.timeline))


def _lacks_privilege(shown: str, schema: str, error: Exception) -> StoreError:
    (first, *_) = str(error).splitlines()
    return StoreError(
        f"{shown}: the role may not make the tables in schema {schema} ({first}). Start a node once"
        " with a role that may; the documentation has the privileges that the others need"
    )
