"""How often something has happened in the last hour."""

from __future__ import annotations

from typing import Final, final

__all__ = ["RecentCount"]

_MINUTE_MS: Final = 60_000
_MINUTES: Final = 60


@final
class RecentCount:
    """Counts by the minute, for an hour: what happens often takes no more room."""

    __slots__ = ("_minutes",)

    def __init__(self) -> None:
        #: Minutes, the earliest first, and how often it happened in each.  There may be a hundred
        #: thousand of these objects, so this is no deque, which takes room for many when empty.
        self._minutes: list[tuple[int, int]] = []

    def note(self, at_ms: int) -> None:
        """It happened once more."""
        minute = at_ms // _MINUTE_MS
        minutes = self._minutes
        if minutes and minutes[-1][0] >= minute:
            minutes[-1] = minutes[-1][0], minutes[-1][1] + 1
        else:
            minutes.append((minute, 1))
            self._forget(minute)

    def put_first(self, earlier: RecentCount) -> None:
        """Count what happened before, too."""
        self._minutes[:0] = earlier._minutes
        if self._minutes:
            self._forget(self._minutes[-1][0])

    def until(self, now_ms: int) -> int:
        """How often it happened in the hour until now, to the minute."""
        first = now_ms // _MINUTE_MS - _MINUTES
        return sum(count for minute, count in self._minutes if minute > first)

    def _forget(self, minute: int) -> None:
        while self._minutes[0][0] <= minute - _MINUTES:
            del self._minutes[0]
