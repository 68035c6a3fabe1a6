"""One task for each partition that is owned.

assigned -> (a former task ends, a pause passes) -> task runs -> returns: rests
                                                             -> raises: policy
                                                             -> revoked: cancelled, ends, released
                                                             -> lost, overran: on its own, but the
                                                                partition's next task waits for it
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from coterie_client.errors import ConfigurationError
from coterie_client.membership import PartitionLostError
from coterie_client.membership.events import Event
from coterie_client.partition import Partition
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.errors import WorkCancelledError, WorkStalledError
from coterie_client.work.events import (
    WorkFailed,
    WorkFailedEnding,
    WorkFinished,
    WorkHeldUp,
    WorkRecovered,
    WorkStalled,
    WorkStarted,
)
from coterie_client.work.pace import Pace
from coterie_client.work.policies import OnStall, Policy, Release, Restart, Stop
from coterie_client.work.watchdog import Watchdog

__all__ = ["Crew", "CrewOptions", "Work"]

#: What a user writes: work on one partition, until it is cancelled.
Work: TypeAlias = Callable[[Partition], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewOptions:
    """What to do when work goes wrong."""

    on_error: Policy
    progress_deadline: float | None = None
    on_stall: OnStall = "report"


@dataclass(slots=True, eq=False)
class _Worker:
    """The work on one partition, while that is ours."""

    partition: Partition
    task: asyncio.Task[object] | None = None
    #: The pause before the next start.
    pause: asyncio.TimerHandle | None = None
    began_s: float = 0.0
    #: Whether we have cancelled its task. That is done once, lest its clean-up be interrupted.
    is_cancelled: bool = False
    #: Whether it can't be awaited, so that trying again would change nothing.
    is_unfit: bool = False
    #: Why we have cancelled it although the partition stays ours.
    stalled: WorkStalledError | None = None

    def cancel(self, reason: str) -> None:
        """Have its task end, if it runs."""
        if self.task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel(reason)


class Crew:
    """Starts, ends and restarts the work on partitions, never two tasks at once on one of them."""

    def __init__(
        self,
        work: Work,
        options: CrewOptions,
        *,
        released: Callable[[Sequence[Partition]], None],
        give_up: Callable[[Partition], None],
        failed: Callable[[], None],
        crash: Callable[[Exception], None],
        report: Callable[[Event], None],
        random: Callable[[], float],
    ) -> None:
        self._work = work
        self._options = options
        self._released = released
        self._give_up = give_up
        self._failed = failed
        self._crash = crash
        self._report = report
        self._random = random
        self._loop = asyncio.get_running_loop()
        # Tasks see what was set where the work was ordered, not where an answer came in.
        self._context = contextvars.copy_context()
        self._watchdog = (
            Watchdog(
                options.progress_deadline,
                partial(self._safely, self._stalled),
                partial(self._safely, self._recovered),
            )
            if options.progress_deadline is not None
            else None
        )
        #: The error that is to end the whole group.
        self.failure: BaseException | None = None
        #: At work, or waiting for their turn.
        self._workers: dict[TopicPartition, _Worker] = {}
        #: Asked to end; their partitions are still ours.
        self._leaving: dict[TopicPartition, _Worker] = {}
        #: Still running, although their partitions are not ours any more.
        self._former: dict[TopicPartition, asyncio.Task[object]] = {}
        self._paces: dict[TopicPartition, Pace] = {}

    @property
    def tasks(self) -> dict[TopicPartition, asyncio.Task[object]]:
        """All tasks that have not ended."""
        workers = (self._workers | self._leaving).items()
        return self._former | {key: each.task for key, each in workers if each.task is not None}

    # -- what the desk tells -------------------------------------------------------------------

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Start work on these."""
        workers = {partition.key: _Worker(partition) for partition in partitions}
        # All are known before anybody is told of the first: who is told may stop the group.
        self._workers |= workers
        for worker in workers.values():
            self._begin(worker)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Cancel work on these; each is released when its task has ended."""
        idle = []
        for partition in partitions:
            worker = self._withdraw(partition)
            if worker.task is None:
                idle.append(partition)
            else:
                self._leaving[partition.key] = worker
                worker.cancel("revoked")
        self._released(idle)

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Cancel work on these; nobody waits for its end, except work on the same partition."""
        for partition in partitions:
            self._disown(partition).cancel(reason)

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Leave these to themselves: they have been cancelled, and did not end in time."""
        for partition in partitions:
            self._disown(partition)

    def ended(self) -> None:
        """The group is over; whatever was ours has been revoked or lost before."""

    def _withdraw(self, partition: Partition) -> _Worker:
        worker = self._workers.pop(partition.key)
        if worker.pause is not None:
            worker.pause.cancel()
        self._unwatch(worker)
        return worker

    def _disown(self, partition: Partition) -> _Worker:
        worker = self._leaving.pop(partition.key, None) or self._withdraw(partition)
        if worker.task is not None:
            self._former[partition.key] = worker.task
        return worker

    def _safely(self, step: Callable[..., None], *args: object) -> None:
        """Take a step that the event loop asks for: a fault of ours must not vanish in its log."""
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001
            self._crash(error)

    # -- starting ------------------------------------------------------------------------------

    def _begin(self, worker: _Worker) -> None:
        """Start work: when a former task has ended, after a pause if it failed a moment ago."""
        key = worker.partition.key
        if self._workers.get(key) is not worker:
            return
        if key in self._former:
            self._report(WorkHeldUp(partition=key))
            return
        pace = self._paces.get(key)
        wait_s = pace.wait_s(self._loop.time()) if pace else 0.0
        if wait_s > 0:
            worker.pause = self._loop.call_later(wait_s, self._safely, self._start, worker)
        else:
            self._start(worker)

    def _start(self, worker: _Worker) -> None:
        partition = worker.partition
        worker.pause, worker.stalled, worker.is_cancelled = None, None, False
        worker.began_s = self._loop.time()
        worker.task = self._loop.create_task(
            self._run(worker), name=str(partition), context=self._context.copy()
        )
        worker.task.add_done_callback(partial(self._safely, self._ended, worker))
        if self._watchdog is not None:
            self._watchdog.watch(partition)
        self._report(WorkStarted(partition=partition.key, token=partition.token))

    async def _run(self, worker: _Worker) -> object:
        working = self._work(worker.partition)
        if not inspect.isawaitable(working):
            worker.is_unfit = True
            kind = "None" if working is None else f"a value of type {type(working).__name__}"
            raise ConfigurationError(
                f"work must be an async function, and this one returned {kind}, which can't be"
                " awaited"
            )
        return await working

    # -- ending --------------------------------------------------------------------------------

    def _ended(self, worker: _Worker, task: asyncio.Task[object]) -> None:
        key = worker.partition.key
        worker.task = None
        error = _error_of(task, worker)
        if self._former.get(key) is task:
            del self._former[key]
            self._note_ending(worker, error)
            if key in self._workers:
                self._begin(self._workers[key])
        elif self._leaving.get(key) is worker:
            del self._leaving[key]
            self._note_ending(worker, error)
            self._released([worker.partition])
        else:
            self._unwatch(worker)
            self._judge(worker, error)

    def _note_ending(self, worker: _Worker, error: BaseException | None) -> None:
        """Tell if work failed after it was cancelled.

        A commit that came too late is no news, nor is it that what can't be awaited here could not
        be awaited elsewhere.
        """
        is_news = not (
            worker.is_unfit or isinstance(error, WorkCancelledError | PartitionLostError)
        )
        if error is not None and is_news:
            self._report(WorkFailedEnding(partition=worker.partition.key, exception=error))

    def _judge(self, worker: _Worker, error: BaseException | None) -> None:
        """Work has ended although its partition stays ours."""
        key = worker.partition.key
        if error is None:
            self._report(WorkFinished(partition=key))
            return
        if worker.is_unfit and self.failure is not None:
            return  # the same was said of another partition
        policy, pause_s = self._policy(worker), 0.0
        if policy != "stop":
            pause_s = self._pace(key).failed(worker.began_s, self._loop.time())
        self._report(
            WorkFailed(
                partition=key,
                exception=error,
                is_raised=policy == "stop" and self.failure is None,
                policy=policy,
                pause_s=pause_s,
            )
        )
        if policy == "stop":
            self._fail(worker, error)
        elif policy == "restart":
            self._begin(worker)
        elif self._workers.get(key) is worker:
            del self._workers[key]
            self._give_up(worker.partition)

    def _policy(self, worker: _Worker) -> str:
        if worker.is_unfit:
            return "stop"
        if worker.stalled is not None:
            return self._options.on_stall
        match self._options.on_error:
            case Stop():
                return "stop"
            case Release():
                return "release"
            case Restart():
                return "restart"

    def _pace(self, key: TopicPartition) -> Pace:
        return self._paces.setdefault(key, Pace(self._options.on_error, self._random))

    def _fail(self, worker: _Worker, error: BaseException) -> None:
        if self.failure is None:
            error.add_note(f"It was raised by the work on {worker.partition}.")
            self.failure = error
            self._failed()

    # -- watching ------------------------------------------------------------------------------

    def _unwatch(self, worker: _Worker) -> None:
        if self._watchdog is not None:
            self._watchdog.unwatch(worker.partition)

    def _stalled(self, partition: Partition, stalled_s: float) -> None:
        worker, action = self._workers[partition.key], self._options.on_stall
        self._report(
            WorkStalled(
                partition=partition.key,
                stalled_s=round(stalled_s, 3),
                position=partition.position,
                action=action,
            )
        )
        if action != "report":
            worker.stalled = WorkStalledError(f"no progress for {stalled_s:.3g} s")
            worker.cancel("no progress")

    def _recovered(self, partition: Partition, stalled_s: float) -> None:
        self._report(WorkRecovered(partition=partition.key, stalled_s=round(stalled_s, 3)))


def _error_of(task: asyncio.Task[object], worker: _Worker) -> BaseException | None:
    error = None if task.cancelled() else task.exception()
    if worker.stalled is not None:
        worker.stalled.__cause__ = error
        return worker.stalled
    if task.cancelled():
        return WorkCancelledError("it ended with a CancelledError, and nobody had cancelled it")
    return error
