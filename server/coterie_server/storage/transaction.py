"""One transaction of the SQLite store, which holds the work of many calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeVar

from coterie_server.storage.abc import (
    Fence,
    FencedError,
    KeptRecord,
    Lease,
    NodeEntry,
    Record,
    StoreError,
    Survey,
    how_held,
    left_ms,
)
from coterie_server.storage.agreed import NO_NUMBER_OF_FILES, number_of_files
from coterie_server.storage.busy import begin
from coterie_server.storage.damage import Damage, check_record, checksum
from coterie_server.storage.mark import Progress

__all__ = [
    "FILES",
    "Broken",
    "Transaction",
    "read_agreed",
    "read_files",
    "read_records",
    "read_survey",
]

#: The name under which a store keeps the number of its files.
FILES: Final = "files"
#: With how many of its files a store knows which ones they are.
_FILES_AND_PARTS: Final = (
    "SELECT (SELECT value FROM agreed WHERE name = ?),"
    " (SELECT COUNT(*) FROM agreed WHERE name LIKE 'part %')"
)

_LEASE: Final = "SELECT shard, epoch, owner, expires_ms FROM leases"
_READ: Final = "SELECT key, value, checksum FROM records WHERE shard = ?"
_SET_LEASE: Final = (
    "INSERT OR REPLACE INTO leases (shard, epoch, owner, expires_ms) VALUES (?, ?, ?, ?)"
)
_KEEP: Final = (
    "INSERT INTO records (shard, key, value, checksum) VALUES {}"
    " ON CONFLICT (shard, key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)
#: Counts the transaction, and reads the epochs of all held shards, in one statement.
_COUNT: Final = (
    "UPDATE progress SET commits = commits + 1 RETURNING store, commits,"
    " (SELECT group_concat(shard || ':' || epoch) FROM leases WHERE owner <> '')"
)
_DROP: Final = "DELETE FROM records WHERE shard = ? AND key IN ({})"
#: For how long a node is listed that has not withdrawn, as it was killed.  Those within programs
#: have another name each time.
_FORGOTTEN_MS: Final = 24 * 3600 * 1000
#: How many records a statement writes, of whatever shards.  Each statement releases Python's lock
#: and may wait 5 ms to get it back from a busy event loop, so one for each record would be far too
#: slow.  Every SQLite takes 999 parameters; a record needs four.
_ROWS: Final = (240, 64, 16, 4, 1)

T = TypeVar("T")


Broken = Mapping[int, tuple[int, str]]
"""The shards to which an append failed, each with the epoch that it was under, and the reason."""


class Transaction:
    """A transaction that is being put together.

    Appended records are gathered and written when it ends; of several values for a key, only the
    last is.  Leases are written at once.  Epochs that are `broken` take no more appends.
    """

    def __init__(self, connection: sqlite3.Connection, broken: Broken) -> None:
        self._connection = connection
        self._broken = broken
        self._changes: dict[int, dict[bytes, bytes | None]] = {}
        # Takes the right to write at once, so that the epochs read here hold until the end.
        begin(connection)
        store, commits, epochs = connection.execute(_COUNT).fetchone()
        self._progress = Progress(store, commits)
        self._held_epochs = _epochs(epochs or "")

    def write(self) -> None:
        """Write what was gathered, which is not durable yet."""
        # In key order, neighbours are written while their page is at hand.
        kept = sorted(
            (shard, key, value, checksum(shard, key, value))
            for shard, changes in self._changes.items()
            for key, value in changes.items()
            if value is not None
        )
        for rows in _parts(kept):
            self._connection.execute(_keep(len(rows)), tuple(chain.from_iterable(rows)))
        for shard, changes in self._changes.items():
            dropped = sorted(key for key, value in changes.items() if value is None)
            for keys in _parts(dropped):
                self._connection.execute(_drop(len(keys)), (shard, *keys))

    def commit(self) -> Progress:
        """Make durable what was written, and return how far the store has come."""
        self._connection.execute("COMMIT")
        return self._progress

    def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Gather the records of one append, or refuse all of them."""
        shard, epoch = lease.shard, lease.fence.epoch
        if self._held_epochs.get(shard) != epoch:
            raise FencedError(shard, lease.fence, how_held(shard, self._holder(shard)))
        broken, failure = self._broken.get(shard, (None, ""))
        if broken == epoch:
            raise StoreError(
                f"shard {shard} takes no appends until it is claimed again, because an earlier one "
                f"failed: {failure}"
            )
        changes = dict(records)  # all of them, or none if there is an error among them
        if (before := self._changes.setdefault(shard, changes)) is not changes:
            before.update(changes)

    def claim(self, shards: Iterable[int], owner: str, now_ms: int, ttl_ms: int) -> list[Lease]:
        """Write leases with the next epochs, but where another owner's is valid."""
        return [
            self._set(Lease(shard, Fence(0, epoch), owner, ttl_ms), now_ms + ttl_ms)
            for shard in shards
            if (epoch := self._free_epoch(shard, owner, now_ms)) is not None
        ]

    def _free_epoch(self, shard: int, owner: str, now_ms: int) -> int | None:
        """The epoch under which an owner can claim a shard; None if it can't."""
        query = self._connection.execute(f"{_LEASE} WHERE shard = ?", (shard,))
        _, epoch, holder, expires_ms = query.fetchone() or (shard, 0, "", 0)
        is_held = holder not in ("", owner) and left_ms(expires_ms, now_ms) > 0
        return None if is_held else epoch + 1

    def list_node(self, owner: str, note: bytes, now_ms: int, ttl_ms: int) -> None:
        """List a node, with what it says of itself."""
        self._connection.execute(
            "INSERT OR REPLACE INTO nodes (owner, note, expires_ms) VALUES (?, ?, ?)",
            (owner, note, now_ms + ttl_ms),
        )
        self._connection.execute(
            "DELETE FROM nodes WHERE expires_ms < ?", (now_ms - _FORGOTTEN_MS,)
        )

    def extend(self, owner: str, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Extend those of a node's leases that are still held."""
        return [
            self._set(Lease(lease.shard, lease.fence, owner, ttl_ms), now_ms + ttl_ms)
            for lease in leases
            if self._held_epochs.get(lease.shard) == lease.fence.epoch
        ]

    def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        self._connection.execute("DELETE FROM nodes WHERE owner = ?", (owner,))

    def release(self, leases: Iterable[Lease]) -> None:
        """Take the owner from shards, where the leases are still held."""
        for lease in leases:
            if self._held_epochs.get(lease.shard) == lease.fence.epoch:
                self._set(Lease(lease.shard, lease.fence, "", 0), 0)

    def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, after storing this one if there was none."""
        self._connection.execute("INSERT OR IGNORE INTO agreed VALUES (?, ?)", (name, value))
        query = self._connection.execute("SELECT value FROM agreed WHERE name = ?", (name,))
        (agreed,) = query.fetchone()
        assert isinstance(agreed, str)
        return agreed

    def agree_on_files(self, wanted: int) -> int:
        """Return of how many files the store consists, after settling that if it is new."""
        known = read_files(self._connection)
        if known is not None:
            return known
        (begun,) = self._connection.execute("SELECT COUNT(*) FROM agreed").fetchone()
        return number_of_files(self.agree(FILES, "1" if begun else str(wanted)))

    def replace_agreed(self, name: str, value: str) -> None:
        """Store a value under a name, whatever it was before."""
        self._connection.execute("INSERT OR REPLACE INTO agreed VALUES (?, ?)", (name, value))

    def _holder(self, shard: int) -> Lease | None:
        query = self._connection.execute(f"{_LEASE} WHERE shard = ? AND owner <> ''", (shard,))
        row = query.fetchone()
        return _lease(row, 0) if row else None

    def _set(self, lease: Lease, expires_ms: int) -> Lease:
        row = (lease.shard, lease.fence.epoch, lease.owner, expires_ms)
        self._connection.execute(_SET_LEASE, row)
        if lease.owner:
            self._held_epochs[lease.shard] = lease.fence.epoch
        else:
            self._held_epochs.pop(lease.shard, None)
        return lease


def _epochs(text: str) -> dict[int, int]:
    """The epoch of each held shard."""
    pairs = (entry.split(":") for entry in text.split(",") if entry)
    return {int(shard): int(epoch) for shard, epoch in pairs}


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut items into parts of a few sizes, so that few different statements are prepared."""
    start = 0
    for rows in _ROWS:
        while len(items) - start >= rows:
            yield items[start : start + rows]
            start += rows


@cache
def _keep(rows: int) -> str:
    return _KEEP.format(", ".join(["(?, ?, ?, ?)"] * rows))


@cache
def _drop(rows: int) -> str:
    return _DROP.format(", ".join("?" * rows))


def _lease(row: tuple[int, int, str, int], now_ms: int) -> Lease:
    shard, epoch, owner, expires_ms = row
    return Lease(shard, Fence(0, epoch), owner, left_ms(expires_ms, now_ms), str(expires_ms))


def read_agreed(connection: sqlite3.Connection, name: str) -> str | None:
    """Return what is agreed under a name; None if nothing is."""
    query = connection.execute("SELECT value FROM agreed WHERE name = ?", (name,))
    row = query.fetchone()
    return None if row is None else str(row[0])


def read_files(connection: sqlite3.Connection) -> int | None:
    """Return of how many files the store consists; None if that is not settled.

    Raises `Damage` if it is said to be fewer than there were: what is in the others would pass for
    gone, and they would be written over when the store is divided.
    """
    # By one statement, as another process may be dividing it.
    text, parts = connection.execute(_FILES_AND_PARTS, (FILES,)).fetchone()
    if text is None and not parts:
        return None
    files = number_of_files(str(text))
    if files < parts:
        raise Damage(NO_NUMBER_OF_FILES)
    return files


def read_survey(connection: sqlite3.Connection, now_ms: int) -> Survey:
    """Return the nodes that are listed, and the lease of each shard that has an owner."""
    nodes = connection.execute("SELECT owner, note, expires_ms FROM nodes ORDER BY owner")
    leases = connection.execute(f"{_LEASE} WHERE owner <> '' ORDER BY shard")
    return Survey(
        tuple(
            NodeEntry(owner, note, left_ms(expires_ms, now_ms), str(expires_ms))
            for owner, note, expires_ms in nodes
        ),
        tuple(_lease(row, now_ms) for row in leases),
    )


def read_records(
    connection: sqlite3.Connection, shard: int, after: bytes | None, limit: int
) -> list[KeptRecord]:
    """Return the next records of a shard in key order, after a key or from the first one on.

    Raises `Damage` if one of them is not what was written.
    """
    if after is None:
        rows = connection.execute(f"{_READ} ORDER BY key LIMIT ?", (shard, limit)).fetchall()
    else:
        rows = connection.execute(
            f"{_READ} AND key > ? ORDER BY key LIMIT ?", (shard, after, limit)
        ).fetchall()
    for key, value, check in rows:
        check_record(shard, key, value, check)
    return [(key, value) for key, value, _ in rows]
