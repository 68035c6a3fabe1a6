"""When the leader looks again whether copies have caught up."""

from __future__ import annotations

from typing import Final

__all__ = ["next_probing_ms"]

_DAY_MS: Final = 24 * 60 * 60 * 1000


def next_probing_ms(now_ms: int, interval_ms: int) -> int:
    """The next multiple of the interval since midnight (UTC), as milliseconds since the epoch.

    Being tied to the time of day, it is the same whichever member leads and since when.  After the
    last multiple of a day comes midnight; intervals of more than a day count from the epoch.
    """
    if interval_ms > _DAY_MS:
        return (now_ms // interval_ms + 1) * interval_ms
    midnight = now_ms - now_ms % _DAY_MS
    next_one = midnight + ((now_ms - midnight) // interval_ms + 1) * interval_ms
    return min(next_one, midnight + _DAY_MS)
