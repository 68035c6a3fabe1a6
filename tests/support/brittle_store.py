"""A store that fails when a test says so."""

from __future__ import annotations

from collections.abc import Sequence

from coterie_server.storage import MemoryStore
from coterie_server.storage.abc import Record

__all__ = ["BrittleStore"]


class BrittleStore(MemoryStore):
    """A store that can be told to fail."""

    error: Exception | None = None

    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Fail if told to."""
        if self.error is not None:
            raise self.error
        await super().append(shard, epoch, records)
