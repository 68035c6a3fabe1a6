"""A disk that outlives processes, and a store on it that takes its time and can fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie_protocol.exceptions import CoterieError
from coterie_server.storage import KeptRecord, Lease, MemoryStore, Record, StoreError
from coterie_testing.virtual.process import Process
from coterie_testing.virtual.world import World

__all__ = ["Disk", "DiskOptions", "DiskStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOptions:
    """How a disk behaves."""

    #: How long a write takes until it is durable, at least and at most.
    write_s: tuple[float, float] = (0.0002, 0.004)
    #: How often a write fails, with nothing of it kept.
    error_chance: float = 0.0


@dataclass(eq=False, slots=True)
class _Write:
    """Something on its way to the disk."""

    process: Process
    #: Keeps it, if nothing speaks against that.
    keep: Callable[[], Any]
    #: Called if it is not kept.
    spoil: Callable[[Exception], object]
    done: asyncio.Future[Any]


class Disk:
    """What a store keeps, and the writes that are on their way to it, in their order."""

    def __init__(self, world: World, options: DiskOptions | None = None) -> None:
        self.world = world
        self.options = options or DiskOptions()
        self.content = MemoryStore()
        self._writes: deque[_Write] = deque()
        self._is_busy = False
        #: How many writes were kept although nobody was told, as their process had died.
        self.kept_untold = 0
        #: How many were lost with their process.
        self.lost = 0

    def write(
        self,
        process: Process,
        keep: Callable[[], T],
        spoil: Callable[[Exception], object] = lambda _: None,
    ) -> asyncio.Future[T]:
        """Have something kept; the future is done when it is durable.

        If that fails, it is spoilt at once: before the next write, and whether or not its process
        can hear of it.
        """
        done: asyncio.Future[T] = process.create_future()
        self._writes.append(_Write(process, keep, spoil, done))
        self._begin()
        return done

    def _begin(self) -> None:
        if self._writes and not self._is_busy:
            self._is_busy = True
            delay_s = self.world.random.uniform(*self.options.write_s)
            self.world.after(delay_s, self._finish)

    def _finish(self) -> None:
        self._is_busy = False
        if not self._writes:
            return
        write = self._writes.popleft()
        result, error = None, None
        try:
            if self.world.random.random() < self.options.error_chance:
                raise StoreError("the disk failed")  # noqa: TRY301  # as what keeps it may raise
            result = write.keep()
        except Exception as failure:  # noqa: BLE001  # the writer's to deal with
            write.spoil(failure)
            error = failure
        if write.process.is_alive:
            write.process.call_soon(_settle, write.done, result, error)
        self._begin()

    def crash(self, process: Process) -> None:
        """The process dies: of its writes, so many are kept, in their order, and the others lost.

        The one that is cut short is kept or not; it is never kept by half.
        """
        mine = [write for write in self._writes if write.process is process]
        kept = self.world.random.randint(0, len(mine))
        for write in mine[:kept]:
            try:
                write.keep()
            except CoterieError as refusal:
                write.spoil(refusal)
        self.kept_untold += kept
        self.lost += len(mine) - kept
        self._writes = deque(write for write in self._writes if write.process is not process)


class DiskStore(MemoryStore):
    """A store on a virtual disk: what it keeps outlives its process, what it was doing may not."""

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__(disk.content.twin()._content)  # noqa: SLF001  # as a second process has it
        self._disk = disk
        self._process = process
        self._failed: set[int] = set()
        process.on_death.append(lambda: disk.crash(process))
        process.on_death.append(self.give_up_names)

    @property
    def url(self) -> str:
        """What the store is, for logs."""
        return "virtual:"

    async def close(self) -> None:
        """Finish what was begun, then keep the store from being used."""
        if self._is_open:
            with contextlib.suppress(StoreError):
                await self._disk.write(self._process, lambda: None)
        await super().close()

    async def claim(
        self, shard: int, owner: str, address: str, now_ms: int, ttl_ms: int
    ) -> Lease | None:
        """Take a shard, behind the appends that were called before."""
        claim = super().claim
        return await self._disk.write(
            self._process, lambda: _finish_now(claim(shard, owner, address, now_ms, ttl_ms))
        )

    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Let leases last longer, behind the appends that were called before."""
        renew, held = super().renew, tuple(leases)
        return await self._disk.write(
            self._process, lambda: _finish_now(renew(held, now_ms, ttl_ms))
        )

    async def release(self, lease: Lease) -> None:
        """Give a shard up, behind the appends that were called before."""
        release = super().release
        await self._disk.write(self._process, lambda: _finish_now(release(lease)))

    async def append(self, shard: int, epoch: int, records: Sequence[Record]) -> None:
        """Keep records, all of them or none."""
        self._opened()
        append, copied = super().append, tuple(records)

        def keep() -> None:
            # No append leaps over one that failed, until the shard is read anew.
            if shard in self._failed:
                raise StoreError(f"an earlier write to shard {shard} failed")
            _finish_now(append(shard, epoch, copied))

        def spoil(error: Exception) -> None:
            if isinstance(error, StoreError):
                self._failed.add(shard)

        await self._disk.write(self._process, keep, spoil)

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order."""
        await self._disk.write(self._process, lambda: None)  # behind what was called before
        self._failed.discard(shard)
        return await super().load(shard)


def _finish_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits to its end."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waits")


def _settle(done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
