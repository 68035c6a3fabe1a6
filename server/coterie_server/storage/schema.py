"""The SQLite file: opening, checking and migrating it."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from coterie_server.storage.abc import StoreError
from coterie_server.storage.damage import checksum, damaged
from coterie_server.storage.guard import read_progress
from coterie_server.storage.mark import Mark, Progress, mark_path

__all__ = ["APPLICATION_ID", "MIGRATIONS", "Connect", "Migration", "explain", "open_database"]

Connect = Callable[..., sqlite3.Connection]
"""`sqlite3.connect`, or a function with the same parameters."""

Migration = Callable[[sqlite3.Connection], None]
"""Takes the schema from the version of its place in the list to the next one."""

APPLICATION_ID: Final = 0x436F5465  # "CoTe": tells our files from other programs'

BUSY_TIMEOUT_S: Final = 5.0  # other processes write for milliseconds; this long is a hang

CACHE_KIB: Final = 16_384

_WAY_ON: Final = (
    ": keep a copy of it and of its -wal and -mark files, then restore a backup; or, if what is"
    " missing may be lost, start once with --accept-data-loss. The documentation says more under"
    ' "Recover a store"'
)
# SQLite copies the log into the file after every 4 MB, and then overwrites it from the front, which
# is cheaper to make durable than letting it grow. Copying more or less often was no better, by
# measurements with groups of 1 to 1000 records. Only a log that a stalled reader made grow beyond
# this limit is cut off.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024


def _version_1(connection: sqlite3.Connection) -> None:
    # Rows are found by shard and key only, so they are kept in that order and nothing else is.
    connection.execute(
        "CREATE TABLE records ("
        " shard INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
        " PRIMARY KEY (shard, key)) WITHOUT ROWID"
    )
    # A shard that was given up keeps its row, with the owner empty, because epochs never go back.
    connection.execute(
        "CREATE TABLE leases ("
        " shard INTEGER NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL,"
        " owner TEXT NOT NULL, address TEXT NOT NULL, expires_ms INTEGER NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE agreed (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
    )


def _version_2(_connection: sqlite3.Connection) -> None:
    """Change nothing in the file; what is in the records changes, and older versions must not try.

    Offsets are kept many to a record from here on.  Those that were kept one to a record are read
    as well, and move when they are next committed.
    """


def _version_3(connection: sqlite3.Connection) -> None:
    # A file that lost something must not be taken for an older one: each record has a checksum, and
    # each transaction counts; the mark beside the file remembers the number (see mark.py). And rows
    # of groups say more from here on.
    connection.create_function("checksum", 3, checksum, deterministic=True)
    connection.execute("ALTER TABLE records ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE records SET checksum = checksum(shard, key, value)")
    connection.execute("CREATE TABLE progress (store TEXT NOT NULL, commits INTEGER NOT NULL)")
    connection.execute("INSERT INTO progress VALUES (?, 0)", (uuid.uuid4().hex,))


def _version_4(_connection: sqlite3.Connection) -> None:
    """Change nothing in the file; shards say from here on when they last deleted offsets."""


MIGRATIONS: Final[Sequence[Migration]] = (_version_1, _version_2, _version_3, _version_4)
#: From this version on a store says how far it has come.
_COUNTS_FROM: Final = 3


def open_database(
    path: Path,
    connect: Connect = sqlite3.connect,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    mark: Mark | None = None,
    accept_loss: bool = False,
) -> sqlite3.Connection:
    """Return a connection to the file, which is made or migrated if need be.

    Raises `StoreError`, and leaves the file as it is, when the file is another program's, was
    written by a newer Coterie, is damaged, or is behind its mark, unless that is accepted.
    """
    mark = mark or Mark(mark_path(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _inspect(path, mark, connect, newest=len(migrations), accept_loss=accept_loss)
        connection = connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    except OSError as error:
        raise StoreError(f"cannot make the folder {path.parent}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise explain(path, error) from error
    try:
        _configure(path, connection)
        _migrate(connection, migrations)
        if accept_loss:
            _part_from_the_past(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise explain(path, error) from error
        raise
    return connection


def _inspect(path: Path, mark: Mark, connect: Connect, *, newest: int, accept_loss: bool) -> None:
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
    reader = connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
    try:
        _refuse_strangers(path, reader, newest)
        _refuse_damage(path, reader)
        if marked is not None:
            _refuse_loss(path, reader, marked)
    finally:
        reader.close()


def _refuse_loss(path: Path, connection: sqlite3.Connection, marked: Progress) -> None:
    counts = _number(connection, "user_version") >= _COUNTS_FROM
    found = read_progress(connection) if counts else Progress(marked.store, 0)
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


def _refuse_strangers(path: Path, connection: sqlite3.Connection, newest: int) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return
    if _number(connection, "application_id") != APPLICATION_ID:
        raise StoreError(
            f"{path} is a database of another program, which Coterie leaves alone: name another "
            f"file for the store"
        )
    version = _number(connection, "user_version")
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer Coterie (schema {version}; this one knows them up to "
            f"{newest}): start that Coterie, or name another file for the store"
        )


def _refuse_damage(path: Path, connection: sqlite3.Connection) -> None:
    # Reads the whole file: about a millisecond for each megabyte.
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(damaged(path, found.splitlines()[-1]))


def _configure(path: Path, connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
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


def _migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    # First without a lock, because an up-to-date file need not wait for its writers.
    if _number(connection, "user_version") == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[_number(connection, "user_version") :]:
            migration(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
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
            why = "the disk reports an error; check it, and the system's log"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            why = "it cannot be written; check the rights on it and on its folder"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = f"another program has kept it locked for {BUSY_TIMEOUT_S:.0f} seconds; end that"
        case _:
            why = "SQLite refused"
    return StoreError(f"{path}: {why} ({error}, {name})")
