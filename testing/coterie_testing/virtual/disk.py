"""A disk that outlives processes, and a store on it whose writes take time and can fail."""

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
from coterie_testing.virtual.scheduler import Scheduler

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
    """A write that is on its way to the disk."""

    process: Process
    #: Makes it durable.
    commit: Callable[[], Any]
    #: Called if it fails.
    on_failure: Callable[[Exception], object]
    done: asyncio.Future[Any]


class Disk:
    """What is durable, and the writes that are on their way, in their order."""

    def __init__(self, scheduler: Scheduler, options: DiskOptions | None = None) -> None:
        self.scheduler = scheduler
        self.options = options or DiskOptions()
        self.content = MemoryStore()
        self._writes: deque[_Write] = deque()
        self._is_busy = False
        #: How many writes became durable though their process died before it could hear so.
        self.durable_unacknowledged = 0
        #: How many writes were lost with their process.
        self.lost = 0

    def write(
        self,
        process: Process,
        commit: Callable[[], T],
        on_failure: Callable[[Exception], object] = lambda _: None,
    ) -> asyncio.Future[T]:
        """Make something durable; the future is done when it is.

        If that fails, `on_failure` is called at once: before the next write, and whether or not
        the process is alive to hear of it.
        """
        done: asyncio.Future[T] = process.create_future()
        self._writes.append(_Write(process, commit, on_failure, done))
        self._begin()
        return done

    def _begin(self) -> None:
        if self._writes and not self._is_busy:
            self._is_busy = True
            delay_s = self.scheduler.random.uniform(*self.options.write_s)
            self.scheduler.after(delay_s, self._finish)

    def _finish(self) -> None:
        self._is_busy = False
        if not self._writes:
            return
        write = self._writes.popleft()
        result, error = None, None
        try:
            if self.scheduler.random.random() < self.options.error_chance:
                raise StoreError("the disk failed")  # noqa: TRY301  # as a commit may raise
            result = write.commit()
        except Exception as failure:  # noqa: BLE001  # the writer's to deal with
            write.on_failure(failure)
            error = failure
        if write.process.is_alive:
            write.process.call_soon(_settle, write.done, result, error)
        self._begin()

    def crash(self, process: Process) -> None:
        """Let a random prefix of a dying process's writes become durable, and lose the others.

        No write is ever durable by half.
        """
        mine = [write for write in self._writes if write.process is process]
        kept = self.scheduler.random.randint(0, len(mine))
        for write in mine[:kept]:
            try:
                write.commit()
            except CoterieError as refusal:
                write.on_failure(refusal)
        self.durable_unacknowledged += kept
        self.lost += len(mine) - kept
        self._writes = deque(write for write in self._writes if write.process is not process)


class DiskStore(MemoryStore):
    """A store on a virtual disk: what is durable outlives its process."""

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__(disk.content.twin()._content)  # noqa: SLF001  # as a second process has it
        self._disk = disk
        self._process = process
        self._failed: set[int] = set()
        process.on_death.append(lambda: disk.crash(process))
        process.on_death.append(self.give_up_names)

    @property
    def url(self) -> str:
        """The kind of store, for logs."""
        return "virtual:"

    async def close(self) -> None:
        """Finish the writes that are under way, then refuse any use of the store."""
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
        """Make records durable, all of them or none."""
        self._opened()
        append, copied = super().append, tuple(records)

        def commit() -> None:
            # No append overtakes one that failed, until the shard is read again.
            if shard in self._failed:
                raise StoreError(f"an earlier write to shard {shard} failed")
            _finish_now(append(shard, epoch, copied))

        def on_failure(error: Exception) -> None:
            if isinstance(error, StoreError):
                self._failed.add(shard)

        await self._disk.write(self._process, commit, on_failure)

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order."""
        await self._disk.write(self._process, lambda: None)  # behind what was called before
        self._failed.discard(shard)
        return await super().load(shard)


def _finish_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the coroutine waits, and must not")


def _settle(done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
