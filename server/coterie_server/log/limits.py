"""Logs which limit kept clients from getting what they asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.log.logger import get_logger
from coterie_server.log.repeats import Repeats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.step import LimitHit

__all__ = ["LimitLog"]

_log = get_logger(__name__)


class LimitLog:
    """Writes one line for a limit that was hit, and counts further hits until the next line."""

    def __init__(self) -> None:
        self._repeats = Repeats()

    def note(self, hits: Iterable[LimitHit], now_ms: int) -> None:
        """Log limits that were hit, or count the hits."""
        for hit in hits:
            if refused := self._repeats.count(hit.setting, now_ms):
                _log.warning(
                    "limit reached",
                    setting=hit.setting,
                    limit=hit.limit,
                    wanted=hit.wanted,
                    refused=refused,
                )
