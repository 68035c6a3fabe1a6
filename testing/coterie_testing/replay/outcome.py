"""What a history cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from coterie_protocol.journal import Line
from coterie_testing.replay.told import Told, told_of

__all__ = ["Outcome", "outcome_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Told):
    """A group's cost over a time.

    Of a replay `stopped_s` is what its workers did not do, silences included that no coordinator
    noticed; of a journal alone, what it tells of that.
    """

    #: Partition-seconds in which two were at work; None if a journal alone can't tell.
    overlap_s: float | None = None
    #: How many steps the replay took; none if there was none.
    steps: int = 0
    lines: Sequence[Line] = ()

    @property
    def rebalance_count(self) -> int:
        """How many rebalances there were."""
        return self.rebalances.total()

    @property
    def takeover_s(self) -> float | None:
        """How long the partitions of a silent process usually had nobody: the median."""
        return statistics.median(self.takeovers_s) if self.takeovers_s else None

    @property
    def slowest_takeover_s(self) -> float | None:
        """The longest time that a silent process's partitions had nobody."""
        return max(self.takeovers_s, default=None)


def outcome_of(lines: Iterable[Line], group: str) -> Outcome:
    """What a journal tells of a group's cost."""
    kept = [line for line in lines if line.event.group == group]
    told = told_of(kept, group)
    return Outcome(**{each.name: getattr(told, each.name) for each in fields(told)}, lines=kept)
