"""A disk that outlives processes, and a store on it whose writes take time and can fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from coterie_protocol.exceptions import CoterieError
from coterie_server.storage import (
    Fence,
    KeptRecord,
    Lease,
    MemoryStore,
    Record,
    StoreError,
    Survey,
)
from coterie_testing.virtual.process import Process
from coterie_testing.virtual.scheduler import Scheduler

__all__ = ["Disk", "DiskOptions", "DiskStore", "finish_now", "settle"]

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
    #: Called when it begins, and makes it durable when it ends.
    on_begin: Callable[[], object]
    on_end: Callable[[], Any]
    #: Called if it fails.
    on_failure: Callable[[Exception], object]
    #: Called with its result, or why it failed.
    answer: Callable[[object, Exception | None], None]
    has_begun: bool = False
    #: Why it could not begin.
    error: Exception | None = None

    def begin(self) -> None:
        """Begin, unless it has."""
        if self.has_begun:
            return
        self.has_begun = True
        try:
            self.on_begin()
        except Exception as error:  # noqa: BLE001  # the writer's to deal with
            self.error = error

    def commit(self) -> Any:  # noqa: ANN401  # whatever it results in
        """Make it durable."""
        self.begin()
        if self.error is not None:
            raise self.error
        return self.on_end()


class Disk:
    """What is durable, and the writes that are on their way, in their order."""

    def __init__(self, scheduler: Scheduler, options: DiskOptions | None = None) -> None:
        self.scheduler = scheduler
        self.options = options or DiskOptions()
        #: By how much its clock was set forward, by which leases expire in virtual time.
        self.ahead_ms = 0
        self.content = MemoryStore(lambda: scheduler.now_ms + self.ahead_ms)
        self._writes: deque[_Write] = deque()
        self._is_busy = False
        #: How many writes became durable though their process died before it could hear so.
        self.durable_unacknowledged = 0
        #: How many writes were lost with their process.
        self.lost = 0

    def write(self, process: Process, commit: Callable[[], T]) -> asyncio.Future[T]:
        """Make something durable; the future is done when it is."""
        return self.write_from(process, lambda: None, commit, lambda _: None)

    def write_from(
        self,
        process: Process,
        begin: Callable[[], object],
        commit: Callable[[], T],
        on_failure: Callable[[Exception], object],
    ) -> asyncio.Future[T]:
        """Make something durable, from when `begin` is called; the future is done when it is.

        If that fails, `on_failure` is called at once: before the next write, and whether or not
        the process is alive to hear of it.
        """
        done: asyncio.Future[T] = process.create_future()

        def answer(result: object, error: Exception | None) -> None:
            if process.is_alive:
                process.call_soon(settle, done, result, error)

        self._enqueue(_Write(process, begin, commit, on_failure, answer))
        return done

    def _enqueue(self, write: _Write) -> None:
        self._writes.append(write)
        self._begin()

    def _begin(self) -> None:
        if self._writes and not self._is_busy:
            self._is_busy = True
            self._writes[0].begin()
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
        write.answer(result, error)
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
    """A store on a virtual disk: what is durable outlives its process.

    Calls take effect in their order, each when its write ends.
    """

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__()
        self._content = disk.content.twin()._content  # noqa: SLF001  # as a second process has it
        self._disk = disk
        self._process = process
        self._appends = 0
        #: The number of the first append that failed under each lease.
        self._failed: dict[tuple[int, Fence], int] = {}
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

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now."""
        renew, held = super().renew, tuple(leases)
        return await self._write(lambda: renew(owner, note, held, ttl_ms))

    async def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        withdraw = super().withdraw
        await self._write(lambda: withdraw(owner))

    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard."""
        return await self._write(super().survey)

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid."""
        claim, wanted = super().claim, tuple(shards)
        return await self._write(lambda: claim(wanted, owner, ttl_ms))

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once."""
        release, given = super().release, tuple(leases)
        await self._write(lambda: release(given))

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Make records durable, all of them or none."""
        self._opened()
        append, used = super().append, (lease.shard, lease.fence)
        taken: list[Record] = []
        self._appends += 1
        number = self._appends

        def commit() -> None:
            # No append overtakes one that failed, until the shard is claimed again.
            has_failed = number > self._failed.get(used, number)
            finish_now(append(lease, () if has_failed else taken))  # or it is fenced
            if has_failed:
                raise StoreError(f"an earlier write to shard {lease.shard} failed")

        def on_failure(error: Exception) -> None:
            if isinstance(error, StoreError):
                self._failed[used] = min(number, self._failed.get(used, number))

        begin = partial(taken.extend, records)
        await self._disk.write_from(self._process, begin, commit, on_failure)

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order."""
        load = super().load
        return await self._write(lambda: load(shard))

    async def _write(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a call behind those that were made before."""
        self._opened()
        return await self._disk.write(self._process, lambda: finish_now(call()))


def finish_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the coroutine waits, and must not")


def settle(done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    """Tell what has come of a write, unless that is known."""
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
