"""Taking back moves that were not needed, until none is left: the loads stay as even as they are.

Evening out goes the short way, and now and then a longer one would have moved fewer partitions.
Members, pools and steps of one load to the next form a graph in which handing partitions around in
a circle leaves the loads, seen together, as they are.  A circle that costs less than nothing saves
moves; when there is none left, the moves are the fewest for these loads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol

__all__ = ["take_back_detours"]

#: Subscriptions, counted once per pool, above which this is not tried.
SUBSCRIPTIONS_MAX: Final = 20_000
#: How many steps from node to node are looked at, in all, before what was found so far has to do:
#: a second or two. Groups of a few thousand subscriptions stay below it.
LOOKS_MAX: Final = 10_000_000


class _Pool(Protocol):
    members: list[int]
    size: int
    had: list[int]
    share: list[int]


def take_back_detours(pools: Sequence[_Pool], loads: list[int]) -> None:
    """Change shares so that the fewest partitions move, as the loads allow."""
    # In a single pool it is settled at once who keeps how many.
    if len(pools) < 2 or sum(len(pool.members) for pool in pools) > SUBSCRIPTIONS_MAX:
        return
    looks = LOOKS_MAX
    while any(share < had for pool in pools for share, had in _both(pool)):
        edges = list(_edges(pools, loads))
        circle, looked = _find_circle(edges, len(loads) + len(pools) + max(loads) + 1, looks)
        looks -= looked
        if not circle:
            return
        steps = list(pairwise([*circle, circle[0]]))
        count = min(_room(start, end, pools, len(loads)) for start, end in steps)
        for start, end in steps:
            _hand_on(start, end, count, pools, loads)


def _both(pool: _Pool) -> Iterator[tuple[int, int]]:
    return zip(pool.share, pool.had, strict=True)


def _edges(pools: Sequence[_Pool], loads: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Who can hand what to whom, as (from, to, moves more).

    Nodes are the members, then the pools, then the loads: from a member with load n by way of node
    n to one with n + 1 means that the two change places.
    """
    steps = len(loads) + len(pools)
    for number, pool in enumerate(pools, len(loads)):
        for member, (share, had) in zip(pool.members, _both(pool), strict=True):
            if share:
                yield member, number, int(share <= had)
            yield number, member, -int(share < had)
    for member, load in enumerate(loads):
        yield member, steps + load, 0
        if load:
            yield steps + load - 1, member, 0


def _find_circle(
    edges: Sequence[tuple[int, int, int]], nodes: int, looks_max: int
) -> tuple[list[int], int]:
    """A circle that costs less than nothing, if there is one, and how many looks that took.

    Bellman and Ford's way: what it costs to come to each node, until nothing gets cheaper.
    """
    cost = [0] * nodes
    before = [-1] * nodes
    for looks in range(len(edges), looks_max + 1, len(edges)):
        changed = False
        for start, end, more in edges:
            if cost[start] + more < cost[end]:
                cost[end] = cost[start] + more
                before[end] = start
                changed = True
        circle = _circle_in(before) if changed else []
        if circle or not changed:
            return circle, looks
    return [], looks_max


def _circle_in(before: Sequence[int]) -> list[int]:
    """A circle among the steps taken so far; there is one only if it costs less than nothing."""
    seen = [-1] * len(before)
    for first in range(len(before)):
        node = first
        while node != -1 and seen[node] == -1:
            seen[node] = first
            node = before[node]
        if node != -1 and seen[node] == first:
            circle = [node]
            while (node := before[node]) != circle[0]:
                circle.append(node)
            return circle[::-1]
    return []


def _room(start: int, end: int, pools: Sequence[_Pool], members: int) -> int:
    """How many can go this way before it costs more than for the first one."""
    steps = members + len(pools)
    if start >= steps or end >= steps:
        return 1
    if start < members:
        pool = pools[end - members]
        place = bisect_left(pool.members, start)
        share, had = pool.share[place], pool.had[place]
        return share if share <= had else share - had
    pool = pools[start - members]
    place = bisect_left(pool.members, end)
    share, had = pool.share[place], pool.had[place]
    return had - share if share < had else pool.size


def _hand_on(start: int, end: int, count: int, pools: Sequence[_Pool], loads: list[int]) -> None:
    members, steps = len(loads), len(loads) + len(pools)
    if start < members and end < steps:
        pool = pools[end - members]
        pool.share[bisect_left(pool.members, start)] -= count
    elif start < members:
        loads[start] += count
    elif start < steps:
        pool = pools[start - members]
        pool.share[bisect_left(pool.members, end)] += count
    else:
        loads[end] -= count
