"""Finds overlaps, old tokens and lost work in what the members of a group have told."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

__all__ = ["Ownership", "TaskRun", "overlaps", "resumed_wrongly", "tokens_not_growing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A member's ownership of a partition, by the clock that all processes share."""

    partition: int
    member: str
    began_s: float
    #: Infinite as long as it goes on.
    ended_s: float = math.inf


@dataclass(slots=True, kw_only=True, eq=False)
class TaskRun:
    """A task of Coterie's client on a partition."""

    partition: int
    member: str
    token: int
    began_s: float
    ended_s: float = math.inf
    #: Where it went on; None if it did not get so far.
    resumed: int | None = None
    #: Its acknowledged commits: when, and the offset.
    acks: list[tuple[float, int]] = field(default_factory=list)

    @property
    def acked(self) -> int | None:
        """The highest offset that was acknowledged to it, if any."""
        return max((offset for _, offset in self.acks), default=None)

    @property
    def ownership(self) -> Ownership:
        """When it owned its partition."""
        return Ownership(
            partition=self.partition,
            member=self.member,
            began_s=self.began_s,
            ended_s=self.ended_s,
        )


T = TypeVar("T", Ownership, TaskRun)


def overlaps(ownerships: Iterable[Ownership]) -> list[tuple[Ownership, Ownership]]:
    """Every ownership that began while another one on its partition went on, and that one."""
    found = []
    for each in _by_partition(ownerships):
        longest = each[0]
        for later in each[1:]:
            if later.began_s < longest.ended_s:
                found.append((longest, later))
            longest = max(longest, later, key=lambda ownership: ownership.ended_s)
    return found


def tokens_not_growing(runs: Iterable[TaskRun]) -> list[tuple[TaskRun, TaskRun]]:
    """The tasks on a partition whose fencing token is not higher than that of the task before."""
    return [
        (before, after)
        for each in _by_partition(runs)
        for before, after in pairwise(each)
        if after.token <= before.token
    ]


def resumed_wrongly(runs: Iterable[TaskRun]) -> list[tuple[int, TaskRun]]:
    """The tasks that went on below what was acknowledged, or above what was ever sent; and that.

    A task sends one offset at a time, so one more than was acknowledged can have been stored.
    """
    found = []
    for each in _by_partition(runs):
        acked = 0
        for run in each:
            if run.resumed is not None and not acked <= run.resumed <= acked + 1:
                found.append((acked, run))
            acked = max(acked, run.resumed or 0, run.acked or 0)
    return found


def _by_partition(ownerships: Iterable[T]) -> Iterator[Sequence[T]]:
    """Those of each partition, in the order in which they began."""
    found: dict[int, list[T]] = defaultdict(list)
    for ownership in sorted(ownerships, key=lambda each: each.began_s):
        found[ownership.partition].append(ownership)
    yield from found.values()
