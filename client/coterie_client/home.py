"""The event loop that a client belongs to: it is used there, and nowhere else."""

from __future__ import annotations

import asyncio
import threading

from coterie_client.errors import GroupMisuseError

__all__ = ["Home"]


class Home:
    """Where a client was entered or first used.

    Elsewhere its futures would wake nobody: a caller in another thread, or in the next
    `asyncio.run`, would wait for ever.
    """

    __slots__ = ("_loop", "_thread", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def settle(self) -> None:
        """Belong to the loop that runs now."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def require(self) -> None:
        """Raise `GroupMisuseError` if this is not the place; the first use says which it is."""
        running = _running_loop()
        if running is self._loop and running is not None:
            return
        if self._loop is None:
            if running is not None:
                self.settle()
        # Code that the loop's own thread runs while the loop pauses is no danger.
        elif running is not None or threading.get_ident() != self._thread:
            raise GroupMisuseError(
                f"{self._what} belongs to the event loop in which it was entered or first used, and"
                " can't be used elsewhere. From another thread, have that loop do it, by"
                " loop.call_soon_threadsafe() or asyncio.run_coroutine_threadsafe(). For another"
                " asyncio.run(), make another one."
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
