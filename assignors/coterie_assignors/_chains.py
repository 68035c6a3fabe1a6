"""Evening out by way of others: A hands B a partition, and B hands C one that A could not take.

Pool by pool it can look even although it is not: with loads of 3, 2 and 1, nobody has two more than
a member that shares a topic with it, yet 2, 2 and 2 is possible.  The way from one to the other is
found as a path through members and pools, breadth first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

__all__ = ["even_out_through_others"]

_UNSEEN: Final = -1
_START: Final = -2


class _Pool(Protocol):
    members: list[int]
    share: list[int]
    fast: list[int]


def even_out_through_others(pools: Sequence[_Pool], loads: list[int]) -> bool:
    """Shorten every way from a high load to one at least two lower; tell whether there was one.

    Ways that do not touch are found in one walk, so walks are few.
    """
    if len(pools) < 2 or max(loads) - min(loads) < 2:
        return False
    chains = _Chains(pools, loads)
    changed = False
    while chains.walk():
        changed = True
    return changed


class _Chains:
    def __init__(self, pools: Sequence[_Pool], loads: list[int]) -> None:
        self._pools = pools
        self._loads = loads
        #: Each member's pools, with its place in each.
        self._pools_of: list[list[tuple[int, int]]] = [[] for _ in loads]
        for number, pool in enumerate(pools):
            for place, member in enumerate(pool.members):
                self._pools_of[member].append((number, place))
        self._pool_before: list[int] = []
        self._giver: list[tuple[int, int]] = []
        self._spent: set[int] = set()

    def walk(self) -> bool:
        """Walk once from all members, those with the highest loads first; tell what was found.

        What was reached from a higher load need not be visited again for a lower one, so a walk
        sees every pool and every member once.
        """
        loads = self._loads
        self._pool_before = [_UNSEEN] * len(loads)
        self._giver = [(_UNSEEN, _UNSEEN)] * len(self._pools)
        self._spent = set()
        heights = list(loads)
        for start in sorted(range(len(loads)), key=lambda member: (-heights[member], member)):
            if self._pool_before[start] != _UNSEEN:
                continue
            self._pool_before[start] = _START
            for member in self._reached_from(start):
                if loads[member] <= heights[start] - 2 and self._hand_along(member):
                    break
        return bool(self._spent)

    def _reached_from(self, start: int) -> Iterator[int]:
        """Every member that can be reached and was not before, nearest first."""
        line = [start]
        for member in line:
            for number, place in self._pools_of[member]:
                pool = self._pools[number]
                if self._giver[number][0] != _UNSEEN or pool.share[place] <= pool.fast[place]:
                    continue
                self._giver[number] = (member, place)
                for taker in pool.members:
                    if self._pool_before[taker] == _UNSEEN:
                        self._pool_before[taker] = number
                        line.append(taker)
                        yield taker

    def _hand_along(self, last: int) -> bool:
        """Hand one partition along the way to this member, if no other way has used it."""
        way: list[tuple[int, int, int]] = []
        taker = last
        while self._pool_before[taker] != _START:
            number = self._pool_before[taker]
            giver, place = self._giver[number]
            way.append((number, place, taker))
            taker = giver
        touched = {taker, *(member for _, _, member in way)}
        if touched & self._spent:
            return False
        self._spent |= touched
        for number, place, member in way:
            pool = self._pools[number]
            pool.share[place] -= 1
            pool.share[bisect_left(pool.members, member)] += 1
        self._loads[taker] -= 1
        self._loads[last] += 1
        return True
