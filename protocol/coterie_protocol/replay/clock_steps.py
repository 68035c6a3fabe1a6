"""How long something took by the dates of a node whose clock was set meanwhile.

A clock that is set forward skips dates, and one that is set back has its node's dates run at half
speed until it has caught up.  Each step is in the journal, so durations need not be wrong.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coterie_protocol.journal import ClockStepped, NodeStarted

__all__ = ["NO_STEPS", "ClockSteps", "Step", "clocks_of", "step_of"]

#: By how much each millisecond of dates that were skipped, or ran at half speed, is off.
_SKIPPED: Final = -1
_SLOW: Final = 1


#: The node, the number and the date of a line, and by how much the clock was set; None if its node
#: started.
Step = tuple[str, int, int, int | None]


class ClockSteps:
    """The steps of a node's clock while it ran, noted in their order."""

    def __init__(self) -> None:
        # Stretches of dates, of which none overlap: from when to when, and by how much each is off.
        self._from_ms = array("q")
        self._to_ms = array("q")
        self._kinds = array("b")
        #: By how much dates are off in all before a stretch.
        self._off_ms = array("q")

    def note(self, date_ms: int, stepped_ms: int | None) -> None:
        """The clock was set by so much, and the date is the one after that; None at a start."""
        if stepped_ms is None:
            self._end_slowness(date_ms)
            return
        if stepped_ms < 0:
            self._add(max(date_ms, self._slow_until_ms), -stepped_ms, date_ms)
            return
        # As long as dates are ahead of the clock, it only comes nearer.
        left_ms = self._slow_until_ms - date_ms
        if left_ms >= stepped_ms:
            self._to_ms[-1] -= stepped_ms
            return
        ahead_ms = max((left_ms + stepped_ms) // 2, 0)
        skipped_ms = stepped_ms - ahead_ms
        self._end_slowness(date_ms - skipped_ms)
        self._append(date_ms - skipped_ms, date_ms, _SKIPPED)

    def lasted_ms(self, from_ms: int, to_ms: int) -> int:
        """How long it took from one date to a later one.

        After a restart a date may be before one from before it, and then nothing is known of it.
        """
        return max(self._steady(to_ms) - self._steady(from_ms), 0)

    def after(self, date_ms: int, lasted_ms: int) -> int:
        """The date so long after another one, or before it."""
        steady_ms = self._steady(date_ms) + lasted_ms
        index = self._index_of_steady(steady_ms)
        if index < 0:
            return steady_ms
        passed_ms = steady_ms - self._from_ms[index] - self._off_ms[index]
        length_ms = self._to_ms[index] - self._from_ms[index]
        if self._kinds[index] == _SLOW and passed_ms < 2 * length_ms:
            return self._from_ms[index] + passed_ms // 2
        return self._from_ms[index] + passed_ms - self._kinds[index] * length_ms

    # -- stretches -----------------------------------------------------------------------------

    @property
    def _slow_until_ms(self) -> int:
        return self._to_ms[-1] if self._kinds and self._kinds[-1] == _SLOW else 0

    def _end_slowness(self, date_ms: int) -> None:
        """Dates follow the clock from here on, as after a restart."""
        if self._slow_until_ms > date_ms:
            self._to_ms[-1] = max(self._from_ms[-1], date_ms)

    def _add(self, until_ms: int, more_ms: int, date_ms: int) -> None:
        """Have dates run at half speed for longer."""
        if until_ms > date_ms:
            self._to_ms[-1] += more_ms
        else:
            self._append(date_ms, date_ms + more_ms, _SLOW)

    def _append(self, from_ms: int, to_ms: int, kind: int) -> None:
        # After a restart, dates may be those from before once more: which they are is not known.
        from_ms = max(from_ms, self._to_ms[-1] if self._to_ms else 0)
        if from_ms < to_ms:
            self._off_ms.append(self._off(from_ms))
            self._from_ms.append(from_ms)
            self._to_ms.append(to_ms)
            self._kinds.append(kind)

    def _steady(self, date_ms: int) -> int:
        """A date on a scale that goes on evenly."""
        return date_ms + self._off(date_ms)

    def _off(self, date_ms: int) -> int:
        index = bisect_right(self._from_ms, date_ms) - 1
        if index < 0:
            return 0
        passed_ms = min(date_ms, self._to_ms[index]) - self._from_ms[index]
        return self._off_ms[index] + self._kinds[index] * passed_ms

    def _index_of_steady(self, steady_ms: int) -> int:
        """The last stretch that begins by then."""
        low, high = 0, len(self._from_ms)
        while low < high:
            middle = (low + high) // 2
            if self._from_ms[middle] + self._off_ms[middle] <= steady_ms:
                low = middle + 1
            else:
                high = middle
        return low - 1


#: Those of a clock that was never set.
NO_STEPS: Final = ClockSteps()


def step_of(values: Mapping[str, Any]) -> Step | None:
    """The step that a journal's line tells; None if it tells of none."""
    if values["kind"] not in (ClockStepped.kind, NodeStarted.kind):
        return None
    return values["node"], values["seq"], values["ts"], values.get("stepped_ms")


def clocks_of(steps: Iterable[Step]) -> Mapping[str, ClockSteps]:
    """By node, the steps of its clock, which come in any order."""
    found: dict[str, ClockSteps] = {}
    for node, _, date_ms, stepped_ms in sorted(steps, key=lambda each: each[:2]):
        if stepped_ms is not None or node in found:
            found.setdefault(node, ClockSteps()).note(date_ms, stepped_ms)
    return found
