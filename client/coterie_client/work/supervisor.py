"""Supervises one task for each owned partition.

assigned -> (wait for a former task, then for a back-off) -> the task runs, and it
    returns:            the partition rests until it is assigned again
    raises:             the policy applies: restart, release or stop
    is revoked:         the task is cancelled; when it has ended, the partition is released
    is lost or overran: the task ends by itself, but the partition's next task waits for that
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from coterie_client.errors import WorkCancelledError, WorkStalledError
from coterie_client.membership import PartitionLostError
from coterie_client.membership.events import Event
from coterie_client.partition import Partition
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.callables import NotAwaitableError, awaited
from coterie_client.work.events import (
    WorkFailed,
    WorkFailedEnding,
    WorkFinished,
    WorkHeldUp,
    WorkRecovered,
    WorkStalled,
    WorkStarted,
)
from coterie_client.work.policies import (
    OnStall,
    Policy,
    Release,
    Restart,
    RestartBackoff,
    Stop,
)
from coterie_client.work.watchdog import Watchdog

__all__ = ["SupervisorOptions", "TaskSupervisor", "Work"]

#: How long a restore may take to end before it is told that work waits for it.
_PROMOTION_S: Final = 5.0

#: What a user writes: works on one partition until it is cancelled.
Work: TypeAlias = Callable[[Partition], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """What to do when work fails or stalls."""

    on_error: Policy
    progress_deadline: float | None = None
    on_stall: OnStall = "report"


@dataclass(slots=True, eq=False)
class _Job:
    """The work on one partition, while that is owned."""

    partition: Partition
    task: asyncio.Task[object] | None = None
    #: The back-off before the next start.
    timer: asyncio.TimerHandle | None = None
    began_s: float = 0.0
    #: Whether its task was cancelled from here: only once, lest its clean-up be interrupted.
    is_cancelled: bool = False
    #: Whether the work can't be awaited, so that a restart would change nothing.
    is_unawaitable: bool = False
    #: Whether it waits for a former task of its partition, or for a restore.
    is_held_up: bool = False
    #: Why it was cancelled although the partition stays owned.
    stalled: WorkStalledError | None = None

    def cancel(self, reason: str) -> None:
        """Cancel its task, if it runs."""
        if self.task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel(reason)


class Restores(Protocol):
    """Runs restores of partitions that are not worked on here."""

    def is_running(self, partition: TopicPartition) -> bool:
        """Whether a restore of a partition goes on, even if it was cancelled."""
        ...

    def review(self) -> None:
        """Start what has waited for work to end."""
        ...


class TaskSupervisor:
    """Starts, cancels and restarts the work on partitions; never two tasks at once for one."""

    def __init__(
        self,
        work: Work,
        options: SupervisorOptions,
        *,
        released: Callable[[Sequence[Partition]], None],
        give_up: Callable[[Partition], None],
        failed: Callable[[], None],
        crash: Callable[[Exception], None],
        emit: Callable[[Event], None],
        random: Callable[[], float],
    ) -> None:
        self._work = work
        self._options = options
        self._released = released
        self._give_up = give_up
        self._failed = failed
        self._crash = crash
        self._emit = emit
        self._random = random
        self._loop = asyncio.get_running_loop()
        # Tasks see the context variables of `run`, not those of the task that reads the network.
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
        #: The error that ends the whole group.
        self.failure: BaseException | None = None
        #: What keeps standbys up to date, never beside work on the same partition.
        self.restores: Restores | None = None
        #: Running, or waiting to start.
        self._active: dict[TopicPartition, _Job] = {}
        #: Revoked and cancelled; their partitions are still owned.
        self._ending: dict[TopicPartition, _Job] = {}
        #: Still running, although their partitions are no longer owned.
        self._former: dict[TopicPartition, asyncio.Task[object]] = {}
        self._backoffs: dict[TopicPartition, RestartBackoff] = {}

    @property
    def tasks(self) -> dict[TopicPartition, asyncio.Task[object]]:
        """All tasks that have not ended."""
        jobs = (self._active | self._ending).items()
        return self._former | {key: job.task for key, job in jobs if job.task is not None}

    def is_at_work(self, partition: TopicPartition) -> bool:
        """Whether work on a partition goes on, or waits to begin."""
        return any(partition in each for each in (self._active, self._ending, self._former))

    # -- changes of ownership ------------------------------------------------------------------

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Start work on these."""
        jobs = {partition.key: _Job(partition) for partition in partitions}
        # Register all before the first event: its handler may stop the group.
        self._active |= jobs
        for job in jobs.values():
            self._begin(job)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Cancel work on these; each is released when its task has ended."""
        idle = []
        for partition in partitions:
            job = self._withdraw(partition)
            if job.task is None:
                idle.append(partition)
            else:
                self._ending[partition.key] = job
                job.cancel("revoked")
        self._released(idle)
        self._vacated()

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Cancel work on these; only the next work on the same partition waits for its end."""
        for partition in partitions:
            self._disown(partition).cancel(reason)
        self._vacated()

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Stop waiting for these: they were cancelled and did not end in time."""
        for partition in partitions:
            self._disown(partition)

    def ended(self) -> None:
        """The group is over; all partitions have been revoked or lost before."""

    def _withdraw(self, partition: Partition) -> _Job:
        job = self._active.pop(partition.key)
        if job.timer is not None:
            job.timer.cancel()
        self._unwatch(job)
        return job

    def _disown(self, partition: Partition) -> _Job:
        job = self._ending.pop(partition.key, None) or self._withdraw(partition)
        if job.task is not None:
            self._former[partition.key] = job.task
        return job

    def _safely(self, step: Callable[..., None], *args: object) -> None:
        """Call a step from the event loop; a bug here must end the group, not vanish in its log."""
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001
            self._crash(error)

    # -- starting ------------------------------------------------------------------------------

    def _begin(self, job: _Job) -> None:
        """Start work once a former task has ended, and after a back-off if it failed before."""
        key = job.partition.key
        if self._active.get(key) is not job:
            return
        job.is_held_up = key in self._former or self._is_restoring(key)
        if key in self._former:
            self._emit(WorkHeldUp(partition=key))
        elif job.is_held_up:
            self._loop.call_later(_PROMOTION_S, self._safely, self._complain, job)
        if job.is_held_up:
            return
        backoff = self._backoffs.get(key)
        wait_s = backoff.wait_s(self._loop.time()) if backoff else 0.0
        if wait_s > 0:
            job.timer = self._loop.call_later(wait_s, self._safely, self._start, job)
        else:
            self._start(job)

    def _complain(self, job: _Job) -> None:
        """Tell of work that still can't start."""
        key = job.partition.key
        if job.is_held_up and self._active.get(key) is job:
            self._emit(WorkHeldUp(partition=key))

    def _is_restoring(self, partition: TopicPartition) -> bool:
        return self.restores is not None and self.restores.is_running(partition)

    def _vacated(self) -> None:
        """Work may have ended for which restores wait."""
        if self.restores is not None:
            self.restores.review()

    def restore_ended(self, partition: TopicPartition) -> None:
        """Start work that has waited for a restore to end."""
        job = self._active.get(partition)
        if job is not None and job.is_held_up:
            self._begin(job)

    def _start(self, job: _Job) -> None:
        partition = job.partition
        job.timer, job.stalled, job.is_cancelled = None, None, False
        job.began_s = self._loop.time()
        if self._watchdog is not None:
            self._watchdog.watch(partition)
        job.task = self._loop.create_task(
            self._run(job), name=str(partition), context=self._context.copy()
        )
        job.task.add_done_callback(partial(self._safely, self._ended, job))
        self._emit(WorkStarted(partition=partition.key, token=partition.token))

    async def _run(self, job: _Job) -> object:
        # An eager task runs before it is returned, and may have its own partition revoked.
        job.task = asyncio.current_task()
        try:
            return await awaited(self._work, job.partition, "work")
        except NotAwaitableError:
            job.is_unawaitable = True
            raise

    # -- ending --------------------------------------------------------------------------------

    def _ended(self, job: _Job, task: asyncio.Task[object]) -> None:
        key = job.partition.key
        job.task = None
        error = _error_of(task)
        if self._former.get(key) is task:
            del self._former[key]
            self._emit_ending_failure(job, error)
            if key in self._active:
                self._begin(self._active[key])
            self._vacated()
        elif self._ending.get(key) is job:
            del self._ending[key]
            self._emit_ending_failure(job, error)
            self._released([job.partition])
            self._vacated()
        else:
            self._unwatch(job)
            if job.stalled is not None:
                job.stalled.__cause__ = None if task.cancelled() else error
                error = job.stalled
            self._apply_policy(job, error)

    def _emit_ending_failure(self, job: _Job, error: BaseException | None) -> None:
        """Emit an event if work failed after it was cancelled.

        A commit that came too late is expected, and that work can't be awaited was said before.
        """
        is_expected = job.is_unawaitable or isinstance(
            error, WorkCancelledError | PartitionLostError
        )
        if error is not None and not is_expected:
            self._emit(WorkFailedEnding(partition=job.partition.key, exception=error))

    def _apply_policy(self, job: _Job, error: BaseException | None) -> None:
        """Act on work that ended although its partition stays owned."""
        key = job.partition.key
        if error is None:
            self._emit(WorkFinished(partition=key))
            return
        if job.is_unawaitable and self.failure is not None:
            return  # reported for another partition already
        policy, pause_s = self._policy(job), 0.0
        if policy != "stop":
            pause_s = self._backoff(key).failed(job.began_s, self._loop.time())
        self._emit(
            WorkFailed(
                partition=key,
                exception=error,
                is_raised=policy == "stop" and self.failure is None,
                policy=policy,
                pause_s=pause_s,
            )
        )
        if policy == "stop":
            self._fail(job, error)
        elif policy == "restart":
            self._begin(job)
        elif self._active.get(key) is job:
            del self._active[key]
            self._give_up(job.partition)
            self._vacated()

    def _policy(self, job: _Job) -> str:
        if job.is_unawaitable:
            return "stop"
        if job.stalled is not None:
            return self._options.on_stall
        match self._options.on_error:
            case Stop():
                return "stop"
            case Release():
                return "release"
            case Restart():
                return "restart"

    def _backoff(self, key: TopicPartition) -> RestartBackoff:
        return self._backoffs.setdefault(key, RestartBackoff(self._options.on_error, self._random))

    def _fail(self, job: _Job, error: BaseException) -> None:
        if self.failure is None:
            error.add_note(f"Raised by the work on {job.partition}.")
            self.failure = error
            self._failed()

    # -- watching ------------------------------------------------------------------------------

    def _unwatch(self, job: _Job) -> None:
        if self._watchdog is not None:
            self._watchdog.unwatch(job.partition)

    def _stalled(self, partition: Partition, stalled_s: float) -> None:
        job, action = self._active[partition.key], self._options.on_stall
        self._emit(
            WorkStalled(
                partition=partition.key,
                stalled_s=round(stalled_s, 3),
                position=partition.position,
                action=action,
            )
        )
        if action != "report" and self._active.get(partition.key) is job:
            job.stalled = WorkStalledError(f"no progress for {stalled_s:.3g} s")
            job.cancel("no progress")

    def _recovered(self, partition: Partition, stalled_s: float) -> None:
        self._emit(WorkRecovered(partition=partition.key, stalled_s=round(stalled_s, 3)))


def _error_of(task: asyncio.Task[object]) -> BaseException | None:
    if task.cancelled():
        return WorkCancelledError(
            "work ended with a CancelledError although the group had not cancelled it"
        )
    return task.exception()
