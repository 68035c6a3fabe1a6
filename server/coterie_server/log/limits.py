"""Logs which limit kept clients from getting what they asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.step import LimitHit

__all__ = ["QUIET_MS", "LimitLog"]

_log = get_logger(__name__)

#: How long a limit is not logged again: a client that hits one mostly retries at once.
QUIET_MS: Final = 10_000


class LimitLog:
    """Writes one line for a limit that was hit, and counts further hits until the next line."""

    def __init__(self) -> None:
        self._quiet_until_ms: dict[str, int] = {}
        self._unlogged: dict[str, int] = {}

    def note(self, hits: Iterable[LimitHit], now_ms: int) -> None:
        """Log limits that were hit, or count the hits."""
        for hit in hits:
            refused = self._unlogged.get(hit.setting, 0) + 1
            self._unlogged[hit.setting] = refused
            if now_ms >= self._quiet_until_ms.get(hit.setting, now_ms):
                self._write(hit, refused, now_ms)

    def _write(self, hit: LimitHit, refused: int, now_ms: int) -> None:
        self._quiet_until_ms[hit.setting] = now_ms + QUIET_MS
        self._unlogged[hit.setting] = 0
        _log.warning(
            "limit reached",
            setting=hit.setting,
            limit=hit.limit,
            wanted=hit.wanted,
            refused=refused,
        )
