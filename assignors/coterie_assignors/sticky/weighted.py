"""Balancing loads instead of numbers, with few moves and none to and fro.

1. What has no owner goes to the members with the lowest loads, the heaviest first; what does next
   to nothing is spread by number, as far as loads allow.
2. A member that owns nothing takes its share from those with the highest loads, whatever rests.
3. A member whose load is above the mean by more than the tolerance gives partitions away, or
   exchanges a heavy one for a lighter one, until it is within half the tolerance.  Only partitions
   that have rested move, and only so many.

While partitions are on their way from one member to another, the third step waits: their owners
have given them up, and what was decided then is carried out first.  A partition does not go back to
a member that it has just left, as long as another one can have it.  Where members keep copies of
the partitions' state, what a taker has a copy of moves first: it may have been on its way to it.

Each step of the second and third kind makes the higher one of two loads lower, so they come to an
end.  All is decided by what members told when they joined; there is no clock here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final

from coterie_assignors.base import Cluster, MemberInfo
from coterie_assignors.copies import UNKNOWN_LAG
from coterie_assignors.ownership import UNOWNED
from coterie_assignors.sticky.pools import Pool
from coterie_assignors.sticky.rankings import Racks, Ranking
from coterie_assignors.sticky.shelves import Item, Shelves
from coterie_assignors.sticky.weighing import LEAST, Cargo, Kind, mean_loads
from coterie_assignors.weights import Weights

__all__ = ["WeightedPlan"]

#: How many of the members with the lowest, or highest, loads are tried for a move.
_TRIES: Final = 3

#: An exchange moves two partitions, so it has to gain more than this part of the tolerance.
_EXCHANGE_GAIN: Final = 4


@dataclass(frozen=True, slots=True, order=True)
class _Move:
    """A change that makes two loads more even; those that sort first are better."""

    #: How many copies of state are missing where partitions are to be.
    missing: int
    #: The higher one of the two loads after it, or the goal if that is higher.
    score: int
    #: How many partitions it takes from their owners.
    cost: int
    #: How far it is from evening out the two.
    off: float
    giver: int
    taker: int
    position: int
    #: What the giver gets in return.
    back: int = field(default=UNOWNED)


class WeightedPlan:
    """Changes the owners in a cargo until the loads are balanced."""

    def __init__(
        self,
        order: Sequence[MemberInfo],
        pools: Sequence[Pool],
        cluster: Cluster,
        cargo: Cargo,
        weights: Weights,
    ) -> None:
        self._pools, self._cargo = pools, cargo
        self._share = 1 + weights.tolerance
        members = len(order)
        self._loads, self._counts = [0] * members, [0] * members
        for position, owner in enumerate(cargo.owners):
            if owner != UNOWNED:
                self._loads[owner] += cargo.weights[position]
                self._counts[owner] += 1
        # What members that are away had is kept for them, and they get nothing else.
        self._away = frozenset(index for index, member in enumerate(order) if member.is_away)
        present = [member for member in range(members) if member not in self._away]
        self._idle = [member for member in present if not self._counts[member]]
        self._pools_of: list[list[int]] = [[] for _ in order]
        for index, pool in enumerate(pools):
            for member in pool.members:
                self._pools_of[member].append(index)
        self._means = mean_loads(pools, cargo, members, self._away)
        by_pool = {
            index: [member for member in pool.members if member not in self._away]
            for index, pool in enumerate(pools)
        }
        self._lowest = Ranking(self._loads, self._counts, by_pool)
        self._fewest = Ranking(self._counts, self._loads, by_pool)
        self._highest = Ranking(self._loads, self._counts, by_pool, highest_first=True)
        self._racks = Racks(order, pools, cluster)
        self._lowest_near = Ranking(self._loads, self._counts, self._racks.members)
        self._shelves = Shelves(cargo, members)
        self._moves_left = 0

    @property
    def highest_load(self) -> tuple[int, float]:
        """The member whose load is highest above the mean, and how many times the mean it is."""
        ratios = (
            load / mean if mean else 0.0
            for load, mean in zip(self._loads, self._means, strict=True)
        )
        ratio, member = max((ratio, -member) for member, ratio in enumerate(ratios))
        return -member, ratio

    # -- what members may have -----------------------------------------------------------------

    def _limit(self, member: int) -> float:
        """The load above which a member gives partitions away."""
        return self._means[member] * self._share

    def _goal(self, member: int) -> float:
        """The load at which it stops, half-way back to the mean."""
        return self._means[member] * (1 + self._share) / 2

    def _accepts(self, member: int, position: int) -> bool:
        return member not in self._away and member not in self._cargo.barred.get(position, ())

    def _place_at(self, position: int, member: int) -> None:
        weight, before = self._cargo.weights[position], self._cargo.owners[position]
        if before != UNOWNED:
            self._shelves.take(before, position)
            self._loads[before] -= weight
            self._counts[before] -= 1
            for ranking in (self._lowest, self._lowest_near, self._fewest):
                ranking.overtook(before)
        self._cargo.owners[position] = member
        self._loads[member] += weight
        self._counts[member] += 1
        self._highest.overtook(member)
        self._shelves.put(member, position)

    # -- 1: what has no owner ------------------------------------------------------------------

    def place(self) -> None:
        """Give what has no owner to the members with the lowest loads, the heaviest first."""
        cargo = self._cargo
        unowned = [place for place, owner in enumerate(cargo.owners) if owner == UNOWNED]
        unowned.sort(key=lambda place: (-cargo.weights[place], place))
        for position in unowned:
            self._place_at(position, self._taker_of(position))

    def _taker_of(self, position: int) -> int:
        pool = self._cargo.pools[position]
        near = self._with_copy(position)
        if near is None and position in self._cargo.barred:
            welcome = self._lowest.firsts(pool, lambda each: self._accepts(each, position), 1)
            if welcome:
                return welcome[0]
        if near is None:
            near = self._nearby(position, self._goal)
        if near is None and self._cargo.weights[position] == LEAST:
            fewest = self._fewest.first(pool)
            near = fewest if fewest is not None and self._has_room(fewest, position) else None
        first = self._lowest.first(pool) if near is None else near
        # Where all subscribers are away, one of them gets it when it is back.
        return self._pools[pool].members[0] if first is None else first

    def _has_room(self, member: int, position: int) -> bool:
        """Whether a member may get a partition, and stays within its goal with it."""
        load = self._loads[member] + self._cargo.weights[position]
        return load <= self._goal(member) and self._accepts(member, position)

    def _with_copy(self, position: int) -> int | None:
        """The member with a copy of the partition's state that has the lowest load, and room.

        What was given up for another member goes to the one whose copy is best: to that one, if
        only that has a copy.  It was decided then that there is room.
        """
        pool = self._cargo.pools[position]
        holders = self._cargo.copies.get(position, {})
        able = [member for member in holders if pool in self._pools_of[member]]
        if self._cargo.is_handing_over and position in self._cargo.barred:
            able = [
                each
                for each in able
                if holders[each] < UNKNOWN_LAG and self._accepts(each, position)
            ]
            return min(
                able, key=lambda each: (holders[each], self._loads[each], each), default=None
            )
        able = [member for member in able if self._has_room(member, position)]
        return min(able, key=lambda member: (self._loads[member], member), default=None)

    def _nearby(self, position: int, most: Callable[[int], float]) -> int | None:
        """The member in a rack of the partition that has the lowest load, if it has room."""
        racks = self._racks.of(position)
        found = (self._lowest_near.first((self._cargo.pools[position], rack)) for rack in racks)
        weight = self._cargo.weights[position]
        able = [
            member
            for member in found
            if member is not None
            and self._loads[member] + weight <= most(member)
            and self._accepts(member, position)
        ]
        return min(able, key=lambda member: (self._loads[member], member), default=None)

    # -- 2: members that own nothing -----------------------------------------------------------

    def fill_idle(self) -> None:
        """Give members that owned nothing their share."""
        waiting = [(self._loads[member], member) for member in self._idle]
        heapify(waiting)
        while waiting:
            _, taker = heappop(waiting)
            enough = self._means[taker] * 2 / (1 + self._share)
            if self._loads[taker] < enough and self._pull(taker):
                heappush(waiting, (self._loads[taker], taker))

    def _pull(self, taker: int) -> bool:
        """Take the best partition to have from one of the members with the highest loads.

        What it has a copy of comes first, whoever has that: it may be on its way.
        """
        copied = (
            (self._cargo.kinds[move.position], -self._loads[move.giver], move)
            for position in self._copied.get(taker, ())
            for move in self._move(self._cargo.owners[position], taker, position)
        )
        if (first := min(copied, default=None)) is not None:
            self._place_at(first[-1].position, taker)
            return True
        pairs = [
            (-self._loads[giver], giver, pool)
            for pool in self._pools_of[taker]
            for giver in self._highest.firsts(pool, lambda each: each != taker, _TRIES)
        ]
        for kinds in ((Kind.FREE, Kind.RESTED), (Kind.RESTING,)):
            for _, giver, pool in sorted(pairs):
                best = min(self._moves(giver, taker, pool, kinds), default=None)
                if best is not None:
                    self._place_at(best.position, taker)
                    return True
        return False

    # -- 3: members with too much --------------------------------------------------------------

    def even_out(self, moves_max: int) -> None:
        """Relieve members that are above the limit, with so many moves at most."""
        self._moves_left = 0 if self._cargo.is_handing_over else moves_max
        # As loads go up and down a little, another member has most; what is on its way goes on.
        ways = (self._relieve_by_copies, self._relieve)
        for relieve in ways if self._cargo.copies else ways[1:]:
            again = True
            while again:
                again = False
                for giver in self._overloaded():
                    while self._loads[giver] > self._goal(giver) and relieve(giver):
                        again = True

    def _overloaded(self) -> list[int]:
        loads = self._loads
        found = [member for member, load in enumerate(loads) if load > self._limit(member)]
        return sorted(found, key=lambda member: (-loads[member], member))

    @cached_property
    def _copied(self) -> dict[int, list[int]]:
        """The partitions that each member has copies of."""
        found: dict[int, list[int]] = {}
        for position, holders in self._cargo.copies.items():
            for member in holders:
                found.setdefault(member, []).append(position)
        return found

    @property
    def _movable(self) -> tuple[Kind, ...]:
        return (Kind.FREE, Kind.RESTED) if self._moves_left else (Kind.FREE,)

    def _relieve_by_copies(self, giver: int) -> bool:
        """Move a partition to a member that has a copy of its state."""
        moves = (
            move
            for position in self._shelves.positions(giver, self._movable)
            for taker in self._cargo.copies.get(position, ())
            for move in self._move(giver, taker, position)
        )
        best = min(moves, default=None)
        if best is None:
            return False
        self._moves_left -= best.cost
        self._carry_out(best)
        return True

    def _move(self, giver: int, taker: int, position: int) -> Iterator[_Move]:
        """A move to a member with a copy, if that makes the two loads more even."""
        if giver in (taker, UNOWNED) or giver in self._away:
            return
        if self._cargo.pools[position] not in self._pools_of[taker]:
            return
        high, low = self._loads[giver], self._loads[taker]
        weight = self._cargo.weights[position]
        if high <= low * self._share or weight >= high - low or not self._accepts(taker, position):
            return
        score = max(int(self._goal(giver)), high - weight, low + weight)
        cost = int(self._cargo.kinds[position] != Kind.FREE)
        yield _Move(0, score, cost, abs(weight - (high - low) / 2), giver, taker, position)

    def _relieve(self, giver: int) -> bool:
        kinds = self._movable
        pairs = [
            (taker, pool)
            for pool in self._shelves.pools_of(giver)
            for taker in self._lowest.firsts(pool, lambda each: each != giver, _TRIES)
        ]
        best = min(
            (m for t, pool in pairs for m in self._moves(giver, t, pool, kinds)), default=None
        )
        if best is None:
            exchanges = (m for t, pool in pairs for m in self._exchanges(giver, t, pool, kinds))
            best = min(exchanges, default=None)
        if best is None:
            return False
        self._moves_left -= best.cost
        self._carry_out(best)
        return True

    def _moves(self, giver: int, taker: int, pool: int, kinds: Collection[Kind]) -> Iterator[_Move]:
        """The best moves that make the two loads more even."""
        high, low = self._loads[giver], self._loads[taker]
        if high <= low * self._share:
            return
        ideal, goal = (high - low) / 2, int(self._goal(giver))

        def accept(position: int) -> bool:
            return self._accepts(taker, position)

        for kind in kinds:
            for weight, position in self._shelves.near(giver, pool, kind, ideal, accept):
                if weight < high - low:
                    score, off = max(goal, high - weight, low + weight), abs(weight - ideal)
                    cost = int(kind != Kind.FREE)
                    missing = self._missing(taker, position)
                    yield _Move(missing, score, cost, off, giver, taker, position)

    def _exchanges(
        self, giver: int, taker: int, pool: int, kinds: Collection[Kind]
    ) -> Iterator[_Move]:
        """The best exchanges of a heavy partition for a lighter one."""
        high, low = self._loads[giver], self._loads[taker]
        if high <= low * self._share:
            return
        ideal, goal = (high - low) / 2, int(self._goal(giver))
        least_gain = self._means[giver] * (self._share - 1) / _EXCHANGE_GAIN

        for kind in kinds:
            for heavy, given in self._shelves.heaviest(giver, pool, kind):
                if not self._accepts(taker, given):
                    continue
                for back_kind in kinds:
                    for light, back in self._in_return(
                        giver, taker, pool, back_kind, heavy - ideal
                    ):
                        score = max(goal, high - heavy + light, low + heavy - light)
                        cost = (kind != Kind.FREE) + (back_kind != Kind.FREE)
                        if high - score > least_gain and cost <= self._moves_left:
                            off = abs(heavy - light - ideal)
                            missing = self._missing(taker, given) + self._missing(giver, back)
                            yield _Move(missing, score, cost, off, giver, taker, given, back)

    def _in_return(
        self, giver: int, taker: int, pool: int, kind: Kind, weight: float
    ) -> Iterator[Item]:
        """What a giver could get in return, of about this weight; also what it has copies of."""
        yield from self._shelves.near(
            taker, pool, kind, weight, lambda each: self._accepts(giver, each)
        )
        if self._cargo.copies:
            yield from self._shelves.near(
                *(taker, pool, kind, weight),
                lambda each: self._accepts(giver, each) and not self._missing(giver, each),
            )

    def _missing(self, member: int, position: int) -> int:
        """How many copies of a partition's state a member lacks: one or none."""
        return int(member not in self._cargo.copies.get(position, ()))

    def _carry_out(self, move: _Move) -> None:
        taker = move.taker
        if move.back != UNOWNED:
            self._place_at(move.back, move.giver)
        elif move.missing and self._racks.of(move.position):
            near = self._nearby(move.position, lambda member: max(self._goal(member), move.score))
            taker = taker if near is None or near == move.giver else near
        self._place_at(move.position, taker)
