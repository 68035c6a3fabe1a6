"""How long to wait before the next attempt.  Pure: time and randomness are handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie_client import checks

__all__ = ["Backoff", "RetryOptions"]


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """The pace of attempts: doubling from `base_ms` up to `max_ms`, each spread by `jitter`.

    The defaults are those of Kafka's clients (`retry.backoff.ms`, `retry.backoff.max.ms`).
    """

    base_ms: int = 100
    max_ms: int = 1_000
    #: The share by which a delay may be longer or shorter, so that clients do not fall into step.
    jitter: float = 0.2

    def __post_init__(self) -> None:
        checks.whole("base_ms", self.base_ms)
        checks.whole("max_ms", self.max_ms)
        if self.base_ms > self.max_ms:
            checks.must_be("base_ms", f"at most max_ms, which is {self.max_ms}", self.base_ms)
        share = "a share from 0 to below 1"
        checks.number("jitter", share, self.jitter)
        if not 0 <= self.jitter < 1:
            checks.must_be("jitter", share, self.jitter)

    def delay_ms(self, failures: int, chance: float) -> int:
        """Return the delay after so many failures in a row; `chance` is random, in [0, 1)."""
        if failures <= 0:
            return 0
        # Beyond 30 doublings any base is above any sensible maximum; it keeps the number small.
        delay_ms = min(self.max_ms, self.base_ms << min(failures - 1, 30))
        return round(delay_ms * (1 + self.jitter * (2 * chance - 1)))


class Backoff:
    """Counts failures in a row, and tells how long to wait after them.

    A caller with a timer of its own asks `next_ms` for the delay.  One that only looks now and then
    whether it may try again notes each failure by `failed` and asks `wait_s`.
    """

    __slots__ = ("_options", "_random", "_retry_at_s", "failures")

    def __init__(self, options: RetryOptions, random: Callable[[], float]) -> None:
        self._options = options
        self._random = random
        self._retry_at_s = 0.0
        #: How many attempts in a row have failed.
        self.failures = 0

    def next_ms(self) -> int:
        """Count a failure, and return the delay before the next attempt."""
        self.failures += 1
        return self._options.delay_ms(self.failures, self._random())

    def failed(self, now_s: float) -> None:
        """Count a failure, and let the next attempt wait from now."""
        self._retry_at_s = now_s + self.next_ms() / 1000

    def succeeded(self) -> None:
        """Forget all failures."""
        self.failures = 0
        self._retry_at_s = 0.0

    def wait_no_longer(self) -> None:
        """Let the next attempt be made at once, without forgetting the failures."""
        self._retry_at_s = 0.0

    def wait_s(self, now_s: float) -> float:
        """Return how long the next attempt must still wait."""
        return max(0.0, self._retry_at_s - now_s) if self.failures else 0.0
