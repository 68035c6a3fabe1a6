"""The state that simulated workers keep beside their offsets: logs, and how far disks have them.

Each partition has a log, which grows with the work on it.  A worker's state is how far it has
applied that log; it is on the disk of the worker's machine, and outlives its processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from coterie_assignors import WarmSettings

__all__ = ["Logs", "StateDisk", "StateOptions", "draw_state"]

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What state workers have, and how they move it."""

    settings: WarmSettings
    #: How often warm-ups that have caught up may make the group rebalance.
    ready_interval_s: float = 1.0
    #: How many entries each log has before work on it begins.
    entries: int = 100
    #: How many entries one step of a restore applies.
    step: int = 10
    #: How long a step takes, at least and at most; each restore draws its own speed.
    step_s: tuple[float, float] = (0.02, 0.6)
    #: How many of a hundred workers have state; the others need none.
    percent: int = 100


#: How many entries a worker may be behind and still take over.
_ACCEPTABLE: Final = 20


def draw_state(seed: int) -> StateOptions:
    """Draw from a seed."""
    chance = Random(f"state {seed}")  # noqa: S311  # no secrets in here
    settings = WarmSettings(
        acceptable_recovery_lag=chance.choice((0, _ACCEPTABLE, _ACCEPTABLE)),
        num_standbys=chance.choice((0, 0, 1, 2)),
        max_warmup_replicas=chance.choice((1, 2, 2, 10)),
        probing_rebalance_interval_ms=chance.choice((5_000, 10_000)),
        allow_short_probing=True,
    )
    return StateOptions(
        settings, chance.choice((0.5, 3.0)), percent=chance.choice((100, 100, 100, 70))
    )


@dataclass(slots=True)
class Logs:
    """How long each partition's log is."""

    entries: int
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    def end(self, partition: TopicPartition) -> int:
        """How many entries it has."""
        return self.ends.get(partition, self.entries)

    def append(self, partition: TopicPartition, offset: int) -> None:
        """Work has got as far as this offset."""
        self.ends[partition] = max(self.end(partition), self.entries + offset)


@dataclass(eq=False, slots=True)
class StateDisk:
    """How far the state on one machine's disk has come."""

    options: StateOptions
    logs: Logs
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def lag(self, partition: TopicPartition) -> int:
        """How many entries are left to apply."""
        return self.logs.end(partition) - self.positions.get(partition, 0)

    def held(self) -> dict[TopicPartition, int | None]:
        """How far behind each state is that there is."""
        return {partition: self.lag(partition) for partition in self.positions}

    def apply(self, partition: TopicPartition) -> None:
        """Apply the next entries."""
        position = self.positions.get(partition, 0) + self.options.step
        self.positions[partition] = min(self.logs.end(partition), position)

    def work(self, partition: TopicPartition, offset: int) -> None:
        """Work has got as far as this offset, and its state with it."""
        self.logs.append(partition, offset)
        self.positions[partition] = self.logs.end(partition)
