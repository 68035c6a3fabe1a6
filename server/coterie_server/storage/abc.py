"""The contract of every store: what a coordinator may rely on, whatever keeps its records.

A store keeps records, which are pairs of bytes, in shards, which are numbers. It knows nothing of
groups and reads no clock: time comes in as `now_ms`. Each shard has an epoch, which only grows, and
at most one lease. Whoever writes to a shard shows the epoch of its lease, and the store refuses
epochs that have passed: a node that lost a shard without noticing cannot write to it any more.

CoterieError
├── StoreError      the store could not do it: disk full, file damaged, store closed, ...
│   └── OwnerTakenError   another process goes by the same name
└── FencedError     the shard has another epoch now: somebody else may own it
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
"""A key and its value, as they are kept."""

CHUNK_RECORDS: Final = 1000
"""How many records `Store.scan` yields at a time unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A node's right to write to a shard until `expires_ms`, and under `epoch` only.

    An expired lease still lets its owner write, until somebody else claims the shard.
    """

    shard: int
    epoch: int
    owner: str
    address: str
    expires_ms: int

    def __str__(self) -> str:
        return f"shard {self.shard} is held by {self.owner} at {self.address}, epoch {self.epoch}"


class StoreError(CoterieError):
    """The store could not do what it was asked to; the text says why, and what helps if known."""


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
            " process a store of its own, or another node.id"
        )


class FencedError(CoterieError):
    """An append under an epoch that is not the shard's; nothing of it was kept.

    `holder` is the lease that the shard is under now, or None if nobody holds it.
    """

    def __init__(self, shard: int, epoch: int, holder: Lease | None) -> None:
        super().__init__(shard, epoch, holder)
        self.shard = shard
        self.epoch = epoch
        self.holder = holder

    def __str__(self) -> str:
        now = self.holder or f"shard {self.shard} is held by nobody"
        return f"epoch {self.epoch} of shard {self.shard} has passed: {now}"


class Store(ABC):
    """Records in shards, and leases on the shards.

    A store belongs to the event loop it was opened in. It can be used between `open` and `close`,
    or as an async context manager; outside of that, everything raises `StoreError`. Every method
    raises `StoreError`, with its cause, when what lies underneath fails.

    Each call takes effect once and whole. What it did is durable when it returns. Cancelling a
    call does not take it back: it may or may not have happened.
    """

    #: Whether what it keeps outlives the process.
    is_lasting: bool = True

    @property
    @abstractmethod
    def url(self) -> str:
        """What the store is, for logs; `open_store` understands it."""

    @abstractmethod
    async def open(self) -> None:
        """Get ready, making what is missing.

        What another program or another version of Coterie made and what is damaged is refused, and
        stays as it is. A store that was closed can be opened again.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish what was begun and let go of everything; leases stay until they expire.

        Closing a store that is not open does nothing.
        """

    async def accept_loss(self) -> None:  # noqa: B027  # most stores have nothing to remember
        """Have what the store holds count from now on.

        A store that notices that it lost something refuses to open; one that was told to open all
        the same remembers that it is behind until this is called.
        """

    @abstractmethod
    async def reserve(self, owner: str) -> None:
        """Make a name this process's own for as long as the store is open.

        An owner is one process: who claims a shard again under its own name need not wait for its
        former lease to expire, because its former life has ended.  Raises `OwnerTakenError` while
        another open store of this content has the name, in this process or in another; the end of
        a process, however it comes, gives its names up.
        """

    @abstractmethod
    async def claim(
        self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int
    ) -> Lease | None:
        """Take a shard for `ttl_ms`; None while somebody else's lease on it is valid.

        A lease is valid while `now_ms` is less than its `expires_ms`. A claim that succeeds raises
        the shard's epoch, also when the same owner claims again: what it began to write before,
        in an earlier life perhaps, is refused from then on. So `reserve` the owner's name first.
        `address` is where clients find the owner.
        """

    @abstractmethod
    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Let leases last until `ttl_ms` from now; return those still held, with their new end.

        A lease that expired is still held unless somebody else claimed the shard.
        """

    @abstractmethod
    async def release(self, lease: Lease) -> None:
        """Give a shard up, so that anybody can claim it at once.

        Appends under the lease's epoch are refused from then on. A lease that is not held any
        more is left alone.
        """

    @abstractmethod
    async def leases(self) -> list[Lease]:
        """Return the lease of each shard that has one, by shard, whether expired or not."""

    @abstractmethod
    def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records.

        A shard that is being written to may change between two chunks: claim it first.
        """

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order.

        That is, for each key, its last value, unless its last append deleted it. Appends called
        before it have taken effect or failed; after a failure, loading makes the shard accept
        appends again.
        """
        return [record async for chunk in self.scan(shard) for record in chunk]

    @abstractmethod
    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns.

        Of several records with one key, the last counts. Appends to one shard take effect in the
        order of their calls. Raises `FencedError` when `epoch` is not the shard's, which keeps
        nothing and concerns no other append.

        After a `StoreError`, nobody who reads the store finds the records. It is still possible
        that they turn up if the machine fails right behind it, as with any disk that reported an
        error, so the caller must not count on either. No append leaps over one that failed: those
        to the same shard that were called behind it fail as well, until the shard is loaded again.
        """

    @abstractmethod
    async def agree(self, name: str, value: str) -> str:
        """Return the value that the store remembers under a name.

        The first value that anybody proposes is remembered for ever. It serves what all nodes and
        all restarts must agree on, as the number of shards.
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
