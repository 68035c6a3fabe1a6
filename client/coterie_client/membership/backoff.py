"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable

from coterie_client.backoff import RetryOptions

__all__ = ["Backoff"]


class Backoff:
    """Delays that double from one failure to the next, up to a limit."""

    def __init__(self, first_ms: int, limit_ms: int, random: Callable[[], float]) -> None:
        self._options = RetryOptions(first_ms, max(first_ms, limit_ms))
        self._random = random
        self._failures = 0

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._failures = 0

    def next_ms(self) -> int:
        """The delay after one more failure."""
        self._failures += 1
        return self._options.delay_ms(self._failures, self._random())
