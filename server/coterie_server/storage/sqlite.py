"""A store in one SQLite file, written by one thread, with many appends to each commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    KeptRecord,
    Lease,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
    Survey,
    wall_ms,
)
from coterie_server.storage.lock import FileLock, HeldError, locks_of_names, remove_stale
from coterie_server.storage.schema import Connect
from coterie_server.storage.transaction import (
    Transaction,
    read_agreed,
    read_files,
    read_records,
    read_survey,
)
from coterie_server.storage.writer_thread import WriterThread

__all__ = ["SqliteStore"]

#: How often it is tried to take a name, and how long after another process was found to hold it:
#: that may be one which removes what dead processes have left, and holds each file for a moment,
#: which is long on a busy machine.
_ATTEMPTS: Final = 100
_NEXT_ATTEMPT_S: Final = 0.02


class SqliteStore(Store):
    """Keeps everything in a file with a write-ahead log beside it.

    Appends that wait at the same time share one transaction and one write to the disk.  Several
    processes of one machine may open the file; their leases say which shards each may write.

    With `accept_loss`, a file is opened even if it is behind what was acknowledged.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        connect: Connect = sqlite3.connect,
        accept_loss: bool = False,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._path = Path(path).absolute()
        self._connect = connect
        self._accept_loss = accept_loss
        # All users of a file are on one machine, so its clock is the store's.
        self._now_ms = now_ms
        self._writer: WriterThread | None = None
        self._closing: WriterThread | None = None
        self._names: list[FileLock] = []

    @property
    def url(self) -> str:
        """What the store is, for logs."""
        return f"sqlite:{self._path}"

    async def open(self) -> None:
        """Open the file, which is created if need be."""
        if self._writer is None:
            writer = WriterThread(self._path, self._connect, accept_loss=self._accept_loss)
            await writer.start()
            self._writer = writer

    async def close(self) -> None:
        """Finish what was begun and close the file."""
        # A close that is cancelled is finished by the next one.
        writer = self._closing = self._closing or self._writer
        self._writer = None
        if writer is not None:
            await writer.stop()
            self._closing = None
        names, self._names = self._names, []
        for name in names:
            name.release(delete=True)

    async def accept_loss(self) -> None:
        """Begin the mark anew at what the store holds."""
        await self._opened().accept_loss()

    def way_givers(self) -> Sequence[Callable[[], None]]:
        """What lets the thread that writes go on."""
        return () if self._writer is None else (self._writer.give_way,)

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for this process for as long as the store is open.

        The lock is given up by the end of its process, so there is nothing to wait for.
        """
        del ttl_ms
        self._opened()
        file = self._path.resolve()  # the name must be taken for users of other links, too
        path = file.with_name(f"{file.name}-{owner}.lock")
        try:
            self._names.append(await _taken(path))
        except HeldError as error:
            raise OwnerTakenError(self.url, owner, f"process {error.holder}") from None
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error.strerror}") from error
        remove_stale(each for each in locks_of_names(file).values() if each != path)

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now."""
        held = tuple(leases)

        def renew(transaction: Transaction) -> list[Lease]:
            transaction.list_node(owner, note, self._now_ms(), ttl_ms)
            return transaction.extend(owner, held, self._now_ms(), ttl_ms)

        return await self._opened().write(renew)

    async def extend(self, owner: str, leases: Iterable[Lease], ttl_ms: int) -> list[Lease]:
        """Keep a node's leases held for `ttl_ms` from now, as `renew` does."""
        held = tuple(leases)
        return await self._opened().write(
            lambda transaction: transaction.extend(owner, held, self._now_ms(), ttl_ms)
        )

    async def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        await self._opened().write(lambda transaction: transaction.withdraw(owner))

    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard."""
        return await self._opened().read(lambda connection: read_survey(connection, self._now_ms()))

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid."""
        wanted = tuple(shards)
        return await self._opened().write(
            lambda transaction: transaction.claim(wanted, owner, self._now_ms(), ttl_ms)
        )

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once."""
        given = tuple(leases)
        await self._opened().write(lambda transaction: transaction.release(given))

    async def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records.

        Other shards can be written to between two chunks.
        """
        after: bytes | None = None
        while True:
            chunk = await self._opened().read(
                lambda connection, after=after: read_records(  # type: ignore[misc]
                    connection, shard, after, chunk_records
                )
            )
            if chunk:
                yield chunk
            if len(chunk) < chunk_records:
                return
            after = chunk[-1][0]

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns."""
        await self._opened().write(
            lambda transaction: transaction.append(lease, records), appends_under=lease
        )

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        known = await self._opened().read(lambda connection: read_agreed(connection, name))
        if known is not None:
            return known
        return await self._opened().write(lambda transaction: transaction.agree(name, value))

    async def agree_on_files(self, wanted: int) -> int:
        """Return of how many files the store consists, after settling that if it is new."""
        known = await self._opened().read(read_files)
        if known is not None:
            return known
        return await self._opened().write(lambda transaction: transaction.agree_on_files(wanted))

    async def count_files(self) -> int:
        """Return of how many files the store consists, by a transaction, which others notice."""
        return await self._opened().write(lambda transaction: transaction.agree_on_files(1))

    async def replace_agreed(self, name: str, value: str) -> None:
        """Store a value under a name, whatever was agreed before."""
        await self._opened().write(lambda transaction: transaction.replace_agreed(name, value))

    def _opened(self) -> WriterThread:
        if self._writer is None:
            raise StoreError(f"{self.url} is not open")
        return self._writer


async def _taken(path: Path) -> FileLock:
    for _ in range(_ATTEMPTS - 1):
        try:
            return FileLock(path)
        except HeldError:
            await asyncio.sleep(_NEXT_ATTEMPT_S)
    return FileLock(path)
