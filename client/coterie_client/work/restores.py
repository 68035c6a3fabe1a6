"""Supervises one restore for each standby.

held -> (wait for work on the partition to end, then for a back-off) -> the restore runs, and it
    returns:       its partition's state is left as it is, and counts with the lag that it told last
    raises:        it is started again, after a pause
    is withdrawn:  it is cancelled; work on the partition begins when it has ended, and not before
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from coterie_client.errors import WorkCancelledError
from coterie_client.membership.events import Event
from coterie_client.standby import Standby
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.callables import NotAwaitableError, awaited
from coterie_client.work.events import RestoreFailed, RestoreFinished, RestoreStarted
from coterie_client.work.policies import Restart, RestartBackoff

__all__ = ["Restore", "RestoreSupervisor"]

_UNASKED: Final = "a restore ended with a CancelledError although the group had not cancelled it"

#: What a user writes: keeps the state of one partition up to date until it is cancelled.
Restore: TypeAlias = Callable[[Standby], Awaitable[object]]


@dataclass(slots=True, eq=False)
class _Job:
    """The restore of one standby."""

    standby: Standby
    task: asyncio.Task[object] | None = None
    #: The back-off before the next start.
    timer: asyncio.TimerHandle | None = None
    began_s: float = 0.0
    #: Whether it has returned, so that it is not started again.
    is_done: bool = False


class WorkSupervisor(Protocol):
    """Runs the work on partitions; it calls `review` when some of it may have ended."""

    def is_at_work(self, partition: TopicPartition) -> bool:
        """Whether work on a partition goes on, or waits to begin."""
        ...

    def restore_ended(self, partition: TopicPartition) -> None:
        """Start work that has waited for a restore to end."""
        ...


class RestoreSupervisor:
    """Starts, cancels and restarts restores; none runs beside work on its partition."""

    def __init__(
        self,
        restore: Restore,
        *,
        beside: WorkSupervisor,
        failed: Callable[[], None],
        crash: Callable[[Exception], None],
        emit: Callable[[Event], None],
        random: Callable[[], float],
    ) -> None:
        self._restore = restore
        self._beside = beside
        self._failed = failed
        #: The error that ends the whole group: the restore can't be awaited.
        self.failure: BaseException | None = None
        self._crash = crash
        self._emit = emit
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        #: Running, or waiting to start, or done.
        self._jobs: dict[TopicPartition, _Job] = {}
        #: Cancelled, and still running.
        self._former: dict[TopicPartition, asyncio.Task[object]] = {}
        self._backoffs: dict[TopicPartition, RestartBackoff] = {}

    @property
    def tasks(self) -> dict[TopicPartition, asyncio.Task[object]]:
        """All tasks that have not ended."""
        running = {key: job.task for key, job in self._jobs.items() if job.task is not None}
        return running | self._former

    def is_running(self, partition: TopicPartition) -> bool:
        """Whether a restore of a partition goes on, even if it was cancelled."""
        job = self._jobs.get(partition)
        return partition in self._former or (job is not None and job.task is not None)

    # -- what is to be kept up to date ---------------------------------------------------------

    def held(self, standbys: Sequence[Standby]) -> None:
        """Start restoring these, as soon as no work on them goes on."""
        jobs = {standby.key: _Job(standby) for standby in standbys}
        self._jobs |= jobs
        for job in jobs.values():
            self._begin(job)

    def withdrawn(self, standbys: Sequence[Standby]) -> None:
        """Cancel the restores of these."""
        for standby in standbys:
            job = self._jobs.pop(standby.key)
            if job.timer is not None:
                job.timer.cancel()
            if job.task is not None:
                self._former[standby.key] = job.task
                job.task.cancel("withdrawn")

    def review(self) -> None:
        """Start what has waited for work to end."""
        for job in list(self._jobs.values()):
            if job.task is None and job.timer is None and not job.is_done:
                self._begin(job)

    def _safely(self, step: Callable[..., None], *args: object) -> None:
        """Call a step from the event loop; a bug here must end the group, not vanish in its log."""
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001
            self._crash(error)

    # -- starting and ending -------------------------------------------------------------------

    def _begin(self, job: _Job) -> None:
        key = job.standby.key
        if self._jobs.get(key) is not job or key in self._former or self._beside.is_at_work(key):
            return
        backoff = self._backoffs.get(key)
        wait_s = backoff.wait_s(self._loop.time()) if backoff else 0.0
        if wait_s > 0:
            job.timer = self._loop.call_later(wait_s, self._safely, self._wake, job)
        else:
            self._start(job)

    def _wake(self, job: _Job) -> None:
        job.timer = None
        self._begin(job)

    def _start(self, job: _Job) -> None:
        standby = job.standby
        job.began_s = self._loop.time()
        job.task = self._loop.create_task(
            self._run(job),
            name=f"{standby} {standby.role.value}",
            context=self._context.copy(),
        )
        job.task.add_done_callback(partial(self._safely, self._ended, job))
        self._emit(RestoreStarted(partition=standby.key, role=standby.role.value))

    async def _run(self, job: _Job) -> object:
        # An eager task runs before it is returned, and may have its own standby withdrawn.
        job.task = asyncio.current_task()
        return await awaited(self._restore, job.standby, "warm")

    def _ended(self, job: _Job, task: asyncio.Task[object]) -> None:
        key = job.standby.key
        job.task = None
        if self._former.get(key) is task:
            del self._former[key]
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._emit(RestoreFailed(partition=key, exception=error, pause_s=0.0))
            self._beside.restore_ended(key)
            self.review()
            return
        error = task.exception() if not task.cancelled() else WorkCancelledError(_UNASKED)
        if error is None:
            job.is_done = True
            self._emit(RestoreFinished(partition=key))
            return
        if isinstance(error, NotAwaitableError):
            self._fail(job, error)
            return
        backoff = self._backoffs.setdefault(key, RestartBackoff(Restart(), self._random))
        pause_s = backoff.failed(job.began_s, self._loop.time())
        self._emit(RestoreFailed(partition=key, exception=error, pause_s=pause_s))
        job.standby.restore_failed()
        self._begin(job)

    def _fail(self, job: _Job, error: BaseException) -> None:
        """End the group: to start the restore again would change nothing."""
        job.is_done = True
        if self.failure is None:
            self.failure = error
            key = job.standby.key
            self._emit(RestoreFailed(partition=key, exception=error, is_raised=True, pause_s=0.0))
            self._failed()
