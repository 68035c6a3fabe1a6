"""The contract of every store.

A store keeps records, which are pairs of bytes, in shards, which are numbers; it knows nothing of
groups.  Several nodes may share it.  Each keeps an entry that lists it, and leases on shards.
A shard has at most one lease at a time, and each lease another fence, which only grows.  A write
carries the fence of the writer's lease, and the store refuses fences that have passed: a node that
lost a shard without noticing can't write to it.

Leases and entries expire by the store's own clock, and nodes hear how long is left, not until when:
so the clocks of nodes need not agree.

CoterieError
├── StoreError      the store could not do it: disk full, file damaged, store closed, ...
│   └── OwnerTakenError   another process uses the same name
└── FencedError     the shard has another fence now: another node may own it
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from coterie_protocol.exceptions import CoterieError
from coterie_server.frames_of_errors import without_frames

__all__ = [
    "CHUNK_RECORDS",
    "LEASE_MS_MAX",
    "Fence",
    "FencedError",
    "KeptRecord",
    "Lease",
    "NodeEntry",
    "OwnerTakenError",
    "Record",
    "Store",
    "StoreError",
    "Survey",
    "how_held",
    "left_ms",
    "own_failure",
    "wall_ms",
]

Record = tuple[bytes, bytes | None]
"""A key and its new value; None deletes the key."""

KeptRecord = tuple[bytes, bytes]
"""A key and its value, as stored."""

CHUNK_RECORDS: Final = 1000
"""How many records `Store.scan` yields at a time unless told otherwise."""


#: More epochs than there can be in one timeline.
_TIMELINE_SHIFT: Final = 40


class Fence(NamedTuple):
    """What orders the leases of a shard: a later one has a higher fence.

    The timeline is that of the database underneath, which begins a new one when a replica takes
    over that may lack its last writes; a store that can't lose any has only one.
    """

    timeline: int
    epoch: int

    @property
    def number(self) -> int:
        """A number that grows with the fence."""
        return self.timeline << _TIMELINE_SHIFT | self.epoch

    def __str__(self) -> str:
        return f"{self.timeline}.{self.epoch}" if self.timeline else str(self.epoch)


#: The longest lease that there can be: as long as `shard.lease.ms` may be.
LEASE_MS_MAX: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Lease:
    """A node's right to write to a shard, under this fence only.

    An expired lease still lets its owner write, until another node claims the shard.
    """

    shard: int
    fence: Fence
    owner: str
    #: How long it was valid for when the store was asked; it has expired if nothing is left.
    left_ms: int
    #: When it ends in the terms of the store, if that was surveyed: another with each renewal.
    until: str = field(default="", compare=False)

    @property
    def is_valid(self) -> bool:
        """Whether it had not expired when the store was asked."""
        return self.left_ms > 0

    def __str__(self) -> str:
        return f"shard {self.shard} is held by {self.owner}, epoch {self.fence}"


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node that uses the store, as all of them see it."""

    owner: str
    #: What the node says of itself: where it is reached, for example.
    note: bytes
    #: How long the entry was valid for when the store was asked; the node is gone if nothing is
    #: left.
    left_ms: int
    #: When it ends in the terms of the store, if that was surveyed: another with each renewal.
    until: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether it had not expired when the store was asked."""
        return self.left_ms > 0


@dataclass(frozen=True, slots=True)
class Survey:
    """Who uses the store, and who has which shard, at one moment."""

    #: In order of owners, expired or not.
    nodes: tuple[NodeEntry, ...]
    #: Of each shard that has one, in order of shards, expired or not.
    leases: tuple[Lease, ...]


def how_held(shard: int, lease: Lease | None) -> str:
    """How a shard is held now, for people."""
    return str(lease) if lease else f"no node holds shard {shard}"


def left_ms(expires_ms: int, now_ms: int) -> int:
    """How long something is valid for that a node keeps valid for the length of a lease.

    Nothing is for longer than the longest lease: it was kept before the clock was set back.
    """
    left = expires_ms - now_ms
    return left if left <= LEASE_MS_MAX else 0


def wall_ms() -> int:
    """The time by the clock of this machine: that of a store which only it uses."""
    return time.time_ns() // 1_000_000


class StoreError(CoterieError):
    """The store could not do its work; the text says why, and what helps if that is known."""


def own_failure(sentence: str, error: Exception) -> StoreError:
    """What one of several is told who wait for what failed; raising an error changes it."""
    own = StoreError(sentence)
    own.__cause__ = without_frames(error)
    return own


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
    """An append under a fence that is not the shard's; nothing of it was kept."""

    def __init__(self, shard: int, fence: Fence, now: str) -> None:
        super().__init__(shard, fence, now)
        self.shard = shard
        self.fence = fence
        #: How the shard is held now, for people.
        self.now = now

    def __str__(self) -> str:
        return f"epoch {self.fence} of shard {self.shard} has passed: {self.now}"


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
    #: Whether other nodes use it as well, or may.
    is_shared: bool = False

    @property
    def files(self) -> int:
        """Over how many files the shards are spread, by their numbers, once it is open.

        Nodes that write to different files don't wait for each other.
        """
        return 1

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

    def way_givers(self) -> Sequence[Callable[[], None]]:
        """What lets an open store go on with what it has begun, if that waits for this thread.

        Call all of them between pieces of work; each takes a moment at most.  Most stores do not
        work in this process, and have none.
        """
        return ()

    @abstractmethod
    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for this process for as long as the store is open.

        An owner is one process: because its former process has ended, it may claim a shard again
        without waiting for its former lease to expire.  Raises `OwnerTakenError` while another open
        store of the same content has the name, in this process or another.

        A process that ends, in whatever way, gives up its names: at once where the store can tell,
        otherwise when its entry has expired, which this waits for.  There it is `renew` that tells
        a process that is alive.
        """

    @abstractmethod
    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now.

        Returns the leases that are still held.  An expired one is, unless another node claimed the
        shard.  `reserve` the name first; raises `OwnerTakenError` if another process has it by now.
        """

    @abstractmethod
    async def withdraw(self, owner: str) -> None:
        """List a node no longer; its leases stay as they are."""

    @abstractmethod
    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard.

        What is long expired may be left out, but for the leases.
        """

    @abstractmethod
    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid.

        Each shard that is taken gets a higher fence, also when the same owner claims it again:
        writes under the former fence are refused from then on, those that are under way included.
        So `reserve` the owner's name first.
        """

    @abstractmethod
    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once.

        Appends under the fences of the leases are refused from then on.  A lease that is no longer
        held is left alone.
        """

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
        before have taken effect or failed, if the shard was claimed after they failed.
        """
        return [record async for chunk in self.scan(shard) for record in chunk]

    @abstractmethod
    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Keep records in a lease's shard, all of them or none; they are durable when it returns.

        They are asked for once, when the store begins to write, in whichever thread that does: so
        they may be more by then than when this was called.

        Of several records with one key, the last counts.  Appends to one shard take effect in the
        order of their calls.  Raises `FencedError` if the lease's fence is not the shard's; then
        nothing is kept, and appends to other shards are not affected.

        After a `StoreError`, they may have been kept, or may still be on their way.  No append
        overtakes one that failed: later ones under the same fence fail as well.  So claim the shard
        again: what was on its way is refused from then on, and what is found then stays.
        """

    @abstractmethod
    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed.

        It is for what all nodes must agree on, across restarts, such as the number of shards.
        """

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
