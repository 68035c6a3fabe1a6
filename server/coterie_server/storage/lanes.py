"""Appends to a database, whose answers take a while.

Those that wait at the same time are sent together, and those of a shard in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from coterie_server.storage.abc import Fence, FencedError, Lease, Record, StoreError, own_failure

__all__ = ["Changes", "Lanes", "RejectedError", "Sender"]

Changes = Mapping[int, Mapping[bytes, bytes | None]]
"""New values by shard and key; None deletes."""

#: How many characters a statement has at most, unless a single append needs more.
_BATCH_CHARS_MAX: Final = 1_000_000


class RejectedError(StoreError):
    """The database refused a statement, which had no effect; the way to it is as good as before."""


class Sender(Protocol):
    """What lanes need of the database."""

    def size(self, key: bytes, value: bytes | None) -> int:
        """About how many characters a record takes in a statement."""

    async def write(self, lane: int, fences: Mapping[int, Fence], changes: Changes) -> bool:
        """Write to shards, all or none; return False if one of the fences has passed.

        Raises `RejectedError` if nothing was written, or another `StoreError`.
        """

    async def holder(self, shard: int) -> str:
        """How a shard is held now, for people."""


@dataclass(slots=True, eq=False)
class _Append:
    lease: Lease
    records: Iterable[Record]
    future: asyncio.Future[None]

    def take(self, size: Callable[[bytes, bytes | None], int]) -> int:
        """Have the records as they are now, and return how long they are."""
        self.records = taken = tuple(self.records)  # which stays the same from then on
        return sum(size(key, value) for key, value in taken)


class Lanes:
    """The queues of all shards, each in one of a few lanes.

    A lane has at most one statement on its way.
    """

    def __init__(self, sender: Sender, count: int) -> None:
        #: The last fence of each shard under which an append failed, and why.
        self._broken: dict[int, tuple[Fence, str]] = {}
        self._last: dict[int, asyncio.Future[None]] = {}
        self._lanes = [_Lane(number, sender, self._broken) for number in range(count)]

    def append(self, lease: Lease, records: Iterable[Record]) -> asyncio.Future[None]:
        """Queue an append; the future is done when it is durable or has failed.

        Don't cancel it: what was queued will be written.
        """
        if lease.shard in self._broken:
            fence, reason = self._broken[lease.shard]
            if fence == lease.fence:
                raise StoreError(
                    f"shard {lease.shard} takes no appends until it is claimed again, because an"
                    f" earlier one failed: {reason}"
                )
            if fence < lease.fence:  # it was; from now on, the database refuses the former fence
                del self._broken[lease.shard]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last[lease.shard] = future
        future.add_done_callback(partial(self._forget, lease.shard))
        self._lanes[lease.shard % len(self._lanes)].put(_Append(lease, records, future))
        return future

    def _forget(self, shard: int, future: asyncio.Future[None]) -> None:
        """Let go of an append, with its error and who was told of that."""
        if self._last.get(shard) is future:
            del self._last[shard]

    async def settled(self, shard: int) -> None:
        """Wait until earlier appends to a shard were written or have failed."""
        last = self._last.get(shard)
        if last is not None:
            await asyncio.wait([last])

    async def finish(self) -> None:
        """Wait until all that was queued was written or has failed."""
        for lane in self._lanes:
            await lane.finish()


class _Lane:
    """The queues of some shards, and the task that empties them."""

    def __init__(self, number: int, sender: Sender, broken: dict[int, tuple[Fence, str]]) -> None:
        self._number = number
        self._sender = sender
        self._broken = broken
        # Whose turn it is comes first; a queue that was served goes to the end.
        self._queues: dict[int, deque[_Append]] = {}
        #: What was gathered and is sent shard by shard, as it could not be written together.
        self._apart: list[list[_Append]] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, append: _Append) -> None:
        self._queues.setdefault(append.lease.shard, deque()).append(append)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def finish(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            # What is called in the same turn of the loop goes together.
            while self._queues:
                if appends := self._gather():
                    await self._write(appends)
        finally:
            self._task = None

    def _gather(self) -> list[_Append]:
        """Take what can be written at once: of each shard, appends under one fence."""
        gathered: list[_Append] = []
        chars = 0
        for shard in list(self._queues):
            queue = self._queues.pop(shard)
            fence: Fence | None = None
            while queue and fence in (None, queue[0].lease.fence):
                append = queue[0]
                try:
                    chars += append.take(self._sender.size)
                except Exception as error:  # noqa: BLE001  # it must harm no other shard
                    self._queues = {shard: queue, **self._queues}
                    self._fail([append], StoreError(f"the store failed: {error!r}"))
                    return gathered
                if gathered and chars > _BATCH_CHARS_MAX:
                    self._queues = {shard: queue, **self._queues}
                    return gathered
                fence = append.lease.fence
                gathered.append(append)
                queue.popleft()
            if queue:
                self._queues[shard] = queue
        return gathered

    async def _write(self, appends: list[_Append]) -> None:
        """Write what was gathered, and tell the callers how that went."""
        shards: dict[int, list[_Append]] = {}
        for append in appends:
            shards.setdefault(append.lease.shard, []).append(append)
        try:
            if await self._send(shards):
                for append in appends:
                    append.future.set_result(None)
                return
        except RejectedError as error:
            if len(shards) == 1:
                self._fail(appends, error)
                return
        except StoreError as error:
            # With the connection, all that waits in this lane has lost its way.
            self._fail([*appends, *self._waiting()], error)
            return
        except Exception as error:  # noqa: BLE001  # a bug must fail its callers, not hang them
            self._fail([*appends, *self._waiting()], StoreError(f"the store failed: {error!r}"))
            return
        if len(shards) == 1:
            await self._refuse(appends)
            return
        # Nothing was written, because of one shard or more; which, they learn by themselves.
        self._apart = list(shards.values())
        while self._apart:
            await self._write(self._apart.pop(0))

    async def _send(self, shards: dict[int, list[_Append]]) -> bool:
        fences = {shard: appends[0].lease.fence for shard, appends in shards.items()}
        changes: dict[int, dict[bytes, bytes | None]] = {}
        for shard, appends in shards.items():
            values = changes[shard] = {}
            for append in appends:
                values.update(append.records)
        return await self._sender.write(self._number, fences, changes)

    async def _refuse(self, appends: list[_Append]) -> None:
        shard = appends[0].lease.shard
        try:
            now = await self._sender.holder(shard)
        except StoreError as error:
            now = f"who holds it now is not known ({error})"
        for append in appends:
            _raise(append.future, FencedError(shard, append.lease.fence, now))

    def _fail(self, appends: Sequence[_Append], error: StoreError) -> None:
        """Fail appends, and what waits behind them under the same fences."""
        fences = {append.lease.shard: append.lease.fence for append in appends}
        self._broken.update({shard: (fence, str(error)) for shard, fence in fences.items()})
        failed = {id(append): append for append in appends}
        for append in self._waiting():
            if fences.get(append.lease.shard) == append.lease.fence:
                failed[id(append)] = append
        for shard, queue in list(self._queues.items()):
            kept = deque(append for append in queue if id(append) not in failed)
            if kept:
                self._queues[shard] = kept
            else:
                del self._queues[shard]
        self._apart = [each for each in self._apart if id(each[0]) not in failed]
        for append in failed.values():
            _raise(append.future, own_failure(str(error), error))

    def _waiting(self) -> list[_Append]:
        waiting = (*self._apart, *self._queues.values())
        return [append for appends in waiting for append in appends]


def _raise(future: asyncio.Future[None], error: Exception) -> None:
    future.set_exception(error)
    # Its caller may have been cancelled, and then does not look.
    future.exception()
