"""The order in which nodes had a group in turn, by which its lines are found from the newest on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_server.archive.scanning import Scan

__all__ = ["in_order"]


def in_order(found: Scan, group: int, lines: Sequence[int]) -> list[int]:
    """The lines of a group by the turns in which nodes had it, and by their dates within each.

    Clocks of nodes may disagree, so the fences tell the order of turns.  Before the first of them
    the group was where it was founded.  Only if it was deleted, it may have been founded again on
    any node without one; then dates have to tell.
    """
    fences, dates = found.fences, found.dates
    if group in found.deleted:
        known = sorted((dates[each], fences[each]) for each in lines if fences[each] > 0)
        begun_ms, latest = [ms for ms, _ in known], [0, *accumulate((it for _, it in known), max)]

        def turn(line: int) -> int:
            fence = fences[line]
            return fence if fence > 0 else max(-fence, latest[bisect_right(begun_ms, dates[line])])

    else:

        def turn(line: int) -> int:
            return abs(fences[line])

    return sorted(lines, key=lambda line: (turn(line), dates[line], line))
