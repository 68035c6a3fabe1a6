"""Smooths a measurement that comes at any times: an exponentially weighted mean over time."""

from __future__ import annotations

from math import exp

__all__ = ["SmoothedLoad"]


class SmoothedLoad:
    """The mean of a load, in which what was a while ago counts less.

    Each value counts for as long as it was the last one that was told, so values that come often do
    not count more than those that come seldom.
    """

    __slots__ = ("_known", "_last", "_last_ms", "_smoothing_ms", "_sum")

    def __init__(self, smoothing_ms: float, value: float, now_ms: int) -> None:
        """Begin with a value; what is `smoothing_ms` ago counts for a third of what is now."""
        self._smoothing_ms = smoothing_ms
        self._last, self._last_ms = value, now_ms
        self._sum = self._known = 0.0

    def add(self, value: float, now_ms: int) -> None:
        """Note a value that holds from now on."""
        self._advance(now_ms)
        self._last = value

    def mean(self, now_ms: int) -> float | None:
        """The mean until now; None before the load was known for as long as is smoothed over.

        Work that has just begun often has to catch up, and is no measure of what follows.
        """
        self._advance(now_ms)
        if self._known < 1 - exp(-1) - 1e-9:
            return None
        return self._sum / self._known

    def _advance(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._last_ms)
        self._last_ms += passed_ms
        kept = exp(-passed_ms / self._smoothing_ms)
        self._sum = self._sum * kept + self._last * (1 - kept)
        self._known = self._known * kept + (1 - kept)
