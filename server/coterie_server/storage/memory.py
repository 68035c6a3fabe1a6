"""A store in memory, which is lost with the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace

from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    Fence,
    FencedError,
    KeptRecord,
    Lease,
    NodeEntry,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
    Survey,
    how_held,
    left_ms,
    wall_ms,
)

__all__ = ["MemoryStore"]


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease, and until when it is valid."""

    lease: Lease
    expires_ms: int


@dataclass(slots=True)
class _Content:
    """What outlives closing a store, as a file does."""

    now_ms: Callable[[], int]
    records: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)  # also of shards without a lease
    leases: dict[int, _Held] = field(default_factory=dict)
    #: The note of each node, and until when it is listed.
    nodes: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    agreed: dict[str, str] = field(default_factory=dict)
    names: dict[str, MemoryStore] = field(default_factory=dict)
    #: How often a replica has taken over; a store in the memory of one process has none.
    timeline: int = 0
    #: Before this nothing may be claimed: another node may still trust a lease of the timeline
    #: before.
    claims_from_ms: int = 0


class MemoryStore(Store):
    """Keeps everything in dicts; it never fails, and its content outlives closing it.

    No method waits, so callers are not interrupted by other tasks.
    """

    is_lasting = False

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self._content = _Content(now_ms)
        self._is_open = False

    def twin(self) -> MemoryStore:
        """Return another, closed store of the same content, as a second process would open."""
        twin = MemoryStore()
        twin._content = self._content
        return twin

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

    def promote(self) -> None:
        """Go on as a replica does that takes over: in a timeline of its own.

        All fences have passed then, and nothing is claimed while a node may still trust a lease
        from before.
        """
        content = self._content
        longest_ms = max((each.lease.left_ms for each in content.leases.values()), default=0)
        content.timeline += 1
        content.claims_from_ms = content.now_ms() + longest_ms

    # -- nodes and leases ----------------------------------------------------------------------

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for as long as the store is open."""
        del ttl_ms
        self._check_name(owner)
        self._content.names[owner] = self

    def _check_name(self, owner: str) -> None:
        if self._opened().names.get(owner, self) is not self:
            raise OwnerTakenError(self.url, owner, "another store of the same content")

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now."""
        self._check_name(owner)
        content = self._content
        expires_ms = content.now_ms() + ttl_ms
        content.nodes[owner] = (note, expires_ms)
        renewed = [
            replace(lease, left_ms=ttl_ms)
            for lease in leases
            if self._is_under(lease.shard, lease.fence)
        ]
        content.leases.update({lease.shard: _Held(lease, expires_ms) for lease in renewed})
        return renewed

    async def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        self._opened().nodes.pop(owner, None)

    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard."""
        content = self._opened()
        now_ms = content.now_ms()
        return Survey(
            tuple(
                NodeEntry(owner, note, left_ms(expires_ms, now_ms), str(expires_ms))
                for owner, (note, expires_ms) in sorted(content.nodes.items())
            ),
            tuple(
                replace(
                    held.lease,
                    left_ms=left_ms(held.expires_ms, now_ms),
                    until=str(held.expires_ms),
                )
                for _, held in sorted(content.leases.items())
            ),
        )

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid."""
        content = self._opened()
        now_ms = content.now_ms()
        taken: list[Lease] = []
        if left_ms(content.claims_from_ms, now_ms) > 0:
            return taken
        for shard in shards:
            held = content.leases.get(shard)
            is_former = held is not None and held.lease.fence.timeline != content.timeline
            is_mine = held is not None and held.lease.owner == owner
            if held is None or is_mine or is_former or left_ms(held.expires_ms, now_ms) <= 0:
                content.epochs[shard] = content.epochs.get(shard, 0) + 1
                fence = Fence(content.timeline, content.epochs[shard])
                lease = Lease(shard, fence, owner, ttl_ms)
                content.leases[shard] = _Held(lease, now_ms + ttl_ms)
                taken.append(lease)
        return taken

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once."""
        held = self._opened().leases
        for lease in leases:
            if self._is_under(lease.shard, lease.fence):
                del held[lease.shard]

    def _is_under(self, shard: int, fence: Fence) -> bool:
        held = self._content.leases.get(shard)
        is_present = fence.timeline == self._content.timeline
        return held is not None and held.lease.fence == fence and is_present

    # -- records -------------------------------------------------------------------------------

    async def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records."""
        kept = sorted(self._opened().records.get(shard, {}).items())
        for start in range(0, len(kept), chunk_records):
            yield kept[start : start + chunk_records]

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Keep records, all of them or none."""
        content = self._opened()
        if not self._is_under(lease.shard, lease.fence):
            held = content.leases.get(lease.shard)
            now = how_held(lease.shard, held.lease if held else None)
            raise FencedError(lease.shard, lease.fence, now)
        kept = content.records.setdefault(lease.shard, {})
        for key, value in tuple(records):  # all of them, or none if there is an error among them
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
