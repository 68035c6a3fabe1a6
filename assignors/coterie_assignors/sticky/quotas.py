"""Quotas: how many partitions of each pool each member gets, so that the loads are balanced.

First, unowned partitions go to the members with the lowest loads, while all members keep what they
own.  Only if that leaves the loads uneven are partitions taken from those that have most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from coterie_assignors.sticky.pools import Pool, loads_of

__all__ = ["set_quotas", "water_level"]

_UNSEEN: Final = -1
_START: Final = -2


def set_quotas(pools: Sequence[Pool], members: int) -> list[int]:
    """Set every pool's quotas, for this number of members; return the members' loads.

    Afterwards no member has two more than another one to which it could hand a partition, directly
    or through other members; so the highest load is as low as possible.
    """
    loads = loads_of(pools, members)
    # Pools with few subscribers first; those with many then fill the gaps that are left.
    for pool in sorted(pools, key=lambda pool: len(pool.members)):
        if sum(pool.owned) < pool.size:
            _fill(pool, loads)
    _even_out(pools, loads)
    for pool in pools:
        pool.pinned = [0] * len(pool.members)
    _even_out(pools, loads)
    _undo_exchanges(pools, loads)
    return loads


def _even_out(pools: Sequence[Pool], loads: list[int]) -> None:
    """Even out the loads within each pool, then along paths through several.

    Each change lowers the sum of the squared loads, so this terminates.
    """
    uneven = True
    while uneven:
        while uneven:
            uneven = False
            for pool in pools:
                if not _is_even(pool, loads):
                    _fill(pool, loads)
                    uneven = True
        uneven = _augment(pools, loads)


def _is_even(pool: Pool, loads: Sequence[int]) -> bool:
    """Whether no subscriber could hand another one a partition and still have at least as many."""
    lowest = min([loads[member] for member in pool.members])
    able = [
        loads[member]
        for member, quota, pinned in zip(pool.members, pool.quota, pool.pinned, strict=True)
        if quota > pinned
    ]
    return not able or max(able) <= lowest + 1


# Within a pool


def _fill(pool: Pool, loads: list[int]) -> None:
    """Distribute all that is not pinned anew by water-filling: each to the lowest load.

    The remainder that does not raise the level for all goes to members that owned that many.
    """
    base = [
        loads[member] - quota + pinned
        for member, quota, pinned in zip(pool.members, pool.quota, pool.pinned, strict=True)
    ]
    level, remainder = water_level(sorted(base), pool.size - sum(pool.pinned))
    filled = [pinned + max(0, level - low) for pinned, low in zip(pool.pinned, base, strict=True)]
    for place in _by_priority(pool, base, filled, level)[:remainder]:
        filled[place] += 1
    for place, member in enumerate(pool.members):
        loads[member] = base[place] - pool.pinned[place] + filled[place]
    pool.quota = filled


def water_level(base: Sequence[int], amount: int) -> tuple[int, int]:
    """The level after filling in this amount, and the remainder.

    `base` is sorted; the remainder is less than the number of places under water.
    """
    below = 0
    for count, low in enumerate(base, 1):
        below += low
        if count == len(base) or base[count] * count - below > amount:
            return divmod(amount + below, count)
    raise AssertionError("a pool has subscribers")


def _by_priority(pool: Pool, base: Sequence[int], filled: Sequence[int], level: int) -> list[int]:
    """The places that may get one more: first those that owned it, then those that have it now."""
    return sorted(
        (place for place, low in enumerate(base) if low <= level),
        key=lambda place: (
            pool.owned[place] <= filled[place],
            pool.quota[place] <= filled[place],
            place,
        ),
    )


def _undo_exchanges(pools: Sequence[Pool], loads: list[int]) -> None:
    """Give partitions back where a gainer has just one more than the member that lost one.

    The two swap their loads, so the balance stays the same.
    """
    again = True
    while again:
        again = False
        for pool in pools:
            if pool.quota != pool.owned and _undo_in_pool(pool, loads):
                again = True


def _undo_in_pool(pool: Pool, loads: list[int]) -> bool:
    losers: dict[int, list[int]] = {}
    for place, member in enumerate(pool.members):
        if pool.quota[place] < pool.owned[place]:
            losers.setdefault(loads[member], []).append(place)
    found = False
    for place, member in enumerate(pool.members):
        waiting = losers.get(loads[member] - 1)
        if pool.quota[place] <= pool.owned[place] or not waiting:
            continue
        loser = waiting.pop()
        pool.quota[place] -= 1
        pool.quota[loser] += 1
        loads[member] -= 1
        loads[pool.members[loser]] += 1
        found = True
    return found


# Through several pools


def _augment(pools: Sequence[Pool], loads: list[int]) -> bool:
    """Shift partitions along paths to loads that are lower by two or more; tell if there was one.

    Each pool can be even although the whole is not: with loads of 3, 2 and 1, where only neighbours
    share a topic, 2, 2 and 2 is possible.  A hands B a partition, and B hands C one that A could
    not give it.
    """
    if len(pools) < 2 or max(loads) - min(loads) < 2:
        return False
    paths = _AugmentingPaths(pools, loads)
    changed = False
    while paths.search():
        changed = True
    return changed


class _AugmentingPaths:
    """Breadth-first search through members and pools, from high loads to low ones."""

    def __init__(self, pools: Sequence[Pool], loads: list[int]) -> None:
        self._pools = pools
        self._loads = loads
        #: Each member's pools, with its place in each.
        self._pools_of: list[list[tuple[int, int]]] = [[] for _ in loads]
        for number, pool in enumerate(pools):
            for place, member in enumerate(pool.members):
                self._pools_of[member].append((number, place))
        self._pool_before: list[int] = []
        self._giver: list[tuple[int, int]] = []
        self._used: set[int] = set()

    def search(self) -> bool:
        """Search once from all members, those with the highest loads first; tell if it helped.

        What was reached from a higher load need not be visited again from a lower one, so one
        search visits every pool and member once, and uses all paths that share no member.
        """
        loads = self._loads
        self._pool_before = [_UNSEEN] * len(loads)
        self._giver = [(_UNSEEN, _UNSEEN)] * len(self._pools)
        self._used = set()
        before = list(loads)
        for start in sorted(range(len(loads)), key=lambda member: (-before[member], member)):
            if self._pool_before[start] != _UNSEEN:
                continue
            self._pool_before[start] = _START
            for member in self._reachable(start):
                if loads[member] <= before[start] - 2 and self._shift_to(member):
                    break
        return bool(self._used)

    def _reachable(self, start: int) -> Iterator[int]:
        """Every member that can be reached and was not before, nearest first."""
        queue = [start]
        for member in queue:
            for number, place in self._pools_of[member]:
                pool = self._pools[number]
                if self._giver[number][0] != _UNSEEN or pool.quota[place] <= pool.pinned[place]:
                    continue
                self._giver[number] = (member, place)
                for taker in pool.members:
                    if self._pool_before[taker] == _UNSEEN:
                        self._pool_before[taker] = number
                        queue.append(taker)
                        yield taker

    def _shift_to(self, last: int) -> bool:
        """Shift one partition along the path to this member, if no other path has used it."""
        path: list[tuple[int, int, int]] = []
        taker = last
        while self._pool_before[taker] != _START:
            number = self._pool_before[taker]
            giver, place = self._giver[number]
            path.append((number, place, taker))
            taker = giver
        on_path = {taker, *(member for _, _, member in path)}
        if on_path & self._used:
            return False
        self._used |= on_path
        for number, place, member in path:
            pool = self._pools[number]
            pool.quota[place] -= 1
            pool.quota[bisect_left(pool.members, member)] += 1
        self._loads[taker] -= 1
        self._loads[last] += 1
        return True
