"""One transaction of the SQLite store, which holds the work of many calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Final, TypeVar

from coterie_server.storage.abc import FencedError, KeptRecord, Lease, Record, StoreError
from coterie_server.storage.damage import check_record, checksum
from coterie_server.storage.mark import Progress

__all__ = ["Transaction", "read_leases", "read_records"]

_LEASE = "SELECT shard, epoch, owner, address, expires_ms FROM leases"
_READ: Final = "SELECT key, value, checksum FROM records WHERE shard = ?"
_SET_LEASE = (
    "INSERT OR REPLACE INTO leases (shard, epoch, owner, address, expires_ms)"
    " VALUES (?, ?, ?, ?, ?)"
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
_DROP: Final = "DELETE FROM records WHERE shard = ?1 AND key IN ({})"
#: How many records a statement writes.  Each statement releases Python's lock and may wait 5 ms to
#: get it back from a busy event loop, so one for each record would be far too slow.  Every SQLite
#: takes 999 parameters; a record needs three.
_ROWS: Final = (256, 64, 16, 4, 1)

T = TypeVar("T")


class Transaction:
    """A transaction that is being put together.

    Appended records are gathered and written when it ends; of several values for a key, only the
    last is.  Leases are written at once.  `broken` has the shards that take no appends until they
    are loaded again, each with the reason.
    """

    def __init__(self, connection: sqlite3.Connection, broken: Mapping[int, str]) -> None:
        self._connection = connection
        self._broken = broken
        self._changes: dict[int, dict[bytes, bytes | None]] = {}
        # Takes the right to write at once, so that the epochs read here hold until the end.
        connection.execute("BEGIN IMMEDIATE")
        store, commits, epochs = connection.execute(_COUNT).fetchone()
        self._progress = Progress(store, commits)
        self._held_epochs = _epochs(epochs or "")

    def end(self) -> Progress:
        """Write what was gathered, make it durable, and return how far the store has come."""
        for shard, changes in self._changes.items():
            # In key order, neighbours are written while their page is at hand.
            kept = sorted(
                (key, value, checksum(shard, key, value))
                for key, value in changes.items()
                if value is not None
            )
            for rows in _parts(kept):
                self._connection.execute(_keep(len(rows)), (shard, *chain.from_iterable(rows)))
            dropped = sorted(key for key, value in changes.items() if value is None)
            for keys in _parts(dropped):
                self._connection.execute(_drop(len(keys)), (shard, *keys))
        self._connection.execute("COMMIT")
        return self._progress

    def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Gather the records of one append, or refuse all of them."""
        if shard in self._broken:
            raise StoreError(
                f"shard {shard} takes no appends until it is loaded again, because an earlier one "
                f"failed: {self._broken[shard]}"
            )
        if self._held_epochs.get(shard) != epoch:
            latest = self._latest(shard)
            raise FencedError(shard, epoch, latest if latest and latest.owner else None)
        self._changes.setdefault(shard, {}).update(records)

    def claim(self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int) -> Lease | None:
        """Write a lease with the next epoch, unless another owner's is valid."""
        latest = self._latest(shard)
        if latest and latest.owner not in ("", owner) and now_ms < latest.expires_ms:
            return None
        epoch = latest.epoch + 1 if latest else 1
        return self._set(Lease(shard, epoch, owner, address, now_ms + ttl_ms))

    def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Extend those of the leases that are still held, and return them."""
        return [
            self._set(replace(lease, expires_ms=now_ms + ttl_ms))
            for lease in leases
            if self._held_epochs.get(lease.shard) == lease.epoch
        ]

    def release(self, lease: Lease) -> None:
        """Take the owner from a shard, if the lease is still held."""
        if self._held_epochs.get(lease.shard) == lease.epoch:
            self._set(replace(lease, owner=""))

    def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, after storing this one if there was none."""
        self._connection.execute("INSERT OR IGNORE INTO agreed VALUES (?, ?)", (name, value))
        query = self._connection.execute("SELECT value FROM agreed WHERE name = ?", (name,))
        (agreed,) = query.fetchone()
        assert isinstance(agreed, str)
        return agreed

    def _latest(self, shard: int) -> Lease | None:
        row = self._connection.execute(f"{_LEASE} WHERE shard = ?", (shard,)).fetchone()
        return Lease(*row) if row else None

    def _set(self, lease: Lease) -> Lease:
        row = (lease.shard, lease.epoch, lease.owner, lease.address, lease.expires_ms)
        self._connection.execute(_SET_LEASE, row)
        if lease.owner:
            self._held_epochs[lease.shard] = lease.epoch
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
    places = ", ".join(
        f"(?1, ?{3 * row + 2}, ?{3 * row + 3}, ?{3 * row + 4})" for row in range(rows)
    )
    return _KEEP.format(places)


@cache
def _drop(rows: int) -> str:
    return _DROP.format(", ".join(f"?{row + 2}" for row in range(rows)))


def read_leases(connection: sqlite3.Connection) -> list[Lease]:
    """Return the lease of each shard that has an owner, by shard."""
    return [Lease(*row) for row in connection.execute(f"{_LEASE} WHERE owner <> '' ORDER BY shard")]


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
