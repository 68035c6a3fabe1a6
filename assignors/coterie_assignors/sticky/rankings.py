"""Members in the order of their loads, for each of many groups of members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from coterie_assignors.base import Cluster, MemberInfo
from coterie_assignors.sticky.pools import Pool

__all__ = ["Racks", "Ranking"]

G = TypeVar("G", bound=Hashable)

_Entry = tuple[int, int, int]


class Ranking(Generic[G]):
    """Finds the members with the lowest loads, or the highest, while loads change.

    Each group has a heap, in which an entry may be out of date.  One that ranks its member too high
    comes to the top and is corrected there; `overtook` has to tell when one ranks it too low.
    """

    def __init__(
        self,
        loads: Sequence[int],
        counts: Sequence[int],
        groups: Mapping[G, Sequence[int]],
        *,
        highest_first: bool = False,
    ) -> None:
        """Rank by these loads, which the caller goes on to change; then by counts."""
        self._loads, self._counts = loads, counts
        self._sign = -1 if highest_first else 1
        self._heaps: dict[G, list[_Entry]] = {}
        self._groups_of: dict[int, list[G]] = {}
        for group, members in groups.items():
            self._heaps[group] = [self._entry(member) for member in members]
            heapify(self._heaps[group])
            for member in members:
                self._groups_of.setdefault(member, []).append(group)

    def overtook(self, member: int) -> None:
        """Note that a member comes earlier now."""
        entry = self._entry(member)
        for group in self._groups_of.get(member, ()):
            heappush(self._heaps[group], entry)

    def first(self, group: G) -> int | None:
        """The member that comes first."""
        heap = self._heaps.get(group)
        if not heap:
            return None
        while (entry := self._entry(heap[0][2])) != heap[0]:
            heapreplace(heap, entry)
        return heap[0][2]

    def firsts(self, group: G, accept: Callable[[int], bool], most: int) -> list[int]:
        """Of the members that are acceptable, the first ones, this many at most."""
        heap = self._heaps.get(group, [])
        passed: dict[int, _Entry] = {}
        found: list[int] = []
        while len(found) < most and (member := self.first(group)) is not None:
            entry = heappop(heap)
            if member not in passed:
                passed[member] = entry
                if accept(member):
                    found.append(member)
        for entry in passed.values():
            heappush(heap, entry)
        return found

    def _entry(self, member: int) -> _Entry:
        return self._sign * self._loads[member], self._sign * self._counts[member], member


class Racks:
    """Which members are near to a partition, where that makes a difference."""

    def __init__(
        self, order: Sequence[MemberInfo], pools: Sequence[Pool], cluster: Cluster
    ) -> None:
        #: By pool and rack, the members in that rack, and those that do not tell theirs.
        self.members: dict[tuple[int, str], list[int]] = {}
        self._racks: list[frozenset[str]] = []
        if not cluster.racks or len({member.rack or None for member in order}) < 2:
            return
        for pool in pools:
            for topic in pool.topics:
                known = cluster.racks.get(topic, ())[: cluster.topics[topic]]
                self._racks += known
                self._racks += [frozenset()] * (cluster.topics[topic] - len(known))
        everywhere = sorted({rack for racks in self._racks for rack in racks})
        for index, pool in enumerate(pools):
            for rack in everywhere:
                near = [
                    each
                    for each in pool.members
                    if (order[each].rack or rack) == rack and not order[each].is_away
                ]
                if near:
                    self.members[index, rack] = near

    def of(self, position: int) -> Collection[str]:
        """The racks of a partition's replicas; none where they make no difference."""
        return sorted(self._racks[position]) if self._racks else ()
