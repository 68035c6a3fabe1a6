"""Notices when the file of an open store is deleted, replaced, or written to without SQLite.

A process keeps a deleted file open, and SQLite keeps its pages in memory: both go on as if nothing
had happened, and everything they write is lost when the process ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, NoReturn

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import StoreError
from coterie_server.storage.busy import begin
from coterie_server.storage.damage import Damage, check_pages, check_records, damaged
from coterie_server.storage.mark import Progress

__all__ = ["Guard", "read_progress"]

_log = get_logger(__name__)

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

#: For how long after a commit of another process it may copy the log into the file, as SQLite does
#: after some commits, and nothing tells whose writes these are.
_COPIED_WITHIN_S: Final = 0.25
#: More transactions than there can have been.
_NO_COUNT: Final = 1 << 62
#: How long files that could not be compared are left alone before that is tried again.
_TRY_AGAIN_S: Final = 1.0


class _Seen(NamedTuple):
    """What the file system says of a file: which one it is, and when it was written to."""

    device: int
    inode: int
    size: int
    written_ns: int


_Look = tuple[_Seen | None, _Seen | None]
"""What is seen of the file and of its log; None for one that is not there."""


class _KeptFiles:
    """What guards have opened, kept open until the process has the database open no more.

    Closing a file drops all POSIX locks that the process has on it, SQLite's included, also those
    of another store in the process, as when several nodes run in it.  The next program to close the
    database would think itself the last, and delete the log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: Counter[tuple[int, int]] = Counter()
        self._left: defaultdict[tuple[int, int], list[IO[bytes]]] = defaultdict(list)

    def join(self, database: _Seen | None) -> None:
        """A guard watches a database, which is open."""
        if database is not None:
            with self._lock:
                self._users[database[:2]] += 1

    def leave(self, database: _Seen | None, files: Sequence[IO[bytes]]) -> None:
        """A guard watches it no more, and has opened these files."""
        if database is not None:
            with self._lock:
                self._users[database[:2]] -= 1
                self._left[database[:2]] += files
                if self._users[database[:2]]:
                    return
                del self._users[database[:2]]
                files = self._left.pop(database[:2])
        for file in files:
            file.close()


_kept_files: Final = _KeptFiles()


class Guard:
    """Watches the files of an open store; it belongs to the thread that writes to them.

    It knows what the files looked like after this process last had the right to write, and looks
    before it writes again: what has changed between is another's doing.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        # SQLite keeps its log beside the file itself, not beside a symbolic link to it.
        self._path = path.resolve()
        self._files = (str(self._path), f"{self._path}-wal")
        self._kept_open: dict[str, IO[bytes]] = {}
        self._connection = connection
        self._version = self._data_version()
        self._opened = self._look()
        # The index of the log is in memory that all who have the database open share by this file:
        # those who open it later would get another one, and write over what these have written.
        self._index = f"{self._path}-shm"
        self._opened_index = _stat(self._index)
        _kept_files.join(self._opened[0])
        self._seen = self._opened
        # When another process was last seen to have committed.
        self._joined_at = -math.inf
        self._error: StoreError | None = None
        # Why the files could not be compared when that was last tried, and when.
        self._unchecked: StoreError | None = None
        self._tried_at = -math.inf

    def refuse_distrusted(self) -> None:
        """Raise `StoreError` if a check has done so for good; the files are not looked at."""
        if self._error is not None:
            raise StoreError(str(self._error))

    def check(self) -> None:
        """Raise `StoreError` if the files are not as this process left them, and ever after."""
        self.refuse_distrusted()
        if not self._is_changed():
            return
        has_begun = self._connection.in_transaction
        # Without the right to write, it may be another process's commit that is not finished.
        with self._alone():
            if self._is_changed():
                self._inspect(-1 if has_begun else 0)  # a transaction has counted itself

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Check the files, then let this process write to them, which has the right to.

        Raises `StoreError` if what was written went to a deleted file.  What a write has left of
        itself is this process's own, though it failed.
        """
        self.check()
        try:
            yield
        finally:
            self._seen = self._look()
            self._check_identities(self._seen)

    def close(self) -> None:
        """Close the files; call it only after the database is closed."""
        files, self._kept_open = [*self._kept_open.values()], {}
        _kept_files.leave(self._opened[0], files)

    def _look(self) -> _Look:
        file, log = self._files
        return _stat(file), _stat(log)

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        assert isinstance(version, int)
        return version

    def _is_changed(self) -> bool:
        """Whether a file was written to, and no other process's commit explains it."""
        # Before the files are looked at: a commit that comes between the two is told next time.
        version = self._data_version()
        seen, has_joined = self._look(), version != self._version
        if has_joined:
            self._version, self._joined_at = version, time.monotonic()
        elif seen == self._seen:
            return False
        self._check_identities(seen)
        if not has_joined and not self._may_be_copied(seen):
            return True
        self._seen = seen
        return False

    def _may_be_copied(self, seen: _Look) -> bool:
        """Whether another process may be amid copying the log into the file, after its commit."""
        is_log_as_before = seen[1] == self._seen[1]
        return is_log_as_before and time.monotonic() - self._joined_at <= _COPIED_WITHIN_S

    def _check_identities(self, seen: _Look) -> None:
        paths, opened = (*self._files, self._index), (*self._opened, self._opened_index)
        for path, before, found in zip(paths, opened, (*seen, _stat(self._index)), strict=True):
            if before is None or (found is not None and found[:2] == before[:2]):
                continue
            what = "was replaced" if found is not None else "is gone"
            self._distrust(
                f"{path} {what} while this node uses it: what is acknowledged from now on would be"
                " lost when the process ends. Stop the node, and see how to recover a store in the"
                " documentation"
            )

    def _inspect(self, correction: int) -> None:
        """Read files again that were written to, though nothing was committed.

        Either a program did it without SQLite, or another node had SQLite copy the log into the
        file, or has not come to the end of a commit.
        """
        if self._unchecked is not None and time.monotonic() - self._tried_at < _TRY_AGAIN_S:
            raise StoreError(str(self._unchecked))
        where = {"path": str(self._path)}
        seen = self._look()
        progress = self._committed(correction)
        found = self._read_anew()
        if found.store != progress.store or found.commits < progress.commits:
            behind = f"its log breaks off at transaction {found.commits} of {progress.commits}"
            self._distrust(damaged(self._path, behind))
        is_shared = self._joined_at > -math.inf
        if seen[1] != self._seen[1] and not is_shared:
            _log.warning("another program wrote to the store's log, and did no damage", **where)
        else:  # as when another node copies the log into the file, or is killed amid a commit
            _log.info("another process wrote to the store, and did no damage", **where)
        self._seen = seen

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
            raise self._not_checked(error.strerror or str(error)) from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE:
                raise self._not_checked(str(error)) from error
            self._distrust(damaged(self._path, str(error)))
        except Damage as error:
            self._distrust(damaged(self._path, str(error)))

    def _not_checked(self, why: str) -> StoreError:
        place = f" in {tempfile.tempdir}" if tempfile.tempdir else ""  # else there is no folder
        self._tried_at = time.monotonic()
        self._unchecked = StoreError(
            f"{self._path} was written to by another program, and a copy of it can't be checked"
            f"{place}: {why}"
        )
        return self._unchecked

    def _copy(self, path: str, to: Path) -> None:
        """Copy a file, and keep it open from then on, as `_KeptFiles` explains."""
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
        check_pages(connection)
        check_records(connection)
        return read_progress(connection)
    finally:
        connection.close()


def read_progress(connection: sqlite3.Connection) -> Progress:
    """Read which store a database is, and how far it has come."""
    row = connection.execute("SELECT store, commits FROM progress").fetchone()
    store, commits = row or (None, None)
    if not isinstance(store, str) or not isinstance(commits, int) or not 0 <= commits < _NO_COUNT:
        raise Damage("it does not say how far it has come")
    return Progress(store, commits)
