"""The contract of every store.

A store keeps records, which are pairs of bytes, in shards, which are numbers.  It knows nothing of
groups and reads no clock: time comes in as `now_ms`.  Each shard has an epoch, which only grows,
and at most one lease.  A write to a shard carries the epoch of the writer's lease, and the store
refuses epochs that have passed: a node that lost a shard without noticing can't write to it.

CoterieError
├── StoreError      the store could not do it: disk full, file damaged, store closed, ...
│   └── OwnerTakenError   another process uses the same name
└── FencedError     the shard has another epoch now: another node may own it
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from coterie_protocol.exceptions import CoterieError

__all__ = [
    "CHUNK_RECORDS",
    "FencedError",
    "KeptRecord",
    "Lease",
    "OwnerTakenError",
    "Record",
    "Store",
    "StoreError",
]

Record = tuple[bytes, bytes | None]
"""A key and its new value; None deletes the key."""

KeptRecord = tuple[bytes, bytes]
"""A key and its value, as stored."""

CHUNK_RECORDS: Final = 1000
"""How many records `Store.scan` yields at a time unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A node's right to write to a shard until `expires_ms`, and under `epoch` only.

    An expired lease still lets its owner write, until another node claims the shard.
    """

    shard: int
    epoch: int
    owner: str
    address: str
    expires_ms: int

    def __str__(self) -> str:
        return f"shard {self.shard} is held by {self.owner} at {self.address}, epoch {self.epoch}"


class StoreError(CoterieError):
    """The store could not do its work; the text says why, and what helps if that is known."""


class OwnerTakenError(StoreError):
    """Another process that is alive uses the store under the same name."""

    def __init__(self, url: str, owner: str, holder: str) -> None:
        super().__init__(url, owner, holder)
        self.url = url
        self.owner = owner
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"{self.url} is in use as {self.owner} by {self.holder}. Stop that, or give this"
            " process a store of its own or another node.id"
        )


class FencedError(CoterieError):
    """An append under an epoch that is not the shard's; nothing of it was kept.

    `holder` is the lease that the shard is under now; None if it is free.
    """

    def __init__(self, shard: int, epoch: int, holder: Lease | None) -> None:
        super().__init__(shard, epoch, holder)
        self.shard = shard
        self.epoch = epoch
        self.holder = holder

    def __str__(self) -> str:
        now = self.holder or f"no node holds shard {self.shard}"
        return f"epoch {self.epoch} of shard {self.shard} has passed: {now}"


class Store(ABC):
    """Records in shards, and leases on the shards.

    A store belongs to the event loop in which it was opened.  Use it between `open` and `close`, or
    as an async context manager; at other times every method raises `StoreError`.  So it does, with
    the cause, when the disk or database underneath fails.

    Each call takes effect once and completely, and is durable when it returns.  Cancelling a call
    does not take it back: it may or may not have happened.
    """

    #: Whether its content outlives the process.
    is_lasting: bool = True

    @property
    @abstractmethod
    def url(self) -> str:
        """What the store is, for logs and for `open_store`."""

    @abstractmethod
    async def open(self) -> None:
        """Get ready, creating the store if need be.

        A store that is damaged, or was made by another program or another version of Coterie, is
        refused and left as it is.  A closed store can be opened again.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish calls that were begun and close; leases stay until they expire.

        Closing a store that is not open does nothing.
        """

    async def accept_loss(self) -> None:  # noqa: B027  # most stores have nothing to remember
        """Accept for good that the store has lost something that was acknowledged.

        A store that notices such a loss refuses to open.  One that was told to open all the same
        remembers the loss until this is called.
        """

    @abstractmethod
    async def reserve(self, owner: str) -> None:
        """Reserve a name for this process for as long as the store is open.

        An owner is one process: because its former process has ended, it may claim a shard again
        without waiting for its former lease to expire.  Raises `OwnerTakenError` while another open
        store of the same content has the name, in this process or another.  A process that ends, in
        whatever way, gives up its names.
        """

    @abstractmethod
    async def claim(
        self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int
    ) -> Lease | None:
        """Take a shard for `ttl_ms`; None while another owner's lease on it is valid.

        A lease is valid while `now_ms` is less than its `expires_ms`.  A successful claim raises
        the shard's epoch, also when the same owner claims again: writes under the former epoch are
        refused from then on.  So `reserve` the owner's name first.  `address` is where clients find
        the owner.
        """

    @abstractmethod
    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Extend leases to `ttl_ms` from now; return those still held, with their new end.

        An expired lease is still held unless another owner claimed the shard.
        """

    @abstractmethod
    async def release(self, lease: Lease) -> None:
        """Give a shard up, so that any node can claim it at once.

        Appends under the lease's epoch are refused from then on.  A lease that is no longer held
        is left alone.
        """

    @abstractmethod
    async def leases(self) -> list[Lease]:
        """Return the lease of each shard that has one, in order of shards, expired or not."""

    @abstractmethod
    def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records.

        Claim the shard first, as it may change between two chunks.
        """

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order.

        That is the last value of each key that was not deleted since.  Appends that were called
        before have taken effect or failed; after a failure, loading makes the shard accept appends
        again.
        """
        return [record async for chunk in self.scan(shard) for record in chunk]

    @abstractmethod
    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns.

        Of several records with one key, the last counts.  Appends to one shard take effect in the
        order of their calls.  Raises `FencedError` if `epoch` is not the shard's; then nothing is
        kept, and other appends are not affected.

        After a `StoreError`, reading the store does not find the records.  They may still turn up
        if the machine fails right afterwards, as with any disk that reported an error, so do not
        count on either.  No append overtakes one that failed: later ones to the same shard fail as
        well, until the shard is loaded again.
        """

    @abstractmethod
    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed.

        It is for what all nodes must agree on, across restarts, such as the number of shards.
        """

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
