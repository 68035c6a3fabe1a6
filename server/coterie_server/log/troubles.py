"""Logs what keeps many requests from being answered, but not once for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.log.logger import get_logger
from coterie_server.log.repeats import Repeats

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TroubleLog"]

_log = get_logger(__name__)


class TroubleLog:
    """Writes one line for a trouble, and counts how often it comes again until the next line."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._repeats = Repeats()

    def note(self, what: str, error: str) -> None:
        """Log a trouble of a kind, of which there are few, or count it."""
        if times := self._repeats.count(what, self._now_ms()):
            _log.warning(what, error=error, times=times)
