"""Each member's partitions, sorted by weight, so that one of the right weight is found fast."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from coterie_assignors.ownership import UNOWNED
from coterie_assignors.sticky.weighing import Cargo, Kind

__all__ = ["Item", "Shelves"]

#: The weight of a partition, and its position.
Item = tuple[int, int]

#: Of many partitions, only the heaviest are tried in exchanges.
_HEAVIEST: Final = 64


class Shelves:
    """The partitions of each member, by pool and by whether they may move."""

    def __init__(self, cargo: Cargo, members: int) -> None:
        self._cargo = cargo
        #: What has not been sorted yet.
        self._unsorted: list[list[int]] = [[] for _ in range(members)]
        self._sorted: dict[int, dict[tuple[int, Kind], list[Item]]] = {}
        for position, owner in enumerate(cargo.owners):
            if owner != UNOWNED:
                self._unsorted[owner].append(position)

    def pools_of(self, member: int) -> list[int]:
        """The pools of which a member has partitions."""
        return sorted({pool for (pool, _), items in self._of(member).items() if items})

    def positions(self, member: int, kinds: Collection[Kind]) -> Iterator[int]:
        """The partitions of a member that are of these kinds."""
        for (_, kind), items in self._of(member).items():
            if kind in kinds:
                yield from (position for _, position in items)

    def put(self, member: int, position: int) -> None:
        """Add a partition that was free, or is by now: it may move on at no cost."""
        self._cargo.kinds[position] = Kind.FREE
        if member not in self._sorted:
            self._unsorted[member].append(position)
        else:
            insort(self._shelf(member, position), (self._cargo.weights[position], position))

    def take(self, member: int, position: int) -> None:
        """Remove a partition."""
        shelf = self._shelf(member, position)
        del shelf[bisect_left(shelf, (self._cargo.weights[position], position))]

    def near(
        self, member: int, pool: int, kind: Kind, weight: float, accept: Callable[[int], bool]
    ) -> Iterator[Item]:
        """The acceptable partitions next to a weight: at most one lighter and one heavier."""
        shelf = self._of(member).get((pool, kind), ())
        middle = bisect_left(shelf, (weight, -1))
        for places in (range(middle - 1, -1, -1), range(middle, len(shelf))):
            found = next((shelf[place] for place in places if accept(shelf[place][1])), None)
            if found is not None:
                yield found

    def heaviest(self, member: int, pool: int, kind: Kind) -> Sequence[Item]:
        """The heaviest partitions, lightest first."""
        return self._of(member).get((pool, kind), [])[-_HEAVIEST:]

    def _shelf(self, member: int, position: int) -> list[Item]:
        key = self._cargo.pools[position], self._cargo.kinds[position]
        return self._of(member).setdefault(key, [])

    def _of(self, member: int) -> dict[tuple[int, Kind], list[Item]]:
        shelves = self._sorted.get(member)
        if shelves is None:
            cargo = self._cargo
            shelves = self._sorted[member] = {}
            for position in self._unsorted[member]:
                key = cargo.pools[position], cargo.kinds[position]
                shelves.setdefault(key, []).append((cargo.weights[position], position))
            for shelf in shelves.values():
                shelf.sort()
        return shelves
