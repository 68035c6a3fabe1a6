"""Turns: an event loop stands aside for a moment, so that a thread can have Python's lock.

Left to themselves, the two compete for it.  A busy loop lets go of the lock with every request, and
each time wakes the thread on another core, but has the lock back before the thread is there: that
took a quarter of a commit's processor time.  So the thread asks for a turn, waits until it has one,
and the loop does nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sized
from typing import Final

__all__ = ["Turns"]

#: How long the loop stands aside at most.  A thread that takes longer, as when the disk stalls,
#: goes on without a turn.
LONGEST_S: Final = 0.002


class Turns:
    """The turns of one thread that works for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_due = False  # only the loop uses it
        # Set by the thread when it asks, and cleared by the loop when it gives a turn.
        self._is_asking = False
        self._begins = _held()
        self._ends = _held()

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
        """Let the loop go on, before anything that waits for the disk."""
        if self._ends.locked():
            self._ends.release()

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
