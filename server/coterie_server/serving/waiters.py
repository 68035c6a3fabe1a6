"""Those who wait until something is known and are let go at once, and one who sleeps."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import final

__all__ = ["Bell", "Waiters", "let_go"]


@final
class Waiters:
    """Futures that are done when somebody says so."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self) -> asyncio.Future[None]:
        """One more, for who is about to await it."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        return waiting

    def let_all_go(self) -> None:
        """Let all go on."""
        for waiting in list(self._waiting):
            let_go(waiting)


def let_go(waiting: asyncio.Future[None]) -> None:
    """Let one go on; who waited may have been cancelled."""
    if not waiting.done():
        waiting.set_result(None)


@final
class Bell:
    """Ends somebody's sleep early, also if it was rung before that began."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the sleep that goes on, or the next one."""
        self._rung.set()

    def hush(self) -> None:
        """Let the next sleep be one, though the bell was rung."""
        self._rung.clear()

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self.hush()
