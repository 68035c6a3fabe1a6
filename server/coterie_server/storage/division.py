"""Divides a store that no process uses into more files than it has.

A node that uses it by the name of its file would go on with the files that there were, so the names
of all nodes are held meanwhile.  One that comes by another name writes to the main file when it has
that: before the new files count, which stops the division, or after, and then it knows of them.

The new files are written first, under names that say how many there are.  Then one transaction of
the main file says that they count, and drops what went into them.  A process that is killed before
that leaves the store as it was, and files that the next attempt replaces.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import StoreError
from coterie_server.storage.damage import Damage, check_records, damaged
from coterie_server.storage.divided import PART, not_its_part, part_name, part_path
from coterie_server.storage.guard import read_progress
from coterie_server.storage.lock import FileLock, HeldError, locks_of_names
from coterie_server.storage.mark import Mark, Progress, mark_path
from coterie_server.storage.schema import explain, open_database
from coterie_server.storage.transaction import FILES, read_agreed, read_files

__all__ = ["divide"]

_log = get_logger(__name__)

_BEGUN = "SELECT COUNT(*) FROM agreed"
_COUNT = "UPDATE progress SET commits = commits + 1"
_SET_AGREED = "INSERT OR REPLACE INTO agreed VALUES (?, ?)"
#: How the rows of a part are read and written.
_COPIES: Final = (
    (
        "SELECT shard, key, value, checksum FROM records WHERE shard >= 0 AND shard % ? = ?",
        "INSERT INTO records (shard, key, value, checksum) VALUES (?, ?, ?, ?)",
    ),
    (
        "SELECT shard, epoch, owner, expires_ms FROM leases WHERE shard >= 0 AND shard % ? = ?",
        "INSERT INTO leases (shard, epoch, owner, expires_ms) VALUES (?, ?, ?, ?)",
    ),
)


def divide(path: Path, files: int) -> None:
    """Divide a store that is in no use into so many files, unless it has as many already.

    A store that is still to be made is left to who opens it.  Raises `StoreError`.
    """
    if files < 2 or not path.exists() or not path.stat().st_size:  # one is the main file alone
        return
    with _explained(path), _opened(path) as main:
        before = read_files(main) or 1
        (begun,) = main.execute(_BEGUN).fetchone()
        if not begun or before >= files:
            return
        _log.info("dividing the store", path=str(path), files=files, files_before=before)
        progress = read_progress(main)  # before names are held, as others may come from then on
        with _names_held(path):
            _divide(path, main, before, files, progress)


@contextlib.contextmanager
def _names_held(path: Path) -> Iterator[None]:
    """Hold the names of all nodes that there were; raise `StoreError` if one of them runs."""
    with contextlib.ExitStack() as held:
        for each in locks_of_names(path.resolve()).values():
            try:
                lock = FileLock(each)
            except HeldError as error:
                raise _in_use(path, f"process {error.holder}") from None
            held.callback(lock.release, delete=True)
        yield


def _in_use(path: Path, by: str) -> StoreError:
    return StoreError(
        f"{path} is in use by {by}, and can't be divided among more workers meanwhile: stop that"
        " first, or start no more workers than the store has files"
    )


def _divide(
    path: Path, main: sqlite3.Connection, before: int, files: int, progress: Progress
) -> None:
    old = range(before) if before > 1 else ()
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(_opened_part(path, main, n, before)) for n in old]
        sources = parts or [main]
        for source in sources:
            check_records(source)
        ids = [_fill(part_path(path, n, files), n, files, sources) for n in range(files)]
    _sync_folder(path.resolve().parent)
    main.execute("BEGIN IMMEDIATE")
    if read_progress(main) != progress:
        raise _in_use(path, "another process")
    main.execute(_COUNT)
    main.execute("DELETE FROM records WHERE shard >= 0")
    main.execute("DELETE FROM leases WHERE shard >= 0")
    main.execute(_SET_AGREED, (FILES, str(files)))
    main.executemany(_SET_AGREED, [(part_name(number), each) for number, each in enumerate(ids)])
    main.execute("COMMIT")
    _write_mark(path, main)
    for number in old:
        _delete(part_path(path, number, before))


@contextlib.contextmanager
def _opened_part(
    path: Path, main: sqlite3.Connection, number: int, files: int
) -> Iterator[sqlite3.Connection]:
    """Open a part of the store as it is, or raise `StoreError` if it is not the right one."""
    part, known = part_path(path, number, files), read_agreed(main, part_name(number))
    stranger = not_its_part(str(part), str(path))
    if known is not None and not part.exists() and not mark_path(part).exists():
        raise stranger
    with _opened(part) as connection:
        if known is not None and read_agreed(connection, PART) != known:
            raise stranger
        yield connection


def _fill(path: Path, number: int, files: int, sources: Iterable[sqlite3.Connection]) -> str:
    """Make a part of what belongs into it, and return its identity."""
    _delete(path)
    identity = uuid.uuid4().hex
    with _opened(path) as part:
        part.execute("BEGIN IMMEDIATE")
        part.execute(_COUNT)
        for source in sources:
            for read, write in _COPIES:
                part.executemany(write, source.execute(read, (files, number)))
        part.execute(_SET_AGREED, (PART, identity))
        part.execute("COMMIT")
        _write_mark(path, part)
    return identity


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(path)) as connection:
        yield connection


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except Damage as error:
        raise StoreError(damaged(path, str(error))) from error
    except OSError as error:
        raise StoreError(f"{path} can't be divided: {error.strerror}") from error


def _write_mark(path: Path, connection: sqlite3.Connection) -> None:
    with closing(Mark(mark_path(path))) as mark:
        mark.write(read_progress(connection))


def _delete(path: Path) -> None:
    """Delete a file of a store, with all that belongs to it."""
    for each in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "-mark"))):
        each.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
