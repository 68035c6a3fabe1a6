"""A worker in a virtual scheduler: the real client, with work that can be checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from coterie_assignors import Assignor
from coterie_client import Group, Partition, Release, Restart
from coterie_client.membership import Sources
from coterie_client.membership.events import Event
from coterie_protocol.exceptions import CoterieError
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.virtual import Network, Process, Scheduler

__all__ = ["METADATA_MAX_AGE_S", "Witness", "Worker", "WorkerOptions"]


#: How old what a worker knows of the topics may get before it looks again.
METADATA_MAX_AGE_S: Final = 20.0


class Witness(Protocol):
    """Whoever looks at what workers do."""

    def started(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition begins."""

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Work goes on from a committed offset."""

    def touched(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Something was done, with effects outside."""

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """An offset was committed: the coordinator said so."""

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition ended."""

    def died(self, worker: Worker) -> None:
        """The worker's process is no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker is set up."""

    topics: Collection[str] = ("jobs",)
    instance: str | None = None
    session_timeout: float = 10.0
    heartbeat_interval: float = 1.0
    rebalance_timeout: float = 30.0
    request_timeout: float = 8.0
    close_timeout: float = 20.0
    #: How long a piece of work takes, at least and at most.
    work_s: tuple[float, float] = (0.2, 2.0)
    #: How long work takes to end when it is told to.
    finish_s: tuple[float, float] = (0.0, 0.3)
    #: For how long a task that has ended does not give in, and then tries to commit once more.
    clings_s: float = 0.0
    #: What it can't work on, and so gives up.
    cannot: Collection[tuple[str, int]] = ()


@dataclass(eq=False, slots=True)
class Worker:
    """One process that takes part in a group."""

    scheduler: Scheduler
    network: Network
    witness: Witness
    name: str
    group_id: str
    options: WorkerOptions
    assignors: Sequence[Assignor]
    process: Process = field(init=False)
    group: Group = field(init=False)
    #: Its main task: done when it has left.
    life: asyncio.Task[None] | None = None
    #: Why it ended, if it failed.
    error: BaseException | None = None
    #: Told of what the client tells.
    on_event: Callable[[Event], None] | None = None

    def start(self) -> None:
        """Join."""
        self.process = process = Process(self.scheduler, self.name)
        options = self.options
        self.group = Group(
            str(ADDRESS),
            self.group_id,
            topics=options.topics,
            instance=options.instance,
            assignors=self.assignors,
            client_id=self.name,
            session_timeout=options.session_timeout,
            heartbeat_interval=options.heartbeat_interval,
            rebalance_timeout=options.rebalance_timeout,
            request_timeout=options.request_timeout,
            metadata_max_age=METADATA_MAX_AGE_S,
            close_timeout=options.close_timeout,
            on_event=self._note,
            dial=self.network.dialler(process),
            sources=Sources(self.scheduler.random.random, process.wall_ms),
        )
        self.life = process.create_task(self._live())

    @property
    def is_running(self) -> bool:
        """Whether it takes part, or wants to."""
        return self.process.is_alive and self.life is not None and not self.life.done()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.witness.died(self)

    def stop(self) -> None:
        """Have it leave in good order."""
        if self.is_running:
            self.process.call_soon(self.group.stop)

    def subscribe(self) -> None:
        """Want what the options say now."""
        if not self.group.is_over:
            self.group.subscribe(self.options.topics)

    async def _live(self) -> None:
        try:
            async with self.group as group:
                policy = Release() if self.options.cannot else Restart()
                await group.run(self._work, on_error=policy)
        except CoterieError as error:
            self.error = error

    async def _work(self, partition: Partition) -> None:
        self.witness.started(self, partition)
        offset = 0
        try:
            offset = await self._find_place(partition)
            if partition.key in self.options.cannot:
                raise RuntimeError(f"no way to work on {partition}")
            while True:
                await asyncio.sleep(self.scheduler.random.uniform(*self.options.work_s))
                offset += 1
                self.witness.touched(self, partition, offset)
                await self._commit(partition, offset)
        finally:
            await self._finish(partition)
            if offset and self.options.clings_s:
                await self._cling(partition, offset)

    async def _find_place(self, partition: Partition) -> int:
        position = await partition.committed()
        offset = position.offset if position is not None else 0
        self.witness.resumed(self, partition, offset)
        return offset

    async def _commit(self, partition: Partition, offset: int) -> None:
        await partition.commit(offset)
        self.witness.committed(self, partition, offset)

    async def _finish(self, partition: Partition) -> None:
        try:
            if partition.is_owned:
                await asyncio.sleep(self.scheduler.random.uniform(*self.options.finish_s))
        finally:
            self.witness.ended(self, partition)

    async def _cling(self, partition: Partition, offset: int) -> None:
        """Commit once more, whoever has the partition by now."""
        await asyncio.sleep(self.options.clings_s)
        try:
            await self._commit(partition, offset)
        except CoterieError:
            return  # as it should be

    def _note(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)
