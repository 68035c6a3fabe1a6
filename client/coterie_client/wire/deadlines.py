"""Timeouts that don't fire if what was awaited has already arrived.

When a suspended process resumes, its event loop runs all timers that are due before it looks at its
sockets, where an answer may have been waiting all the time.  So a timeout that is up is checked a
second time, after the loop has read its sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

__all__ = ["SECOND_LOOK_S", "time_limit", "wait_for_task"]

#: More than zero, so that the loop polls its sockets before.
SECOND_LOOK_S: Final = 0.02


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` in the block when the time is up, unless what has arrived ends it."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(seconds, lambda: limit.reschedule(loop.time() + SECOND_LOOK_S))
        try:
            yield limit
        finally:
            timer.cancel()


async def wait_for_task(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Return when a task is done or the time is up, after what has arrived was processed."""
    await asyncio.wait({task}, timeout=timeout_s)
    if not task.done():
        await asyncio.wait({task}, timeout=SECOND_LOOK_S)
