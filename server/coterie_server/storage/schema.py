"""The SQLite file: opening and checking it."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coterie_server.storage.abc import StoreError
from coterie_server.storage.busy import BUSY_TIMEOUT_S, patiently
from coterie_server.storage.damage import Damage, check_pages, check_records, damaged
from coterie_server.storage.guard import read_progress
from coterie_server.storage.mark import Mark, Progress, mark_path

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "Connect", "explain", "open_database"]

Connect = Callable[..., sqlite3.Connection]
"""`sqlite3.connect`, or a function with the same parameters."""

APPLICATION_ID: Final = 0x436F5465  # "CoTe": tells our files from other programs'

#: The version of the tables and of what is in them; a file with a later one is refused.
SCHEMA_VERSION: Final = 2

CACHE_KIB: Final = 16_384

#: What a database of SQLite's begins with.
_HEADER: Final = b"SQLite format 3\0"

_WAY_ON: Final = (
    ": keep a copy of it and of its -wal and -mark files, then restore a backup; or, if what is"
    " missing may be lost, start `coterie serve` once with --accept-data-loss. The documentation"
    ' says more under "Recover a store"'
)
# SQLite copies the log into the file after every 4 MB, and then overwrites it from the front, which
# is cheaper to make durable than letting it grow. Copying more or less often was no better, by
# measurements with groups of 1 to 1000 records. Only a log that a stalled reader made grow beyond
# this limit is cut off.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024

_NODES: Final = """
    CREATE TABLE nodes (
        owner TEXT NOT NULL PRIMARY KEY, note BLOB NOT NULL, expires_ms INTEGER NOT NULL
    )
"""

_TABLES: Final = (
    # Rows are found by shard and key only, so they are kept in that order and nothing else is.
    """
    CREATE TABLE records (
        shard INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (shard, key)
    ) WITHOUT ROWID
    """,
    # A shard that was given up keeps its row, with the owner empty, because epochs never go back.
    """
    CREATE TABLE leases (
        shard INTEGER NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL,
        owner TEXT NOT NULL, expires_ms INTEGER NOT NULL
    )
    """,
    _NODES,
    "CREATE TABLE agreed (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Transactions are counted, and the mark beside the file remembers the number (see mark.py), so
    # that a file which lost some of them is not taken for an older one.
    "CREATE TABLE progress (store TEXT NOT NULL, commits INTEGER NOT NULL)",
)

_UNWRITABLE: Final = "it cannot be written; check the rights on it and on its folder"

#: What makes a file of a version one of the next.
_MIGRATIONS: Final = {1: ("ALTER TABLE leases DROP COLUMN address", _NODES)}


def open_database(
    path: Path,
    connect: Connect = sqlite3.connect,
    *,
    mark: Mark | None = None,
    accept_loss: bool = False,
) -> sqlite3.Connection:
    """Return a connection to the file, which is created if there is none.

    Raises `StoreError`, and leaves the file as it is, when the file is another program's, has
    another schema, is damaged, or is behind its mark, unless that is accepted.
    """
    mark = mark or Mark(mark_path(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_writable(path)
        _inspect(path, mark, connect, accept_loss=accept_loss)
        connection = connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    except OSError as error:
        raise StoreError(f"cannot make the folder {path.parent}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise explain(path, error) from error
    try:
        _configure(path, connection)
        _create_tables(path, connection)
        if accept_loss:
            _part_from_the_past(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise explain(path, error) from error
        raise
    return connection


def _require_writable(path: Path) -> None:
    """Refuse files that may not be written, before SQLite opens one.

    It would make the file's index with the same rights, and leave it behind, so that the store
    could not be written when these have been put right.
    """
    for each in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        # Another process may delete its log between the two questions, so they are asked again.
        if _is_read_only(each) and _is_read_only(each):
            raise StoreError(f"{each}: {_UNWRITABLE}")


def _is_read_only(path: Path) -> bool:
    return path.exists() and not os.access(path, os.W_OK)


def _inspect(path: Path, mark: Mark, connect: Connect, *, accept_loss: bool) -> None:
    """Check a file without changing it.

    The last connection to close a writable file empties the log into it, but the log of a refused
    store must stay as it is, for a rescue.
    """
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file for the store")
    marked = None if accept_loss else mark.read()
    if not path.exists() or not path.stat().st_size:
        if marked is not None:
            raise StoreError(
                f"{path} is {'empty' if path.exists() else 'gone'}, but {marked.commits} "
                f"transactions were acknowledged{_WAY_ON}"
            )
        return
    reader = connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
    try:
        _refuse_other_files(path, reader)
        _refuse_strangers(path, reader)
        _refuse_damage(path, reader)
        if marked is not None:
            _refuse_loss(path, reader, marked)
    finally:
        reader.close()


def _refuse_loss(path: Path, connection: sqlite3.Connection, marked: Progress) -> None:
    # A file without tables was created by a process that was killed at once.
    has_tables = _number(connection, "user_version") > 0
    found = read_progress(connection) if has_tables else Progress(marked.store, 0)
    if found.store != marked.store:
        raise StoreError(
            f"{path} is not the store that was last used here, or accepting its loss was"
            f" interrupted{_WAY_ON}"
        )
    if found.commits < marked.commits:
        raise StoreError(
            f"{path} has lost what was acknowledged: it ends with transaction {found.commits}, and "
            f"there were {marked.commits}. It may be damaged, or an older copy{_WAY_ON}"
        )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    assert isinstance(value, int)
    return value


def _refuse_other_files(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse what never was a store: no database, by its first bytes, and without a mark."""
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        is_one = getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB
        if is_one or mark_path(path).exists() or _begins_as_one(path):
            raise
        raise StoreError(
            f"{path} is not a database, and Coterie leaves it alone: name another file for the"
            " store, or restore a backup if it was one"
        ) from error


def _begins_as_one(path: Path) -> bool:
    # Closing a file drops all locks that the process has on it, but nobody can have this one open.
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def _refuse_strangers(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return
    if _number(connection, "application_id") != APPLICATION_ID:
        raise StoreError(
            f"{path} is a database of another program, which Coterie leaves alone: name another "
            f"file for the store"
        )
    version = _number(connection, "user_version")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a later version of Coterie (schema {version}; this one reads "
            f"{SCHEMA_VERSION}): start that version, or name another file for the store"
        )


def _refuse_damage(path: Path, connection: sqlite3.Connection) -> None:
    # Reads the whole file: about a millisecond for each megabyte, and for each thousand records.
    try:
        check_pages(connection)
        if _number(connection, "user_version") > 0:  # or it has no tables yet
            # A record whose shard or key was changed may be where no reading of a shard comes by.
            check_records(connection)
    except Damage as error:
        raise StoreError(damaged(path, str(error))) from error


def _configure(path: Path, connection: sqlite3.Connection) -> None:
    # SQLite does not wait here if another process is doing the same.
    (mode,) = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
    if mode != "wal":
        raise StoreError(
            f"{path} cannot be given a write-ahead log: put the store on a local disk, as network "
            f"file systems do not support one"
        )
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS, only this makes the disk itself write; elsewhere it means nothing.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_MAX}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def _create_tables(path: Path, connection: sqlite3.Connection) -> None:
    # First without a lock, because a file that has them need not wait for its writers.
    if _number(connection, "user_version") == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have brought it up to date meanwhile, and further.
        _refuse_strangers(path, connection)
        version = _number(connection, "user_version")
        if version:
            for earlier in range(version, SCHEMA_VERSION):
                for change in _MIGRATIONS[earlier]:
                    connection.execute(change)
        else:
            for table in _TABLES:
                connection.execute(table)
            connection.execute("INSERT INTO progress VALUES (?, 0)", (uuid.uuid4().hex,))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _part_from_the_past(connection: sqlite3.Connection) -> None:
    """Give the store a new identity, before anything else is written.

    Its transactions are counted on from what is left.  Under the old identity they would soon pass
    the mark, so that a loss would look accepted though accepting it was interrupted; and files from
    before the loss, put back later, would pass for this store's.
    """
    connection.execute("UPDATE progress SET store = ?", (uuid.uuid4().hex,))


def explain(path: Path, error: sqlite3.Error) -> StoreError:
    """Return an error that says what SQLite's error means for the file, and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    match None if code is None else code & 0xFF:  # the rest of the code says where it happened
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(damaged(path, str(error)))
        case sqlite3.SQLITE_FULL:
            why = "the disk is full; make room on it"
        case sqlite3.SQLITE_IOERR:
            why = "the disk reports an error, or is full; check it, and the system's log"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            why = _UNWRITABLE
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = f"another program has kept it locked for {BUSY_TIMEOUT_S:.0f} seconds; end that"
        case _:
            why = "SQLite refused"
    return StoreError(f"{path}: {why} ({error}, {name})")
