"""Durable before it is told: what a shard stores, and what waits until it is stored."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, final

from coterie_server.serving.waiters import Waiters, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie_server.storage import Lease, Record, Store

__all__ = ["DurableQueue", "Meter"]


class Meter(Protocol):
    """Counts what the store does."""

    def store_appended(self, records: int, seconds: float) -> None:
        """Records became durable, so long after they were handed over."""
        ...

    def store_failed(self) -> None:
        """Records could not be stored, or read, or the node's leases not be seen to."""
        ...


@final
class _Gathered:
    """What is handed in until the store begins to write it, which may be in another thread."""

    __slots__ = ("_waiting", "records_taken", "times_taken")

    def __init__(self) -> None:
        self._waiting: deque[Sequence[Record]] = deque()
        #: How many records were taken so far, and how often records that were handed in were.
        self.records_taken = self.times_taken = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, records: Sequence[Record]) -> None:
        """Have records taken, all of them at once, behind those that were handed in before."""
        self._waiting.append(records)

    def clear(self) -> None:
        """Have nothing taken that was not yet."""
        self._waiting.clear()

    def __iter__(self) -> Iterator[Record]:
        """Take all records; what is handed in meanwhile may wait for the next time."""
        taken: list[Record] = []
        with suppress(IndexError):  # it may be cleared meanwhile
            for _ in range(len(self._waiting)):
                taken += self._waiting.popleft()
                self.times_taken += 1
        self.records_taken += len(taken)
        return iter(taken)


class DurableQueue:
    """Appends records of one shard in order, and runs actions once all before them are durable.

    While one append is under way the next one gathers, until the store begins to write it, so that
    a slow disk makes appends larger and not more numerous, also where it has those of other shards
    to write before; it is handed over before what waited for the last one runs.  An action with
    nothing before it runs at once.  After a failure, or once `end` was called, nothing more is
    appended and nothing that waited runs any more; `on_failure` is told of a failure before that,
    once.
    """

    def __init__(
        self,
        store: Store,
        lease: Lease,
        on_failure: Callable[[Exception], None],
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._way_givers = tuple(store.way_givers())
        self._lease = lease
        self._meter = meter
        self._on_failure = on_failure
        self._gathered = _Gathered()
        #: How often records were handed in, and how many of those times are durable.
        self._handed_in = 0
        self._durable = 0
        self._waiting: deque[tuple[int, Callable[..., None], tuple[object, ...]]] = deque()
        #: Who waits until something is durable, or never will be.
        self._hopes = Waiters()
        self._writer: asyncio.Task[None] | None = None
        self._has_ended = False

    @property
    def is_settled(self) -> bool:
        """Whether everything handed in is durable, and all that waited for it has run."""
        return self._durable == self._handed_in and not self._waiting

    def put(self, records: Sequence[Record]) -> None:
        """Hand in records, which change no more."""
        if self._has_ended:
            return
        self._gathered.add(records)
        for give_way in self._way_givers:
            give_way()
        self._handed_in += 1
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    def when_durable(self, action: Callable[..., None], *arguments: object) -> None:
        """Run an action as soon as all that was handed in before is durable."""
        if self._has_ended:
            return
        if self._durable == self._handed_in and not self._waiting:  # as `is_settled`, for each step
            action(*arguments)
        else:
            self._waiting.append((self._handed_in, action, arguments))

    async def until_durable(self) -> None:
        """Wait until all that was handed in before is durable, or nothing will be any more.

        It does not wait for what comes later, which may never end.
        """
        if self._has_ended:
            return
        hope = self._hopes.add()
        self.when_durable(let_go, hope)
        await hope

    async def settle(self) -> None:
        """Wait until no append is under way: all that was handed in is durable, or has failed.

        That may never be while more is handed in.
        """
        while self._writer is not None:
            await asyncio.shield(self._writer)

    def end(self) -> None:
        """Append nothing more and run nothing more.

        An append that is under way can't be taken back: `settle` tells when it has ended.
        """
        self._has_ended = True
        self._gathered.clear()
        self._waiting.clear()
        self._hopes.let_all_go()

    async def _write(self) -> None:
        try:
            gathered = self._gathered
            while gathered:
                began, before = time.perf_counter(), gathered.records_taken
                await self._store.append(self._lease, gathered)
                records = gathered.records_taken - before
                if self._meter is not None and records:
                    self._meter.store_appended(records, time.perf_counter() - began)
                self._durable = gathered.times_taken
                if gathered:
                    # The next append goes first: the disk is not to wait for what is told.
                    asyncio.get_running_loop().call_soon(self._run_ready_now)
                else:
                    self._run_ready()
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing may wait for it
            self._run_ready_now()
            self._fail(error)
        finally:
            self._writer = None

    def _run_ready_now(self) -> None:
        """Run what waited for the last append, though the next one is under way or has failed."""
        try:
            self._run_ready()
        except Exception as error:  # noqa: BLE001  # as below
            self._fail(error)

    def _run_ready(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._durable:
            _, action, arguments = self._waiting.popleft()
            action(*arguments)
            for give_way in self._way_givers:
                give_way()

    def _fail(self, error: Exception) -> None:
        if self._meter is not None:
            self._meter.store_failed()
        if self._has_ended:
            return  # the shard may have begun a new life, which this must not reach
        self.end()
        self._on_failure(error)
