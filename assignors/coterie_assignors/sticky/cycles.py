"""Fewest moves: taking back unnecessary ones by cancelling negative cycles.

Evening out takes short paths, and now and then a longer one would have moved fewer partitions.
Consider the residual graph of members, pools and loads, in which an edge costs as many moves as
it adds.  Shifting partitions around a cycle leaves the balance as it is, and around a cycle of
negative cost it saves moves.  When there is none left, the moves are the fewest for these loads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from coterie_assignors.sticky.pools import Pool

__all__ = ["cancel_negative_cycles"]

#: Subscriptions, counted once per pool, above which this is not tried.
SUBSCRIPTIONS_MAX: Final = 20_000
#: The edges visited in all before the result so far has to do: a second or two.
#: Groups of a few thousand subscriptions stay below it.
EDGE_VISITS_MAX: Final = 10_000_000

#: From one node to another, and how many more moves that costs.
_Edge = tuple[int, int, int]


def cancel_negative_cycles(pools: Sequence[Pool], loads: list[int]) -> None:
    """Change quotas so that as few partitions move as the balance allows."""
    # A single pool's quotas have the fewest moves already.
    if len(pools) < 2 or sum(len(pool.members) for pool in pools) > SUBSCRIPTIONS_MAX:
        return
    visits_left = EDGE_VISITS_MAX
    while any(quota < owned for pool in pools for quota, owned in _counts(pool)):
        edges = list(_residual_edges(pools, loads))
        nodes = len(loads) + len(pools) + max(loads) + 1
        cycle, visits = _find_negative_cycle(edges, nodes, visits_left)
        visits_left -= visits
        if not cycle:
            return
        steps = list(pairwise([*cycle, cycle[0]]))
        amount = min(_capacity(start, end, pools, len(loads)) for start, end in steps)
        for start, end in steps:
            _push(start, end, amount, pools, loads)


def _counts(pool: Pool) -> Iterator[tuple[int, int]]:
    return zip(pool.quota, pool.owned, strict=True)


def _residual_edges(pools: Sequence[Pool], loads: Sequence[int]) -> Iterator[_Edge]:
    """The edges along which a partition can be shifted.

    Nodes are the members, then the pools, then the loads: from a member with load n through node n
    to a member with load n + 1 means that the two swap their loads.
    """
    first_load = len(loads) + len(pools)
    for number, pool in enumerate(pools, len(loads)):
        for member, (quota, owned) in zip(pool.members, _counts(pool), strict=True):
            if quota:
                yield member, number, int(quota <= owned)
            yield number, member, -int(quota < owned)
    for member, load in enumerate(loads):
        yield member, first_load + load, 0
        if load:
            yield first_load + load - 1, member, 0


def _find_negative_cycle(
    edges: Sequence[_Edge], nodes: int, visits_max: int
) -> tuple[list[int], int]:
    """A cycle of negative cost, if there is one, and how many edges were visited (Bellman-Ford)."""
    cost = [0] * nodes
    before = [-1] * nodes
    for visits in range(len(edges), visits_max + 1, len(edges)):
        changed = False
        for start, end, more in edges:
            if cost[start] + more < cost[end]:
                cost[end] = cost[start] + more
                before[end] = start
                changed = True
        cycle = _cycle_in(before) if changed else []
        if cycle or not changed:
            return cycle, visits
    return [], visits_max


def _cycle_in(before: Sequence[int]) -> list[int]:
    """A cycle among the predecessors; there is one only if its cost is negative."""
    seen = [-1] * len(before)
    for first in range(len(before)):
        node = first
        while node != -1 and seen[node] == -1:
            seen[node] = first
            node = before[node]
        if node != -1 and seen[node] == first:
            cycle = [node]
            while (node := before[node]) != cycle[0]:
                cycle.append(node)
            return cycle[::-1]
    return []


def _capacity(start: int, end: int, pools: Sequence[Pool], members: int) -> int:
    """How many partitions this edge takes before its cost changes."""
    first_load = members + len(pools)
    if start >= first_load or end >= first_load:
        return 1
    if start < members:
        pool = pools[end - members]
        place = bisect_left(pool.members, start)
        quota, owned = pool.quota[place], pool.owned[place]
        return quota if quota <= owned else quota - owned
    pool = pools[start - members]
    place = bisect_left(pool.members, end)
    quota, owned = pool.quota[place], pool.owned[place]
    return owned - quota if quota < owned else pool.size


def _push(start: int, end: int, amount: int, pools: Sequence[Pool], loads: list[int]) -> None:
    members, first_load = len(loads), len(loads) + len(pools)
    if start < members and end < first_load:
        pool = pools[end - members]
        pool.quota[bisect_left(pool.members, start)] -= amount
    elif start < members:
        loads[start] += amount
    elif start < first_load:
        pool = pools[start - members]
        pool.quota[bisect_left(pool.members, end)] += amount
    else:
        loads[end] -= amount
