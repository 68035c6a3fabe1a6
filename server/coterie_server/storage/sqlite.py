"""A store in one SQLite file, written by one thread, with many appends to each commit."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    KeptRecord,
    Lease,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
)
from coterie_server.storage.lock import FileLock, HeldError
from coterie_server.storage.schema import Connect
from coterie_server.storage.transaction import read_leases, read_records
from coterie_server.storage.writer_thread import WriterThread

__all__ = ["SqliteStore"]


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
    ) -> None:
        self._path = Path(path).absolute()
        self._connect = connect
        self._accept_loss = accept_loss
        self._writer: WriterThread | None = None
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
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.stop()
        names, self._names = self._names, []
        for name in names:
            name.release()

    async def accept_loss(self) -> None:
        """Begin the mark anew at what the store holds."""
        await self._opened().accept_loss()

    async def reserve(self, owner: str) -> None:
        """Reserve a name for this process for as long as the store is open."""
        self._opened()
        file = self._path.resolve()  # the name must be taken for users of other links, too
        path = file.with_name(f"{file.name}-{owner}.lock")
        try:
            self._names.append(FileLock(path))
        except HeldError as error:
            raise OwnerTakenError(self.url, owner, f"process {error.holder}") from None
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error.strerror}") from error

    async def claim(
        self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int
    ) -> Lease | None:
        """Take a shard for `ttl_ms`; None while another owner's lease on it is valid."""
        return await self._opened().write(
            lambda transaction: transaction.claim(shard, owner, address, now_ms, ttl_ms)
        )

    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Extend leases to `ttl_ms` from now; return those still held, with their new end."""
        held = tuple(leases)
        return await self._opened().write(
            lambda transaction: transaction.renew(held, now_ms, ttl_ms)
        )

    async def release(self, lease: Lease) -> None:
        """Give a shard up, so that any node can claim it at once."""
        await self._opened().write(lambda transaction: transaction.release(lease))

    async def leases(self) -> list[Lease]:
        """Return the lease of each shard that has one, by shard, whether expired or not."""
        return await self._opened().read(read_leases)

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
                ),
                mends=shard if after is None else None,
            )
            if chunk:
                yield chunk
            if len(chunk) < chunk_records:
                return
            after = chunk[-1][0]

    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns."""
        unchanging = tuple(records)
        await self._opened().write(
            lambda transaction: transaction.append(shard, epoch, unchanging), appends_to=shard
        )

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        return await self._opened().write(lambda transaction: transaction.agree(name, value))

    def _opened(self) -> WriterThread:
        if self._writer is None:
            raise StoreError(f"{self.url} is not open")
        return self._writer
