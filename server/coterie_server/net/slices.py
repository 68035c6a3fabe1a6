"""How long clients that send many requests at once may keep the others waiting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, final

__all__ = ["ENDLESS", "READ_MAX_BYTES", "Slice", "Slices"]

#: How long one client's pipeline may: most requests take microseconds, but some hundreds that ask
#: for much, sent in one piece, would take seconds.
_SLICE_S: Final = 0.01
#: Who sends so much at once is read from again in the loop's next turn: libuv fills its buffer up
#: to 32 times in a row, so that as many long requests would each come alone in one turn.
READ_MAX_BYTES: Final = 65_536
#: How long all of them together may in a turn of the event loop.
_ALL_S: Final = 0.05


@final
class Slice:
    """The time of one client in a turn of the event loop; enough for one request in any case."""

    __slots__ = ("_ends_at", "_stopwatch", "began_at", "is_used")

    def __init__(self, stopwatch: Callable[[], float], length_s: float) -> None:
        self._stopwatch = stopwatch
        self.began_at = stopwatch()
        self._ends_at = self.began_at + length_s
        #: Whether a request was handled in it.
        self.is_used = False

    @property
    def is_over(self) -> bool:
        """Whether others have waited for long enough."""
        return self.is_used and self._stopwatch() >= self._ends_at

    @property
    def taken_s(self) -> float:
        """How much was taken so far."""
        return self._stopwatch() - self.began_at


#: For a request that comes alone, for which none is measured.
ENDLESS: Final = Slice(lambda: 0.0, math.inf)


@final
class Slices:
    """Shares out the time of a turn of the event loop among pipelines.

    When it is used up, each of the others has one request handled, until the loop's next turn: a
    thousand clients that each took their slice would take ten seconds.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        #: What is left, of a time that may have begun some turns ago.
        self._left_s = _ALL_S

    def begin(self, stopwatch: Callable[[], float]) -> Slice:
        """Begin with a pipeline."""
        return Slice(stopwatch, min(_SLICE_S, self._left_s))

    def end(self, taken: Slice) -> None:
        """Note that a pipeline has had enough of the turn."""
        was_left, self._left_s = self._left_s > 0, self._left_s - taken.taken_s
        if was_left and self._left_s <= 0:
            self._call_soon(self._renew)

    def _renew(self) -> None:
        self._left_s = _ALL_S
