"""How far the loads may change while they, seen together, stay as even as they are.

In the most even loads a member can at times change places with another one that has just one more
or one less.  Who can do so is found by asking who can hand something to whom, also by way of
others.  Nobody can go both ways: else the loads could be more even.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Slack", "find_slack"]


class _Pool(Protocol):
    members: list[int]
    share: list[int]


@dataclass(frozen=True, slots=True)
class Slack:
    """What loads the members may have."""

    #: For each member the least load, and the load that it has with one more, if it may have that.
    loads: list[tuple[int, int | None]]
    #: How many of the members that may have such a load do have it, by load.
    spare: Mapping[int, int]


def find_slack(pools: Sequence[_Pool], members: int) -> Slack:
    """Look at shares that are as even as they can be."""
    loads = [0] * members
    for pool in pools:
        for member, share in zip(pool.members, pool.share, strict=True):
            loads[member] += share
    takers = [pool.members for pool in pools]
    givers = [
        [member for member, share in zip(pool.members, pool.share, strict=True) if share]
        for pool in pools
    ]
    by_load = sorted(range(members), key=loads.__getitem__)
    lowest = _reached(by_load, loads, givers, takers)
    highest = _reached(by_load[::-1], loads, takers, givers)
    bounds: list[tuple[int, int | None]] = []
    for load, low, high in zip(loads, lowest, highest, strict=True):
        bounds.append((min(load, low), load if low < load else high if high > load else None))
    return Slack(
        bounds, Counter(load for load, low in zip(loads, lowest, strict=True) if low < load)
    )


def _reached(
    starts: Sequence[int],
    loads: Sequence[int],
    near: Sequence[Sequence[int]],
    away: Sequence[Sequence[int]],
) -> list[int]:
    """For each member the load of the first start from which it can be reached.

    Ways lead from those away in a pool to those near in it.  Each pool is gone through once.
    """
    pools_of: list[list[int]] = [[] for _ in loads]
    for number, theirs in enumerate(away):
        for member in theirs:
            pools_of[member].append(number)
    found: list[int | None] = [None] * len(loads)
    entered = [False] * len(near)
    for start in starts:
        if found[start] is not None:
            continue
        found[start] = loads[start]
        line = [start]
        for member in line:
            for number in pools_of[member]:
                if not entered[number]:
                    entered[number] = True
                    fresh = [other for other in near[number] if found[other] is None]
                    line += fresh
                    for other in fresh:
                        found[other] = loads[start]
    return [load for load in found if load is not None]
