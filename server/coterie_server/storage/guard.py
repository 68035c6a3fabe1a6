"""Notices when the file of an open store is deleted, replaced, or written to without SQLite.

A process keeps a deleted file open, and SQLite keeps its pages in memory: both go on as if nothing
had happened, and everything they write is lost when the process ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, NoReturn

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import StoreError
from coterie_server.storage.busy import begin
from coterie_server.storage.damage import Damage, check_records, damaged
from coterie_server.storage.mark import Progress

__all__ = ["Guard", "read_progress"]

_log = get_logger(__name__)

_SUFFIXES: Final = ("", "-wal")

#: What is wrong with the place of the copy, and not with what was copied.
_NO_DAMAGE: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)

#: How often the files are looked at before a write; after each write they are looked at anyway.
_LOOK_EVERY_S: Final = 0.25


class _Seen(NamedTuple):
    """What the file system says of a file: which one it is, and when it was written to."""

    device: int
    inode: int
    size: int
    written_ns: int


class Guard:
    """Watches the files of an open store; it belongs to the thread that writes to them."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        # SQLite keeps its log beside the file itself, not beside a symbolic link to it.
        self._path = path.resolve()
        self._files = tuple(f"{self._path}{suffix}" for suffix in _SUFFIXES)
        self._kept_open: dict[str, IO[bytes]] = {}
        self._connection = connection
        self._opened = self._look()
        self._seen = self._opened
        self._version = self._data_version()
        self._error: StoreError | None = None
        self._looked_at = time.monotonic()

    def check(self) -> None:
        """Raise `StoreError` if the files are not as this process left them, and ever after."""
        if self._error is not None:
            raise StoreError(str(self._error))
        now = time.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        seen = self._look()
        if seen == self._seen:
            return
        self._check_identities(seen)
        version = self._data_version()
        if version == self._version:  # not written through SQLite
            self._inspect(log_changed=seen[-1] != self._seen[-1])
        self._seen, self._version = seen, version

    def wrote(self) -> None:
        """Note a write of this process; raise `StoreError` if it went to a deleted file."""
        self._seen = self._look()
        self._check_identities(self._seen)

    def close(self) -> None:
        """Close the files; call it only after the database is closed."""
        for file in self._kept_open.values():
            file.close()
        self._kept_open.clear()

    def _look(self) -> tuple[_Seen | None, ...]:
        return tuple(_stat(path) for path in self._files)

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        assert isinstance(version, int)
        return version

    def _check_identities(self, seen: tuple[_Seen | None, ...]) -> None:
        for path, before, found in zip(self._files, self._opened, seen, strict=True):
            if before is None or (found is not None and found[:2] == before[:2]):
                continue
            what = "was replaced" if found is not None else "is gone"
            self._distrust(
                f"{path} {what} while this node uses it: what is acknowledged from now on would be"
                " lost when the process ends. Stop the node, and see how to recover a store in the"
                " documentation"
            )

    def _inspect(self, *, log_changed: bool) -> None:
        """Read files again that were written to, though nothing was committed.

        Either a program did it without SQLite, or another node had SQLite copy the log into the
        file.
        """
        where = {"path": str(self._path)}
        begun = self._connection.in_transaction  # which has counted itself
        with self._alone():
            progress = self._committed(-1 if begun else 0)
            found = self._read_anew()
        if found.store != progress.store or found.commits < progress.commits:
            behind = f"its log breaks off at transaction {found.commits} of {progress.commits}"
            self._distrust(damaged(self._path, behind))
        if log_changed:
            _log.warning("another program wrote to the store's log, and did no damage", **where)
        else:  # as when another node has SQLite copy the log into the file
            _log.info("another process wrote to the store's file, and did no damage", **where)

    def _committed(self, correction: int) -> Progress:
        """How far all processes have come together, by what SQLite has in memory."""
        try:
            known = read_progress(self._connection)
        except (sqlite3.DatabaseError, Damage) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE:
                raise
            self._distrust(damaged(self._path, str(error)))
        return Progress(known.store, known.commits + correction)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other users of the database from writing meanwhile."""
        if self._connection.in_transaction:  # which took the right to write when it began
            yield
            return
        begin(self._connection)
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _read_anew(self) -> Progress:
        """How far the store has come by its files, whatever SQLite has in memory."""
        try:
            with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
                for path in self._files:
                    self._copy(path, Path(folder) / Path(path).name)
                return _inspected(Path(folder) / self._path.name)
        except OSError as error:
            raise self._unchecked(error.strerror or str(error)) from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE:
                raise self._unchecked(str(error)) from error
            self._distrust(damaged(self._path, str(error)))
        except Damage as error:
            self._distrust(damaged(self._path, str(error)))

    def _unchecked(self, why: str) -> StoreError:
        return StoreError(
            f"{self._path} was written to by another program, and a copy of it can't be checked in"
            f" {tempfile.gettempdir()}: {why}"
        )

    def _copy(self, path: str, to: Path) -> None:
        """Copy a file, and keep it open from then on.

        Closing a file drops all POSIX locks that the process has on it, SQLite's included.  The
        next program to close the database would think itself the last, and delete the log.
        """
        file = self._kept_open.get(path)
        if file is None:
            file = Path(path).open("rb", buffering=0)  # noqa: SIM115  # `close` does
            self._kept_open[path] = file
        file.seek(0)
        with to.open("wb") as copy:
            shutil.copyfileobj(file, copy)

    def _distrust(self, why: str) -> NoReturn:
        _log.error("the store is no longer trusted", error=why)
        self._error = StoreError(why)
        raise self._error


def _stat(path: str) -> _Seen | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # quick, as it runs twice for each transaction
    except OSError:
        return None
    return _Seen(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _inspected(path: Path) -> Progress:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise Damage(found.splitlines()[-1])
        check_records(connection)
        return read_progress(connection)
    finally:
        connection.close()


def read_progress(connection: sqlite3.Connection) -> Progress:
    """Read which store a database is, and how far it has come."""
    row = connection.execute("SELECT store, commits FROM progress").fetchone()
    if row is None:
        raise Damage("it does not say how far it has come")
    return Progress(*row)
