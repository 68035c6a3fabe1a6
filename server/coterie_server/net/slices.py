"""How long clients that send many requests at once may keep the others waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

__all__ = ["Slices"]

#: How long one client's pipeline may: most requests take microseconds, but some hundreds that ask
#: for much, sent in one piece, would take seconds.
_SLICE_S: Final = 0.01
#: How long all of them together may in a turn of the event loop.
_ALL_S: Final = 0.05


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

    @property
    def next_s(self) -> float:
        """How long a pipeline may take that begins now."""
        return min(_SLICE_S, self._left_s)

    def take(self, taken_s: float) -> None:
        """Note how long one has taken."""
        was_left, self._left_s = self._left_s > 0, self._left_s - taken_s
        if was_left and self._left_s <= 0:
            self._call_soon(self._renew)

    def _renew(self) -> None:
        self._left_s = _ALL_S
