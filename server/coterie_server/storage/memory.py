"""A store in memory, which is lost with the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    FencedError,
    KeptRecord,
    Lease,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
)

__all__ = ["MemoryStore"]


@dataclass(slots=True)
class _Content:
    """What outlives closing a store, as a file does."""

    records: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)  # also of shards without a lease
    leases: dict[int, Lease] = field(default_factory=dict)
    agreed: dict[str, str] = field(default_factory=dict)
    names: dict[str, MemoryStore] = field(default_factory=dict)


class MemoryStore(Store):
    """Keeps everything in dicts; it never fails, and its content outlives closing it.

    No method waits, so callers are not interrupted by other tasks.
    """

    is_lasting = False

    def __init__(self, content: _Content | None = None) -> None:
        self._content = _Content() if content is None else content
        self._is_open = False

    def twin(self) -> MemoryStore:
        """Return another, closed store of the same content, as a second process would open."""
        return MemoryStore(self._content)

    @property
    def url(self) -> str:
        """What the store is, for logs."""
        return "memory:"

    async def open(self) -> None:
        """Make the store usable."""
        self._is_open = True

    async def close(self) -> None:
        """Make the store unusable; its content stays."""
        self._is_open = False
        self.give_up_names()

    def give_up_names(self) -> None:
        """Give up the names that this store reserved, as the end of its process would."""
        names = self._content.names
        for owner in [owner for owner, holder in names.items() if holder is self]:
            del names[owner]

    async def reserve(self, owner: str) -> None:
        """Reserve a name for as long as the store is open."""
        holder = self._opened().names.setdefault(owner, self)
        if holder is not self:
            raise OwnerTakenError(self.url, owner, "another store of the same content")

    async def claim(
        self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int
    ) -> Lease | None:
        """Take a shard for `ttl_ms`; None while another owner's lease on it is valid."""
        content = self._opened()
        held = content.leases.get(shard)
        if held is not None and held.owner != owner and now_ms < held.expires_ms:
            return None
        epoch = content.epochs.get(shard, 0) + 1
        lease = Lease(shard, epoch, owner, address, now_ms + ttl_ms)
        content.epochs[shard] = epoch
        content.leases[shard] = lease
        return lease

    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Extend leases to `ttl_ms` from now; return those still held, with their new end."""
        held = self._opened().leases
        renewed = [
            replace(lease, expires_ms=now_ms + ttl_ms)
            for lease in leases
            if _is_under(held.get(lease.shard), lease.epoch)
        ]
        held.update({lease.shard: lease for lease in renewed})
        return renewed

    async def release(self, lease: Lease) -> None:
        """Give a shard up, so that any node can claim it at once."""
        held = self._opened().leases
        if _is_under(held.get(lease.shard), lease.epoch):
            del held[lease.shard]

    async def leases(self) -> list[Lease]:
        """Return the lease of each shard that has one, by shard, whether expired or not."""
        return [lease for _, lease in sorted(self._opened().leases.items())]

    async def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records."""
        kept = sorted(self._opened().records.get(shard, {}).items())
        for start in range(0, len(kept), chunk_records):
            yield kept[start : start + chunk_records]

    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Keep records, all of them or none."""
        content = self._opened()
        held = content.leases.get(shard)
        if not _is_under(held, epoch):
            raise FencedError(shard, epoch, held)
        kept = content.records.setdefault(shard, {})
        for key, value in records:
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        return self._opened().agreed.setdefault(name, value)

    def _opened(self) -> _Content:
        if not self._is_open:
            raise StoreError(f"{self.url} is not open")
        return self._content


def _is_under(held: Lease | None, epoch: int) -> bool:
    return held is not None and held.epoch == epoch
