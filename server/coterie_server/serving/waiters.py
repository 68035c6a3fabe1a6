"""Those who wait until something is known, all of whom may be let go at once."""

from __future__ import annotations

import asyncio
from typing import final

__all__ = ["Waiters", "let_go"]


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
