"""Reading a shard again and again until that has worked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from coterie_server.log.logger import get_logger
from coterie_server.serving.waiters import Bell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Reload"]

_log = get_logger(__name__)

#: How long to wait before a shard that could not be read is tried again, at first and at most.
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 5.0
#: That a shard can't be read is logged at first, then once in so many attempts: a minute, mostly.
_COMPLAIN_EVERY: Final = 12


@final
class Reload:
    """Has a shard read for as long as that is wanted and has not worked."""

    def __init__(
        self,
        shard: int,
        load: Callable[[], Awaitable[None]],
        is_wanted: Callable[[], bool],
        is_served: Callable[[], bool],
        note_failure: Callable[[Exception], str],
    ) -> None:
        self._shard = shard
        self._load = load
        self._is_wanted, self._is_served = is_wanted, is_served
        #: Takes note of why it could not be read, and says that for the log.
        self._note_failure = note_failure
        self._task: asyncio.Task[None] | None = None
        self._bell = Bell()
        self._is_closed = False
        #: Held while the shard is read: two that read at once would end each other's lives.
        self.alone = asyncio.Lock()

    def soon(self, delay_s: float | None = None) -> None:
        """Have it read after a while, or at once even if it was to be tried again later."""
        if self._is_closed:
            return
        if self._task is None:
            wait_s = RETRY_FIRST_S if delay_s is None else delay_s
            self._bell.hush()
            self._task = asyncio.get_running_loop().create_task(self._load_until_read(wait_s))
        elif delay_s == 0:
            self._bell.ring()

    def close(self) -> None:
        """Have it read no more."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    async def _load_until_read(self, delay_s: float) -> None:
        attempts = 0
        try:
            while self._is_wanted():
                await self._bell.sleep(delay_s)
                delay_s = min(max(delay_s * 2, RETRY_FIRST_S), RETRY_MAX_S)
                try:
                    await self._load()
                except Exception as error:  # noqa: BLE001  # whatever it is, try again
                    failure = self._note_failure(error)
                    if attempts % _COMPLAIN_EVERY == 0:
                        _log.error("a shard can't be read", shard=self._shard, error=failure)
                    attempts += 1
        finally:
            self._task = None
        if self._is_served():
            _log.info("a shard is served", shard=self._shard)
