"""Detects work that makes no progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coterie_client.partition import Partition

__all__ = ["Watchdog"]

#: How often at most all partitions are checked, as a share of the deadline.
_CHECK_INTERVAL: Final = 0.1


@dataclass(slots=True)
class _Watched:
    """When work last made progress."""

    progress_at_s: float
    is_stalled: bool = False


class Watchdog:
    """Calls back when work has made no progress for a time, and when it makes progress again.

    Progress only updates a time stamp; one timer checks all partitions.
    """

    def __init__(
        self,
        deadline_s: float,
        stalled: Callable[[Partition, float], None],
        recovered: Callable[[Partition, float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._stalled = stalled
        self._recovered = recovered
        self._watched: dict[Partition, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, partition: Partition) -> None:
        """Start watching the work on a partition."""
        self._watched[partition] = _Watched(self._loop.time())
        partition.notify_progress(lambda: self._progressed(partition))
        self._arm(0)

    def unwatch(self, partition: Partition) -> None:
        """Stop watching the work on a partition."""
        partition.notify_progress(None)
        self._watched.pop(partition, None)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _progressed(self, partition: Partition) -> None:
        watched, now_s = self._watched[partition], self._loop.time()
        silent_s, watched.progress_at_s = now_s - watched.progress_at_s, now_s
        if watched.is_stalled:
            watched.is_stalled = False
            self._recovered(partition, silent_s)
            self._arm(0)

    def _arm(self, wait_s: float) -> None:
        if self._timer is not None:
            return
        progress_at_s = [
            each.progress_at_s for each in self._watched.values() if not each.is_stalled
        ]
        if progress_at_s:
            at_s = max(min(progress_at_s) + self._deadline_s, self._loop.time() + wait_s)
            self._timer = self._loop.call_at(at_s, self._check, at_s)

    def _check(self, at_s: float) -> None:
        self._timer = None
        # A loop may call back early, by less than its clock's resolution.
        now_s = max(self._loop.time(), at_s)
        for partition, watched in list(self._watched.items()):
            silent_s = now_s - watched.progress_at_s
            if watched.is_stalled or silent_s < self._deadline_s:
                continue
            # The callback for another partition may have ended them all.
            if self._watched.get(partition) is watched:
                watched.is_stalled = True
                self._stalled(partition, silent_s)
        self._arm(self._deadline_s * _CHECK_INTERVAL)
