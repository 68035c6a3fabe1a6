"""Turns: an event loop stands aside for a moment, so that a thread can have Python's lock.

Left to themselves, the two compete for it.  A busy loop lets go of the lock with every request, and
each time wakes the thread on another core, but has the lock back before the thread is there: that
took a quarter of a commit's processor time.  So the thread asks for a turn, waits until it has one,
and the loop does nothing meanwhile.

A thread that comes back from the disk can't ask before it has the lock.  So the loop learns how
long the disk takes, and stands aside between two requests when the thread is expected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sized
from typing import Final

__all__ = ["Turns"]

#: How long the loop stands aside at most.  A thread that takes longer, as when the disk stalls,
#: goes on without a turn.
LONGEST_S: Final = 0.002
#: How long it does so for a thread that is expected, and may be late.
AWAITED_S: Final = 0.0004
#: How long the disk is expected to take at first.
FIRST_GUESS_S: Final = 0.001
#: A thread that comes so soon was there already.
_AT_ONCE_S: Final = 0.00005


class Turns:
    """The turns of one thread that works for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_due = False  # only the loop uses it
        # Set by the thread when it asks, and cleared by the loop when it gives a turn.
        self._is_asking = False
        self._begins = _held()
        self._ends = _held()
        # How long the disk takes; when the thread left for it, and when it came back.
        self._expected_s = FIRST_GUESS_S
        self._left_at = self._came_at = self._took_s = 0.0
        # Whether it is away, and the loop has not looked out for it yet.
        self._is_away = False
        # Whether the loop is standing aside for it though it has not asked.
        self._is_awaited = False

    # -- the event loop's side -----------------------------------------------------------------

    def give_soon(self) -> None:
        """Give the thread a turn after what is ready to run now, if it wants one by then."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._give)

    def _give(self) -> None:
        self._is_due = False
        if not self._is_asking:
            return
        self._is_asking = False
        # A new one for each turn: a thread that took too long ends a turn that nobody waits for.
        self._ends = ends = _held()
        self._begins.release()
        ends.acquire(timeout=LONGEST_S)

    def give_way(self) -> None:
        """Give the thread a turn if it should be back from the disk by now.

        Call it often, between pieces of work.
        """
        if self._is_away and time.perf_counter() >= self._left_at + self._expected_s:
            self._await_thread()

    def _await_thread(self) -> None:
        self._is_away = False
        self._ends = ends = _held()
        self._is_awaited = True
        began = time.perf_counter()
        # Before it is waited for: the thread may leave again in this very turn.
        late_s = began - self._left_at - self._expected_s
        has_come = ends.acquire(timeout=AWAITED_S)
        self._is_awaited = False
        self._learn(self._came_at - began if has_come else None, late_s)

    def _learn(self, waited_s: float | None, late_s: float) -> None:
        """Correct what is expected, after waiting that long, or in vain."""
        if waited_s is None:
            self._expected_s += AWAITED_S / 2
        elif waited_s > _AT_ONCE_S:
            self._expected_s += (self._took_s - self._expected_s) / 4
        elif late_s < _AT_ONCE_S:
            self._expected_s *= 0.9  # it may have been there for a while
        # Else the loop looked out too late to learn anything.

    # -- the thread's side ---------------------------------------------------------------------

    def wait(self, work: Sized) -> None:
        """End the turn, and wait for the next one, which comes when there is work.

        Who adds to the work calls `give_soon` afterwards.
        """
        self.end()
        self._is_asking = True
        if not work or self._is_called():
            self._begins.acquire()

    def ask(self) -> None:
        """Wait for a turn, which comes soon."""
        self._is_asking = True
        if self._is_called():
            self._begins.acquire()

    def end(self) -> None:
        """Let the loop go on."""
        if self._ends.locked():
            self._ends.release()

    def leave(self) -> None:
        """Let the loop go on before something that waits for the disk; `come_back` follows."""
        self._left_at = time.perf_counter()
        self._is_away = True
        self.end()

    def come_back(self) -> None:
        """Have a turn after the disk."""
        self._came_at = time.perf_counter()
        self._took_s = self._came_at - self._left_at
        self._is_away = False
        if not self._is_awaited:
            self._expected_s = min(self._expected_s, self._took_s)
            self.ask()

    def _is_called(self) -> bool:
        """Call the loop; False if it is closed, so that there is nobody to compete with."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._give)
            return True
        return False


def _held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
