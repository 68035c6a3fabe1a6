"""For how long the machine was asleep, which the clock of an event loop leaves out.

Event loops go by a clock that stands still while a laptop's lid is closed or a virtual machine is
suspended to disk.  A coordinator elsewhere goes on meanwhile, and so does every session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["SleepWatch", "asleep_ms"]

#: How often to look whether the machine was asleep.
_LOOK_EVERY_S: Final = 0.25
#: Two clocks are read at one moment, if that took no longer.
_AT_ONCE_S: Final = 0.02
#: What is shorter is due to the clocks' resolution.
_WORTH_TELLING_MS: Final = 5

# Linux has a clock of its own that counts sleep; macOS's monotonic clock does, and Python's
# `time.monotonic`, like event loops, uses another one there.
_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def asleep_ms() -> int:
    """For how long the machine has been asleep since some moment before; 0 if that is not known."""
    if _CLOCK is None:
        return 0
    while True:
        elapsed_s, awake_s = time.clock_gettime(_CLOCK), time.monotonic()
        if time.clock_gettime(_CLOCK) - elapsed_s < _AT_ONCE_S:
            return max(0, round((elapsed_s - awake_s) * 1000))


class SleepWatch:
    """Tells when the machine was asleep, some moments after it woke up."""

    def __init__(self, asleep_ms: Callable[[], int], told: Callable[[], None]) -> None:
        self._asleep_ms = asleep_ms
        self._told = told
        self._known_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch, in the running loop."""
        self._known_ms = self._asleep_ms()
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._arm(loop)
        before_ms, self._known_ms = self._known_ms, self._asleep_ms()
        if self._known_ms - before_ms > _WORTH_TELLING_MS:
            self._told()
