"""The deterministic scheduler: virtual time, and the order in which everything runs."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVarTuple, Unpack

__all__ = ["EPOCH_S", "ExternalCall", "IdleError", "Scheduled", "Scheduler"]

Ts = TypeVarTuple("Ts")

#: Where virtual time begins: some moment in 2023, so that dates look like dates.
EPOCH_S = 1_700_000_000.0

#: After this many steps without time passing, a process is taken to be in an endless loop.
_STEPS_AT_ONCE = 200_000


class IdleError(RuntimeError):
    """What was waited for can't happen: nothing is left to do, or a process loops for ever."""


class Scheduled(Protocol):
    """What the scheduler knows of a process."""

    name: str
    errors: list[dict[str, Any]]

    def run(self, handle: asyncio.Handle) -> bool:
        """Run a callback that is due; False if the process is in no state to."""

    def kill(self) -> None:
        """End the process at once."""

    def discard_tasks(self) -> None:
        """Close what a killed process left unfinished."""


class Scheduler:
    """Runs the callbacks of all processes, by what is due first.

    A step is one callback of one process, or one call from outside of all of them.
    """

    def __init__(self, seed: int = 0) -> None:
        #: The only source of randomness.
        self.random = random.Random(seed)  # noqa: S311  # no secrets in here
        #: Seconds since the start. Time moves only when nothing is left to do at this moment.
        self.now_s = 0.0
        #: How many steps have been taken.
        self.steps = 0
        #: When time last moved, and how many steps had been taken by then.
        self._moved_s = 0.0
        self._moved_at = 0
        self.processes: list[Scheduled] = []
        self._ready: deque[tuple[Scheduled, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, Scheduled | None, asyncio.Handle]] = []
        self._entries = 0

    @property
    def now_ms(self) -> int:
        """The date in milliseconds since 1970, as a clock without an error shows it."""
        return round((EPOCH_S + self.now_s) * 1000)

    # -- scheduling ----------------------------------------------------------------------------

    def call_soon(self, process: Scheduled, handle: asyncio.Handle) -> None:
        """Run a callback of a process behind all that are ready."""
        self._ready.append((process, handle))

    def call_first(self, process: Scheduled, handles: Collection[asyncio.Handle]) -> None:
        """Run callbacks of a process in their order, before all others that are ready."""
        self._ready.extendleft((process, handle) for handle in reversed(tuple(handles)))

    def call_at(self, when_s: float, process: Scheduled | None, handle: asyncio.Handle) -> None:
        """Run a callback at a time."""
        self._entries += 1
        heapq.heappush(self._timers, (when_s, self._entries, process, handle))

    def after(
        self, delay_s: float, callback: Callable[[Unpack[Ts]], object], *arguments: *Ts
    ) -> ExternalCall:
        """Call something from outside of all processes after a delay."""
        return self.at(self.now_s + delay_s, callback, *arguments)

    def at(
        self, when_s: float, callback: Callable[[Unpack[Ts]], object], *arguments: *Ts
    ) -> ExternalCall:
        """Call something from outside at a time, behind what is already due at the very same."""
        call = ExternalCall(callback, arguments)
        self.call_at(when_s, None, call)
        return call

    # -- steps ---------------------------------------------------------------------------------

    def step(self, until_s: float | None = None) -> bool:
        """Take the next step; False if none is due by then."""
        if self._ready:
            process, handle = self._ready.popleft()
            if process.run(handle):
                self._count()
            return True
        if not self._timers or (until_s is not None and self._timers[0][0] > until_s):
            return False
        when_s, _, owner, handle = heapq.heappop(self._timers)
        self.now_s = max(self.now_s, when_s)
        if owner is not None:
            if owner.run(handle):
                self._count()
        elif not handle.cancelled():
            handle._run()  # noqa: SLF001  # what a loop does with its handles
            self._count()
        return True

    def _count(self) -> None:
        self.steps += 1
        if self.now_s > self._moved_s:
            self._moved_s, self._moved_at = self.now_s, self.steps
        elif self.steps - self._moved_at > _STEPS_AT_ONCE:
            raise IdleError(f"time stands still at {self.now_s:g} s: a process loops for ever")

    def run(self, seconds: float) -> None:
        """Let time pass, and take all steps that are due in it."""
        until_s = self.now_s + seconds
        while self.step(until_s):
            pass
        self.now_s = max(self.now_s, until_s)

    def run_until(self, done: Callable[[], bool], within_s: float = 600.0) -> None:
        """Let time pass until a condition holds; raise `IdleError` if it never does."""
        until_s = self.now_s + within_s
        while not done():
            if not self.step(until_s):
                raise IdleError(f"waited {within_s:g} s for a condition that did not come true")

    def close(self) -> None:
        """Kill all processes, as if by pulling the plug, and close what they left unfinished."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.discard_tasks()


class ExternalCall(asyncio.Handle):
    """A call from outside of all processes."""

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._function = callback
        self._arguments = arguments
        self._is_cancelled = False

    def cancel(self) -> None:
        """Have it not happen."""
        self._is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it was called off."""
        return self._is_cancelled

    def _run(self) -> None:
        self._function(*self._arguments)
