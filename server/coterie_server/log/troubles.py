"""Logs what keeps many requests from being answered, but not once for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["QUIET_MS", "TroubleLog"]

_log = get_logger(__name__)

#: How long a trouble is not logged again: clients that meet it try again, all of them.
QUIET_MS: Final = 10_000


class TroubleLog:
    """Writes one line for a trouble, and counts how often it comes again until the next line."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._quiet_until_ms: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def note(self, what: str, error: str) -> None:
        """Log a trouble of a kind, of which there are few, or count it."""
        now_ms = self._now_ms()
        self._times[what] = self._times.get(what, 0) + 1
        if now_ms >= self._quiet_until_ms.get(what, now_ms):
            self._quiet_until_ms[what] = now_ms + QUIET_MS
            _log.warning(what, error=error, times=self._times.pop(what))
