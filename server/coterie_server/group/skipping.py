"""How far generations go on where some may be lost, so that no token is given out twice."""

from __future__ import annotations

from typing import Final

__all__ = ["GENERATIONS_SKIPPED", "behind_a_loss", "skipped_since"]

#: More generations than a store can have lost, whatever became of it: a group would have to
#: rebalance every second for eleven days.
GENERATIONS_SKIPPED: Final = 1_000_000

#: The beginning of 2025.
_BEGINNING_MS: Final = 1_735_689_600_000
#: So that a clock that is wrong by decades does not use up all generations that there are.
_BY_DATE_MAX: Final = 2**30

#: How often one copy is gone back to at most: the tables may also be brought to another server,
#: with timelines of its own.
_TIMELINES_MAX: Final = 100


def skipped_since(timeline: int, now: int) -> int:
    """How many generations may be lost that began after a timeline of the database.

    An old copy may have been gone back to before: what came of it then is lost as well.
    """
    if timeline in (0, now):
        return 0
    return GENERATIONS_SKIPPED * min(max(now - timeline, 1), _TIMELINES_MAX)


def behind_a_loss(generation: int, date_ms: int) -> int:
    """A generation behind all that a store which knows this one can have lost.

    The store does not know of losses that were accepted before, if it is gone or the same copy was
    restored then.  So the date counts as well, in seconds: no group rebalances that often for long.
    """
    by_date = min((date_ms - _BEGINNING_MS) // 1000, _BY_DATE_MAX)
    return max(generation, by_date) + GENERATIONS_SKIPPED
