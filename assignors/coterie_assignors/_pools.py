"""How many partitions of which pool each member is to have: the arithmetic of a fair share.

Topics with the same subscribers form a pool, and within a pool one partition is as good as another.
So the question is first settled in numbers, one per pool and member, however many partitions there
are; which partitions they are comes later.

First the partitions that nobody has are poured where the load is lowest, with what members have
held fast.  Only what is uneven even then is evened out by taking from those who have most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coterie_assignors._chains import even_out_through_others
from coterie_assignors._detours import take_back_detours

__all__ = ["Pool", "settle_shares"]


@dataclass(slots=True)
class Pool:
    """The topics that have exactly these subscribers, and each one's share of their partitions."""

    #: Places of the subscribers among all members, ascending.
    members: list[int]
    #: How many partitions there are.
    size: int
    #: How many of them each subscriber has had; this is what stickiness is about.
    had: list[int]
    #: How many each is to have.
    share: list[int] = field(init=False)
    #: How much of each share is not to be taken away for now.
    fast: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.share = list(self.had)
        self.fast = self.had


def settle_shares(pools: Sequence[Pool], members: int) -> None:
    """Settle every pool's shares, for this number of members.

    Afterwards no member has two more than another to which it could hand a partition, be it
    directly or by way of others; so the highest load is as low as it can be.
    """
    loads = _loads(pools, members)
    # Who can go to few comes first; who can go to many then fills the gaps that are left.
    for pool in sorted(pools, key=lambda pool: len(pool.members)):
        if sum(pool.had) < pool.size:
            _pour(pool, loads)
    _even_out(pools, loads)
    for pool in pools:
        pool.fast = [0] * len(pool.members)
    _even_out(pools, loads)
    _give_back(pools, loads)
    take_back_detours(pools, loads)


def _loads(pools: Iterable[Pool], members: int) -> list[int]:
    loads = [0] * members
    for pool in pools:
        for member, share in zip(pool.members, pool.share, strict=True):
            loads[member] += share
    return loads


def _even_out(pools: Sequence[Pool], loads: list[int]) -> None:
    """Even out pool by pool, and then what takes a detour through several pools.

    Each change lowers the sum of the squared loads, so this comes to an end.
    """
    uneven = True
    while uneven:
        while uneven:
            uneven = False
            for pool in pools:
                if not _is_even(pool, loads):
                    _pour(pool, loads)
                    uneven = True
        uneven = even_out_through_others(pools, loads)


def _is_even(pool: Pool, loads: Sequence[int]) -> bool:
    """Whether no subscriber could hand another one a partition and still have no less than it."""
    lowest = min([loads[member] for member in pool.members])
    able = [
        loads[member]
        for member, share, fast in zip(pool.members, pool.share, pool.fast, strict=True)
        if share > fast
    ]
    return not able or max(able) <= lowest + 1


def _pour(pool: Pool, loads: list[int]) -> None:
    """Share out anew all that is not held fast, always to where the load is lowest.

    Like water poured over uneven ground: it stands at one height, but for a last partition here and
    there.  Those go to members that had them.
    """
    ground = [
        loads[member] - share + fast
        for member, share, fast in zip(pool.members, pool.share, pool.fast, strict=True)
    ]
    height, over = _height(sorted(ground), pool.size - sum(pool.fast))
    poured = [fast + max(0, height - level) for fast, level in zip(pool.fast, ground, strict=True)]
    for place in _first_in_line(pool, ground, poured, height)[:over]:
        poured[place] += 1
    for place, member in enumerate(pool.members):
        loads[member] = ground[place] - pool.fast[place] + poured[place]
    pool.share = poured


def _height(ground: Sequence[int], amount: int) -> tuple[int, int]:
    """How high it stands after so much was poured, and how much is left over for one layer more.

    `ground` is sorted; what is left over is less than the number of places under water.
    """
    below = 0
    for count, level in enumerate(ground, 1):
        below += level
        if count == len(ground) or ground[count] * count - below > amount:
            return divmod(amount + below, count)
    raise AssertionError("a pool has subscribers")


def _first_in_line(
    pool: Pool, ground: Sequence[int], poured: Sequence[int], height: int
) -> list[int]:
    """Who may have one more: first who had that many, then who has them just now."""
    return sorted(
        (place for place, level in enumerate(ground) if level <= height),
        key=lambda place: (
            pool.had[place] <= poured[place],
            pool.share[place] <= poured[place],
            place,
        ),
    )


def _give_back(pools: Sequence[Pool], loads: list[int]) -> None:
    """Undo what turned out not to be needed: who took one and has just one more than who lost it.

    The two change places, which leaves the loads, seen together, as even as before.
    """
    again = True
    while again:
        again = False
        for pool in pools:
            if pool.share != pool.had and _give_back_in(pool, loads):
                again = True


def _give_back_in(pool: Pool, loads: list[int]) -> bool:
    losers: dict[int, list[int]] = {}
    for place, member in enumerate(pool.members):
        if pool.share[place] < pool.had[place]:
            losers.setdefault(loads[member], []).append(place)
    found = False
    for place, member in enumerate(pool.members):
        waiting = losers.get(loads[member] - 1)
        if pool.share[place] <= pool.had[place] or not waiting:
            continue
        loser = waiting.pop()
        pool.share[place] -= 1
        pool.share[loser] += 1
        loads[member] -= 1
        loads[pool.members[loser]] += 1
        found = True
    return found
