"""The time that a membership goes by: a clock that counts sleep, and one timer.

Event loops go by a clock that stands still while a laptop's lid is closed or a virtual machine is
suspended to disk.  A coordinator elsewhere goes on meanwhile, and so does every session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from coterie_client.wire.deadlines import SECOND_LOOK_S

__all__ = ["MemberClock", "SleepWatch", "asleep_ms"]

#: A timer that comes this late was held up by something else than the turns before it.
_LATE_MS: Final = 200
#: How often to look whether the machine was asleep.
_LOOK_EVERY_S: Final = 0.25
#: Two clocks count as read at one moment if that took no longer.
_AT_ONCE_S: Final = 0.02
#: What is shorter is due to the clocks' resolution.
_WORTH_TELLING_MS: Final = 5

# Linux has a clock of its own that counts sleep; macOS's monotonic clock does, and Python's
# `time.monotonic`, like event loops, uses another one there.
_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def asleep_ms() -> int:
    """How long the machine has been asleep since some fixed moment; 0 if that is not known."""
    if _CLOCK is None:
        return 0
    while True:
        elapsed_s, awake_s = time.clock_gettime(_CLOCK), time.monotonic()
        if time.clock_gettime(_CLOCK) - elapsed_s < _AT_ONCE_S:
            return max(0, round((elapsed_s - awake_s) * 1000))


class SleepWatch:
    """Calls `woke_up` some moments after the machine woke up."""

    def __init__(self, asleep_ms: Callable[[], int], woke_up: Callable[[], None]) -> None:
        self._asleep_ms = asleep_ms
        self._woke_up = woke_up
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
            self._woke_up()


class MemberClock:
    """Tells a membership's time, which never goes back, and calls `fire` at its one deadline.

    When this process was suspended, or the machine asleep, other members may own our partitions by
    now: `check_lease` is called at once, so that a lease which has run out stops work.  All else
    has to wait until what has arrived meanwhile has been read.
    """

    def __init__(
        self,
        asleep_ms: Callable[[], int] | None,
        *,
        fire: Callable[[], None],
        check_lease: Callable[[], None],
    ) -> None:
        """Begin, in the running loop; without `asleep_ms`, its time leaves nothing out."""
        self._loop = asyncio.get_running_loop()
        self._asleep_ms = asleep_ms or _never_asleep
        self._fire = fire
        self._check_lease = check_lease
        self._latest_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._sleep_watch: SleepWatch | None = None
        if asleep_ms is not None:
            self._sleep_watch = SleepWatch(asleep_ms, self._woke_up)
            self._sleep_watch.start()

    def now_ms(self) -> int:
        """Return the time."""
        now_ms = int(self._loop.time() * 1000) + self._asleep_ms()
        self._latest_ms = max(self._latest_ms, now_ms)
        return self._latest_ms

    def arm(self, deadline_ms: int | None) -> None:
        """Set the one timer, in place of the one before."""
        if deadline_ms == self._deadline_ms:
            return
        self.disarm()
        if deadline_ms is not None:
            self._deadline_ms = deadline_ms
            at_s = (deadline_ms - self._asleep_ms()) / 1000
            self._timer = self._loop.call_at(at_s, self._time_is_up, deadline_ms)

    def disarm(self) -> None:
        """Have no timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._deadline_ms = None

    def stop(self) -> None:
        """Call nothing any more."""
        self.disarm()
        if self._sleep_watch is not None:
            self._sleep_watch.stop()

    def _time_is_up(self, deadline_ms: int) -> None:
        if self._loop.time() * 1000 + self._asleep_ms() - deadline_ms < _LATE_MS:
            self._fire_now(deadline_ms)
            return
        # This process was suspended.
        self._timer = self._loop.call_later(SECOND_LOOK_S, self._fire_now, deadline_ms)
        self._check_lease()

    def _fire_now(self, deadline_ms: int) -> None:
        self._timer = self._deadline_ms = None
        # A loop may wake up within its clock's resolution before the time.
        self._latest_ms = max(self._latest_ms, deadline_ms)
        self._fire()

    def _woke_up(self) -> None:
        self.disarm()  # It was set by how long the machine had been asleep before.
        self._check_lease()


def _never_asleep() -> int:
    return 0
