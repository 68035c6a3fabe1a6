"""Timeouts that end nothing whose answer has arrived.

When a process goes on that was suspended, its event loop runs the timers that are due by then, and
only after that looks at its sockets.  What was waited for may have been there all the time.  So a
timeout that is up is looked at a second time, after the loop has read its sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

__all__ = ["SECOND_LOOK_S", "time_limit", "wait_for_task"]

#: More than nothing, or the loop would not look at its sockets before.
SECOND_LOOK_S: Final = 0.02


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` in the block when the time is up and nothing that arrived ends it."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(seconds, lambda: limit.reschedule(loop.time() + SECOND_LOOK_S))
        try:
            yield limit
        finally:
            timer.cancel()


async def wait_for_task(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Return when a task is done, or the time is up and nothing that arrived ends it."""
    await asyncio.wait({task}, timeout=timeout_s)
    if not task.done():
        await asyncio.wait({task}, timeout=SECOND_LOOK_S)
