"""Virtual time, and everything that waits for it."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from coterie_testing.virtual.process import Process

__all__ = ["IdleError", "World"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Where virtual time begins: some moment in 2023, so that dates look like dates.
EPOCH_S = 1_700_000_000.0

#: So many steps without time passing are the sign of something that goes round in circles.
_STEPS_AT_ONCE = 200_000


class IdleError(RuntimeError):
    """What was waited for does not happen: nothing is left to do, or the same for ever."""


class World:
    """Processes that take turns, by what is due first.

    A step is one callback of one process, or one thing that happens outside of all of them.
    """

    def __init__(self, seed: int = 0) -> None:
        #: The only source of chance.
        self.random = random.Random(seed)  # noqa: S311  # no secrets in here
        #: Seconds since the world began; it only moves when nothing is left to do at a moment.
        self.now_s = 0.0
        #: How many steps have been taken.
        self.steps = 0
        #: When time last moved, and how many steps had been taken by then.
        self._moved_s = 0.0
        self._moved_at = 0
        self.processes: list[Process] = []
        self._ready: deque[tuple[Process, asyncio.Handle]] = deque()
        self._agenda: list[tuple[float, int, Process | None, asyncio.Handle]] = []
        self._entries = 0
        #: Called after each step; a checker that raises ends the run.
        self.watch: Callable[[], None] | None = None

    @property
    def now_ms(self) -> int:
        """The date in milliseconds since 1970, as a clock without a fault shows it."""
        return round((EPOCH_S + self.now_s) * 1000)

    # -- what processes and networks ask for ---------------------------------------------------

    def soon(self, process: Process, handle: asyncio.Handle) -> None:
        """Have a callback of a process run as soon as it is its turn."""
        self._ready.append((process, handle))

    def sooner(self, process: Process, handles: Collection[asyncio.Handle]) -> None:
        """Have callbacks of a process run in their order, before all others that are its turn."""
        self._ready.extendleft((process, handle) for handle in reversed(tuple(handles)))

    def at(self, when_s: float, process: Process | None, handle: asyncio.Handle) -> None:
        """Have a callback run at a moment."""
        self._entries += 1
        heapq.heappush(self._agenda, (when_s, self._entries, process, handle))

    def after(
        self, delay_s: float, what: Callable[[Unpack[Ts]], object], *arguments: *Ts
    ) -> Happening:
        """Have something happen outside of all processes."""
        return self.when(self.now_s + delay_s, what, *arguments)

    def when(
        self, when_s: float, what: Callable[[Unpack[Ts]], object], *arguments: *Ts
    ) -> Happening:
        """Have something happen at a moment, behind what is to happen at the very same."""
        happening = Happening(what, arguments)
        self.at(when_s, None, happening)
        return happening

    # -- steps ---------------------------------------------------------------------------------

    def step(self, until_s: float | None = None) -> bool:
        """Do the next thing; False if there is none until then."""
        if self._ready:
            process, handle = self._ready.popleft()
            self._run(process, handle)
            return True
        if not self._agenda or (until_s is not None and self._agenda[0][0] > until_s):
            return False
        when_s, _, owner, handle = heapq.heappop(self._agenda)
        self.now_s = max(self.now_s, when_s)
        if owner is not None:
            self._run(owner, handle)
        elif not handle.cancelled():
            handle._run()  # noqa: SLF001  # what a loop does with its handles
            self._count()
        return True

    def _run(self, process: Process, handle: asyncio.Handle) -> None:
        if process.is_dead or handle.cancelled():
            return
        if process.is_paused:
            process.miss(handle)
            return
        # Whoever runs the world may itself be run by a loop.
        outer = asyncio._get_running_loop()  # noqa: SLF001  # what a loop does
        asyncio._set_running_loop(process)  # noqa: SLF001
        try:
            handle._run()  # noqa: SLF001
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001
        self._count()

    def _count(self) -> None:
        self.steps += 1
        if self.now_s > self._moved_s:
            self._moved_s, self._moved_at = self.now_s, self.steps
        elif self.steps - self._moved_at > _STEPS_AT_ONCE:
            raise IdleError(f"time stands still at {self.now_s:g} s: somebody is busy for ever")
        if self.watch is not None:
            self.watch()

    def run(self, seconds: float) -> None:
        """Let time pass, and what is due in it happen."""
        until_s = self.now_s + seconds
        while self.step(until_s):
            pass
        self.now_s = max(self.now_s, until_s)

    def run_until(self, done: Callable[[], bool], within_s: float = 600.0) -> None:
        """Let time pass until something is so; raise `IdleError` if it never is."""
        until_s = self.now_s + within_s
        while not done():
            if not self.step(until_s):
                raise IdleError(f"waited {within_s:g} s for what did not happen")

    def run_in(self, process: Process, work: Coroutine[Any, Any, T], within_s: float = 600.0) -> T:
        """Run a coroutine in a process to its end, and all else meanwhile."""
        task = process.create_task(work)
        self.run_until(task.done, within_s)
        return task.result()

    def end(self) -> None:
        """Stop everything, as if by pulling the plug."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.bury()


class Happening(asyncio.Handle):
    """Something that happens outside of all processes."""

    def __init__(self, what: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._what = what
        self._arguments = arguments
        self._is_cancelled = False

    def cancel(self) -> None:
        """Have it not happen."""
        self._is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it is not to happen."""
        return self._is_cancelled

    def _run(self) -> None:
        self._what(*self._arguments)
