"""A store that fails, or takes its time, when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from coterie_server.storage import MemoryStore
from coterie_server.storage.abc import Record

__all__ = ["BrittleStore"]


class BrittleStore(MemoryStore):
    """A store in memory that raises `error` when it is to append, if there is one."""

    error: Exception | None = None
    _held: asyncio.Event | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no append end before the block does, as on a slow disk."""
        self._held = asyncio.Event()
        try:
            yield
        finally:
            self._held.set()
            self._held = None

    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Append, unless the test has something else in mind."""
        if self._held is not None:
            await self._held.wait()
        if self.error is not None:
            raise self.error
        await super().append(shard, epoch, records)
