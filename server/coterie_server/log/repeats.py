"""Keeps what happens again and again from being a line in the log each time."""

from __future__ import annotations

from typing import Final

__all__ = ["QUIET_MS", "Repeats"]

#: How long nothing is logged of its kind again: clients that meet it mostly retry at once.
QUIET_MS: Final = 10_000


class Repeats:
    """Counts what happens, by its kind, of which there are few."""

    def __init__(self) -> None:
        self._quiet_until_ms: dict[str, int] = {}
        self._unlogged: dict[str, int] = {}

    def count(self, kind: str, now_ms: int) -> int:
        """Count one more; return how many there are to log, or 0 if it is too soon for a line."""
        times = self._unlogged.get(kind, 0) + 1
        is_quiet = now_ms < self._quiet_until_ms.get(kind, now_ms)
        self._unlogged[kind] = times if is_quiet else 0
        if is_quiet:
            return 0
        self._quiet_until_ms[kind] = now_ms + QUIET_MS
        return times
