"""A store that fails, or takes its time, when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from coterie_server.storage import Fence, Lease, MemoryStore, Record, StoreError

__all__ = ["BrittleStore"]


class BrittleStore(MemoryStore):
    """A store in memory that raises `error` when it is to append, if there is one.

    After a `StoreError`, nothing more is appended under the lease.
    """

    error: Exception | None = None
    _held: asyncio.Event | None = None

    def __init__(self) -> None:
        super().__init__()
        self._failed: set[tuple[int, Fence]] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no append end before the block does, as on a slow disk."""
        self._held = asyncio.Event()
        try:
            yield
        finally:
            self._held.set()
            self._held = None

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Append, unless the test has something else in mind."""
        if self._held is not None:
            await self._held.wait()
        if self.error is not None:
            if isinstance(self.error, StoreError):
                self._failed.add((lease.shard, lease.fence))
            raise self.error
        # First, as a lease that has passed is fenced, whatever became of its appends.
        has_failed = (lease.shard, lease.fence) in self._failed
        await super().append(lease, [] if has_failed else records)
        if has_failed:
            raise StoreError(f"an earlier append to shard {lease.shard} failed")
