"""A worker of the simulation: the real client, with work that can be checked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie_assignors import Assignor
from coterie_client import Group, GroupMisuseError, Partition, Release, Restart, Standby
from coterie_client.membership import Sources
from coterie_client.membership.events import Event
from coterie_protocol.exceptions import CoterieError
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.sim.state import StateDisk
from coterie_testing.virtual import Network, Process, Scheduler

__all__ = ["METADATA_MAX_AGE_S", "WorkObserver", "Worker", "WorkerOptions"]


#: How old a worker lets its knowledge of the topics get before it asks again.
METADATA_MAX_AGE_S: Final = 20.0


class WorkObserver:
    """Is told what workers do, and does nothing about it unless a subclass does."""

    def started(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition begins."""

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Work goes on from the committed offset."""

    def acted(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Work had an effect outside, which can't be taken back."""

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """The coordinator acknowledged a commit."""

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Work on a partition ended."""

    def restoring(self, worker: Worker, standby: Standby) -> None:
        """A restore begins."""

    def restored(self, worker: Worker, standby: Standby) -> None:
        """A restore got some way further."""

    def restore_ended(self, worker: Worker, standby: Standby) -> None:
        """A restore ended."""

    def committed_standby(self, worker: Worker, standby: Standby) -> None:
        """A restore could commit."""

    def died(self, worker: Worker) -> None:
        """The worker's process was killed."""


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
    #: How long it works until its next commit, at least and at most.
    work_s: tuple[float, float] = (0.2, 2.0)
    #: How long a task takes to finish when it is cancelled.
    finish_s: tuple[float, float] = (0.0, 0.3)
    #: How long after its end a misbehaving task commits once more; 0 if it behaves.
    commits_late_s: float = 0.0
    #: The partitions on which its work fails, so that it gives them up.
    fails_on: Collection[tuple[str, int]] = ()
    #: Until when the loads of its partitions vary; while they do, a group may go on moving them.
    loads_vary_s: float = math.inf
    #: The state on its machine; None if its work needs none.
    state: StateDisk | None = None


@dataclass(eq=False, slots=True)
class Worker:
    """A process that takes part in a group."""

    scheduler: Scheduler
    network: Network
    observer: WorkObserver
    name: str
    group_id: str
    options: WorkerOptions
    assignors: Sequence[Assignor]
    process: Process = field(init=False)
    group: Group = field(init=False)
    #: Its main task, which is done when it has left.
    task: asyncio.Task[None] | None = None
    #: Why it ended, if it failed.
    error: BaseException | None = None
    #: Told of the events of the client.
    on_event: Callable[[Event], None] | None = None
    #: Where it finds the coordinators.
    bootstrap: str = str(ADDRESS)

    def start(self) -> None:
        """Start the process, and join the group."""
        self.process = process = Process(self.scheduler, self.name)
        options = self.options
        self.group = Group(
            self.bootstrap,
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
            warm=options.state.options.settings if options.state else None,
            ready_interval=options.state.options.ready_interval_s if options.state else 10.0,
            on_event=self._note,
            dial=self.network.dialler(process),
            sources=Sources(self.scheduler.random.random, process.wall_ms),
        )
        self.task = process.create_task(self._live())

    @property
    def is_running(self) -> bool:
        """Whether it takes part, or wants to."""
        return self.process.is_alive and self.task is not None and not self.task.done()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.observer.died(self)

    def stop(self) -> None:
        """Leave the group in good order."""
        if self.is_running:
            self.process.call_soon(self.group.stop)

    def subscribe(self) -> None:
        """Subscribe to the topics that the options name now."""
        if not self.group.is_over:
            self.group.subscribe(self.options.topics)

    async def _live(self) -> None:
        try:
            async with self.group as group:
                policy = Release() if self.options.fails_on else Restart()
                state = self.options.state
                restore, held = (self._restore, state.held) if state else (None, None)
                await group.run(self._work, warm=restore, held=held, on_error=policy)
        except CoterieError as error:
            self.error = error

    async def _work(self, partition: Partition) -> None:
        self.observer.started(self, partition)
        offset = 0
        try:
            await self._complete_state(partition)
            offset = await self._resume(partition)
            if partition.key in self.options.fails_on:
                raise RuntimeError(f"can't work on {partition}")
            while True:
                await asyncio.sleep(self.scheduler.random.uniform(*self.options.work_s))
                offset += 1
                partition.load(self._load(partition, offset))
                self.observer.acted(self, partition, offset)
                if self.options.state is not None:
                    self.options.state.work(partition.key, offset)
                await self._commit(partition, offset)
        finally:
            await self._finish(partition)
            if offset and self.options.commits_late_s:
                await self._commit_late(partition, offset)

    def _load(self, partition: Partition, offset: int) -> float:
        """Some partitions are more work than others, and at first each is so by turns."""
        varies = self.scheduler.now_s < self.options.loads_vary_s
        return (1 + partition.number % 3) * (1 + offset // 5 % 4 if varies else 1)

    @property
    def acceptable_lag(self) -> int:
        """How far behind its state may be for it to take over."""
        state = self.options.state
        return state.options.settings.acceptable_recovery_lag if state is not None else 0

    async def _complete_state(self, partition: Partition) -> None:
        """Apply what is missing in the state before the work begins."""
        state = self.options.state
        if state is None:
            return
        pace_s = self.scheduler.random.uniform(*state.options.step_s)
        while (lag := state.lag(partition.key)) > 0:
            partition.lag(lag)
            await asyncio.sleep(pace_s)
            state.apply(partition.key)
        partition.lag(0)

    async def _restore(self, standby: Standby) -> None:
        self.observer.restoring(self, standby)
        try:
            await self._apply(standby)
        finally:
            try:
                await asyncio.sleep(self.scheduler.random.uniform(*self.options.finish_s))
            finally:
                self.observer.restore_ended(self, standby)

    async def _apply(self, standby: Standby) -> None:
        state = self.options.state
        assert state is not None
        await self._commit_in_vain(standby)
        pace_s = self.scheduler.random.uniform(*state.options.step_s)
        while True:
            await asyncio.sleep(pace_s)
            self.observer.restored(self, standby)
            state.apply(standby.key)
            standby.lag(state.lag(standby.key))

    async def _commit_in_vain(self, standby: Standby) -> None:
        try:
            await standby.commit(10**9)
        except GroupMisuseError:
            return
        self.observer.committed_standby(self, standby)

    async def _resume(self, partition: Partition) -> int:
        position = await partition.committed()
        offset = position.offset if position is not None else 0
        self.observer.resumed(self, partition, offset)
        return offset

    async def _commit(self, partition: Partition, offset: int) -> None:
        await partition.commit(offset)
        self.observer.committed(self, partition, offset)

    async def _finish(self, partition: Partition) -> None:
        try:
            if partition.is_owned:
                await asyncio.sleep(self.scheduler.random.uniform(*self.options.finish_s))
        finally:
            self.observer.ended(self, partition)

    async def _commit_late(self, partition: Partition, offset: int) -> None:
        """Commit once more, although the partition may have another owner by now."""
        await asyncio.sleep(self.options.commits_late_s)
        try:
            await self._commit(partition, offset)
        except CoterieError:
            return  # it has to be refused if there is another owner

    def _note(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)
