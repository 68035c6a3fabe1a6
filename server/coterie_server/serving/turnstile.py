"""Lets those go on who have waited for the same thing, a few in each turn of the event loop.

Clients may send thousands of requests that wait for one answer of the store, or of other nodes.  If
all went on in the turn in which it comes, they would keep the event loop for seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

from coterie_server.serving.waiters import let_go

__all__ = ["Turnstile"]

#: How many go on in a turn; what each does then takes about a millisecond at most.
_AT_ONCE: Final = 8


@final
class Turnstile:
    """Those who have what they waited for, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def go_through(self) -> None:
        """Wait for one's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._let_through)
        self._waiting.append(turn)
        await turn

    def _let_through(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            let_go(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._let_through)
