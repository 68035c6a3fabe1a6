"""Attempts to connect, of which the first that succeeds counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from coterie_server.frames_of_errors import without_frames
from coterie_server.storage.postgres.errors import ENDED_AT_ONCE

__all__ = ["Attempts"]

#: What is tried, and what it comes to.
K = TypeVar("K")
T = TypeVar("T")

_ABORTED: Final = "the attempt was given up"


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a log line is about more than an attempt to connect that was given up.

    asyncpg leaves a future behind if it is cancelled at a certain moment, as when a node stops, and
    asyncio would log that as an error.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ConnectionError) or str(error) != ENDED_AT_ONCE


#: What asyncio logs to.
logging.getLogger("asyncio").addFilter(_is_news)


class Attempts(Generic[K, T]):
    """Attempts that go on beside each other: one that is slow is given up for none that is newer.

    Use it as an async context manager, at whose end all are given up that go on.
    """

    def __init__(self, discard: Callable[[T], None]) -> None:
        #: What becomes of what comes too late.
        self._discard = discard
        self._going: dict[asyncio.Future[T], K] = {}

    async def __aenter__(self) -> Attempts[K, T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        for going in self._going:
            going.cancel()
            going.add_done_callback(self._drop)
        if self._going:
            await asyncio.wait(self._going)

    def _drop(self, going: asyncio.Future[T]) -> None:
        if going.cancelled():
            return
        if (error := going.exception()) is None:
            self._discard(going.result())
        else:
            without_frames(error)

    def begin(self, what: K, attempt: Awaitable[T]) -> None:
        """Begin another."""
        self._going[asyncio.ensure_future(attempt)] = what

    async def first(self, within_s: float) -> tuple[K, T]:
        """Return what was tried and has succeeded, or raise why one has failed."""
        done, _ = await asyncio.wait(
            self._going, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            raise TimeoutError
        # One that succeeded first: the failures of others are of no interest then.
        ended = min(done, key=lambda each: each.cancelled() or each.exception() is not None)
        what = self._going.pop(ended)
        if ended.cancelled():  # by nobody here
            raise ConnectionAbortedError(_ABORTED)
        return what, ended.result()
