"""Readings that wait at the same time are made together.

A node that takes over from another one reads dozens of shards, and each reading takes several round
trips, which may be long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from coterie_server.storage.abc import StoreError, own_failure

__all__ = ["Readers", "Source", "Start"]


class Start(NamedTuple):
    """Where to read."""

    shard: int
    #: The first place that is of interest.
    place: bytes


class Source(Protocol):
    """What readers need of the database."""

    async def read(self, reader: int, starts: Sequence[Start], limit: int) -> Sequence[list[Any]]:
        """Read rows, for each start those from there on, in order, and so many at most.

        Raises a `StoreError` if that fails.
        """


class _Reading:
    """One that waits."""

    __slots__ = ("found", "limit", "start")

    def __init__(self, start: Start, limit: int) -> None:
        self.start = start
        self.limit = limit
        #: The rows, and whether they are the last ones.
        self.found: asyncio.Future[tuple[list[Any], bool]]
        self.found = asyncio.get_running_loop().create_future()


class Readers:
    """A few connections; those that are free share out the readings that wait."""

    def __init__(self, source: Source, count: int) -> None:
        self._source: Final = source
        self._waiting: list[_Reading] = []
        self._free = set(range(count))
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, start: Start, limit: int) -> tuple[list[Any], bool]:
        """Return rows of a shard from a place on, and whether there are no more behind them.

        There are so many at most, and fewer if other shards are read with this one.
        """
        reading = _Reading(start, limit)
        self._waiting.append(reading)
        if len(self._waiting) == 1:
            self._begin()
        return await reading.found

    async def close(self) -> None:
        """End readings for which nobody waits any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self) -> None:
        """Have one more reader read what waits, if one is free."""
        if self._waiting and self._free:
            # The first of them, as others may not be connected.
            reader = min(self._free)
            self._free.remove(reader)
            task = asyncio.get_running_loop().create_task(self._run(reader))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, reader: int) -> None:
        try:
            # What is called in the same turn of the loop goes together.
            while readings := self._take():
                self._begin()
                await self._read(reader, readings)
        finally:
            self._free.add(reader)

    def _take(self) -> list[_Reading]:
        """Take a share of what waits, but for readings whose callers have gone.

        While one waits for the database, what another has brought is worked on.
        """
        waiting = [reading for reading in self._waiting if not reading.found.done()]
        share = math.ceil(len(waiting) / (1 + len(self._free)))
        self._waiting = waiting[share:]
        return waiting[:share]

    async def _read(self, reader: int, readings: Sequence[_Reading]) -> None:
        """Read for all of them no more than for one alone: what comes in one piece is bounded."""
        limit = max(min(reading.limit for reading in readings) // len(readings), 1)
        starts = [reading.start for reading in readings]
        try:
            found = await self._source.read(reader, starts, limit)
        except Exception as error:  # noqa: BLE001  # a bug must fail its callers, not hang them
            for reading in readings:
                _fail(reading, error)
        else:
            for reading, rows in zip(readings, found, strict=True):
                if not reading.found.done():
                    reading.found.set_result((rows, len(rows) < limit))


def _fail(reading: _Reading, error: Exception) -> None:
    if not reading.found.done():
        sentence = str(error) if isinstance(error, StoreError) else f"it failed: {error!r}"
        reading.found.set_exception(own_failure(sentence, error))
