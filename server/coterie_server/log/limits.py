"""Telling the operator which limit kept clients from getting what they asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.step import LimitHit

__all__ = ["QUIET_MS", "LimitLog"]

_log = get_logger(__name__)

#: For so long a limit is not mentioned again: who runs into one mostly tries again at once.
QUIET_MS: Final = 10_000


class LimitLog:
    """Writes one line for a limit that is hit, and counts what follows until the next line."""

    def __init__(self) -> None:
        self._quiet_until_ms: dict[str, int] = {}
        self._untold: dict[str, int] = {}

    def note(self, hits: Iterable[LimitHit], now_ms: int) -> None:
        """Take note of limits that were hit."""
        for hit in hits:
            refused = self._untold.get(hit.setting, 0) + 1
            self._untold[hit.setting] = refused
            if now_ms >= self._quiet_until_ms.get(hit.setting, now_ms):
                self._tell(hit, refused, now_ms)

    def _tell(self, hit: LimitHit, refused: int, now_ms: int) -> None:
        self._quiet_until_ms[hit.setting] = now_ms + QUIET_MS
        self._untold[hit.setting] = 0
        _log.warning(
            "limit reached",
            setting=hit.setting,
            limit=hit.limit,
            wanted=hit.wanted,
            refused=refused,
        )
