"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Backoff"]

#: A delay is off by up to this share, so that many members do not come back at one moment.
_JITTER: Final = 0.2


class Backoff:
    """Delays that double from one failure to the next, up to a limit."""

    def __init__(self, first_ms: int, limit_ms: int, random: Callable[[], float]) -> None:
        self._first_ms = first_ms
        self._limit_ms = max(first_ms, limit_ms)
        self._random = random
        self._failures = 0

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._failures = 0

    def next_ms(self) -> int:
        """The delay after one more failure."""
        # The exponent is bounded, or a long outage would make a huge number of it.
        delay: int = min(self._first_ms << min(self._failures, 16), self._limit_ms)
        self._failures += 1
        return round(delay * (1 - _JITTER + 2 * _JITTER * self._random()))
