"""Checks of passwords: a few at a time, in threads, and in turns between those who ask.

A check takes a processor some milliseconds.  A flood of wrong passwords from one address at one
listener waits behind itself: each address at each listener has its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from coterie_server.security.sasl import Accepted, Check, LoginRefusedError

__all__ = ["CheckQueue", "CheckThreads", "Checked", "Job"]

#: More would take the processors from the event loop, and so from the members of groups.
_AT_ONCE: Final = 2
#: How far the threads stand behind the event loop where both want a processor.
_NICENESS: Final = 10

Checked = Accepted | LoginRefusedError | Exception
"""What a check has come to; any other exception is a bug."""

Start = Callable[[Callable[[], None], Callable[[], None]], None]
"""Has the first function called in some thread, and then the second one in the event loop."""


class Job:
    """A check that waits for its turn, or for its end."""

    __slots__ = ("_check", "_done", "_outcome")

    def __init__(self, check: Check, done: Callable[[Checked], None]) -> None:
        self._check = check
        self._done: Callable[[Checked], None] | None = done
        self._outcome: Checked

    @property
    def is_cancelled(self) -> bool:
        """Whether no client waits for it."""
        return self._done is None

    def cancel(self) -> None:
        """Call nothing at the end, and don't begin if that has not happened yet."""
        self._done = None

    def run(self) -> None:
        """Do it, in a thread."""
        try:
            self._outcome = self._check.run()
        except Exception as error:  # noqa: BLE001  # whatever it is, a client waits for the end
            self._outcome = error

    def finish(self) -> None:
        """Tell what it has come to, and forget it: an error's traceback leads back here."""
        outcome, done = self._outcome, self._done
        del self._outcome
        self._done = None
        if done is not None:
            done(outcome)


class CheckQueue:
    """Lets checks wait for their turn."""

    def __init__(self, start: Start, at_once: int = _AT_ONCE) -> None:
        self._start = start
        self._free = at_once
        #: What waits, by who asks; in the order in which they have their turns.
        self._waiting: dict[Hashable, deque[Job]] = {}

    def add(self, asker: Hashable, check: Check, done: Callable[[Checked], None]) -> Job:
        """Have a check done, and `done` called with what it has come to."""
        job = Job(check, done)
        self._waiting.setdefault(asker, deque()).append(job)
        self._go_on()
        return job

    def _go_on(self) -> None:
        while self._free and (job := self._next()) is not None:
            self._free -= 1
            self._start(job.run, lambda job=job: self._finish(job))  # type: ignore[misc]  # the default binds this job

    def _next(self) -> Job | None:
        while self._waiting:
            asker, jobs = next(iter(self._waiting.items()))
            del self._waiting[asker]
            while jobs and jobs[0].is_cancelled:
                jobs.popleft()
            if jobs:
                job = jobs.popleft()
                if jobs:
                    self._waiting[asker] = jobs  # behind the others
                return job
        return None

    def _finish(self, job: Job) -> None:
        self._free += 1
        try:
            job.finish()
        finally:
            self._go_on()


class CheckThreads:
    """The threads in which checks are done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            _AT_ONCE, thread_name_prefix="coterie-logins", initializer=_stand_back
        )

    def start(self, run: Callable[[], None], finish: Callable[[], None]) -> None:
        """As `Start` says."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, run)
        running.add_done_callback(lambda _: finish())

    async def close(self) -> None:
        """Wait for what is being done."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)


def _stand_back() -> None:
    """Let the event loop have a processor first, where the system knows of threads' priorities."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
