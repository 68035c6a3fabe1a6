"""Which warm-ups do not get on: they let others have their turn.

A group makes few copies at a time, and those under way come first.  A restore that fails again and
again, or hangs, would hold its place for ever, and no other partition could move either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coterie_client.wire.addresses import TopicPartition

__all__ = ["Stalls"]

#: So many failures without any progress between them are no accident.
_FAILURES: Final = 3


@dataclass(slots=True)
class _WarmUp:
    """One that is under way."""

    #: Since when there was to be progress.
    since_ms: int
    #: The least lag that was told.
    lag: int | None = None
    has_progressed: bool = False
    failures: int = 0


class Stalls:
    """Knows which warm-ups make no progress, until they make some.

    One has stalled if its lag did not fall for an interval, or if its restore fails again and
    again.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._under_way: dict[TopicPartition, _WarmUp] = {}
        self.stalled: set[TopicPartition] = set()

    def watch(self, warm_ups: Iterable[TopicPartition], now_ms: int) -> None:
        """Watch these from now on, and no others."""
        self._under_way = {
            each: self._under_way.get(each) or _WarmUp(since_ms=now_ms) for each in warm_ups
        }

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Note what a restore told; the first lag is progress as well."""
        this = self._under_way.get(partition)
        if this is not None and (this.lag is None or lag < this.lag):
            if this.lag is not None:
                self.stalled.discard(partition)
            this.lag, this.has_progressed, this.failures = lag, True, 0

    def note_failure(self, partition: TopicPartition) -> None:
        """Note that a restore failed."""
        this = self._under_way.get(partition)
        if this is not None:
            this.failures += 1

    def look(self, now_ms: int) -> None:
        """Find out which have stalled by now."""
        for partition, this in self._under_way.items():
            is_due = now_ms - this.since_ms >= self._interval_ms
            if this.failures >= _FAILURES or (is_due and not this.has_progressed):
                self.stalled.add(partition)
            if is_due:
                this.since_ms, this.has_progressed = now_ms, False

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are worked on here."""
        self.stalled.difference_update(partitions)
