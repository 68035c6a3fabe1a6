"""The time that a node goes by."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """Milliseconds since the epoch that never go back, whatever is done to the system's clock.

    Sessions and deadlines must not run out because somebody set the clock; so the date is read
    once, and from then on only the time that passes is counted.
    """

    __slots__ = ("_started_at_ns",)

    def __init__(self) -> None:
        self._started_at_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """The present moment."""
        return (self._started_at_ns + time.monotonic_ns()) // 1_000_000

    def elapsed_s(self) -> float:
        """Time that passes also while the machine is suspended, where the system tells it."""
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if clock is None else time.clock_gettime(clock)
