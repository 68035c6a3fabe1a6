"""Which processes keep a copy of each partition's state, in case its owner fails.

Copies that are caught up stay where they are; what is missing goes first to processes that have
copies nearly as good, then to those with the least to do.  Each copy is with another process than
the active one, and as far from the others as racks and tags allow.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from coterie_assignors.copies import NO_COPY, Pair
from coterie_assignors.warm.group import Group
from coterie_assignors.warm.places import Places

__all__ = ["Standbys", "place_standbys"]


class Standbys:
    """The processes with standbys, which processes may have them, and how much each has to do."""

    def __init__(self, group: Group, active: Mapping[Pair, int]) -> None:
        self.group = group
        self.places = Places(group.copies)
        process_of = group.copies.process_of
        #: The process that each partition is active on.
        self.active = {pair: process_of[member] for pair, member in active.items()}
        #: The processes with a standby of each partition.
        self.of: dict[Pair, list[int]] = {pair: [] for pair in group.target}
        #: The number of partitions and standbys of each process, as it is to be in the end.
        self.loads = [0] * len(group.copies.members_of)
        for member in group.target.values():
            self.loads[process_of[member]] += 1
        self._crowding: dict[Pair, list[int]] = {}
        self._by_topic = {topic: self._keepers(topic) for topic in {pair[0] for pair in active}}
        self._refused = frozenset().union(*group.refused)

    def _keepers(self, topic: str) -> tuple[int, ...]:
        """The processes that may keep copies of a topic's partitions."""
        group = self.group
        return tuple(
            process
            for process, members in enumerate(group.copies.members_of)
            if any(group.may_keep((topic, -1), member) for member in members)
        )

    def keepers(self, topic: str) -> tuple[int, ...]:
        """The processes that may have a standby of a topic's partitions, but for refusals."""
        return self._by_topic[topic]

    def may_have(self, pair: Pair, process: int) -> bool:
        """Whether a process may have a standby of this partition, and has none yet."""
        if process == self.active[pair] or process in self.of[pair]:
            return False
        return any(self.group.may_keep(pair, m) for m in self.group.copies.members_of[process])

    def wanted(self, pair: Pair) -> int:
        """The process that a partition is meant for."""
        return self.group.copies.process_of[self.group.target[pair]]

    def is_refused(self, pair: Pair) -> bool:
        """Whether any member refused a partition, so that not all keepers of the topic may."""
        return pair in self._refused

    def crowding(self, pair: Pair) -> list[int]:
        """How crowded a copy would be in each place, as far as is decided."""
        if pair not in self._crowding:
            self._crowding[pair] = [0] * len(self.places.common)
            self._crowd(pair, self.wanted(pair), 1)
        return self._crowding[pair]

    def gain(self, pair: Pair, giver: int, taker: int) -> int:
        """How much less crowded a standby would be with another process."""
        if self.places.is_one:
            return 0
        here, there, common = self.places.of[giver], self.places.of[taker], self.places.common
        crowding = self.crowding(pair)
        return (crowding[here] - common[here][here]) - (crowding[there] - common[there][here])

    def add(self, pair: Pair, process: int) -> None:
        """Give a process a standby."""
        self.of[pair].append(process)
        self.loads[process] += 1
        self._crowd(pair, process, 1)

    def remove(self, pair: Pair, process: int) -> None:
        """Take a standby from a process."""
        self.of[pair].remove(process)
        self.loads[process] -= 1
        self._crowd(pair, process, -1)

    def _crowd(self, pair: Pair, process: int, more: int) -> None:
        if not self.places.is_one:
            common = self.places.common[self.places.of[process]]
            crowding = self.crowding(pair)
            for place, shared in enumerate(common):
                crowding[place] += more * shared


def place_standbys(group: Group, active: Mapping[Pair, int]) -> Standbys:
    """Choose the processes that keep copies: as many for each partition as the settings say."""
    standbys = Standbys(group, active)
    if not group.settings.num_standbys:
        return standbys
    for pair in standbys.of:
        _keep_copies(standbys, pair)
    pools: dict[tuple[int, ...], _Idle] = {}
    for pair in standbys.of:
        missing = group.settings.num_standbys - len(standbys.of[pair])
        if not missing:
            continue
        keepers = standbys.keepers(pair[0])
        if standbys.is_refused(pair):
            keepers = tuple(each for each in keepers if standbys.may_have(pair, each))
        if keepers not in pools:
            pools[keepers] = _Idle(standbys, keepers)
        pools[keepers].add_to(pair, missing)
    return standbys


def _keep_copies(standbys: Standbys, pair: Pair) -> None:
    """Use the copies that there are: those that are caught up, then the others, best ones first.

    The one that the partition is meant for comes before other cold ones: its copy serves the move
    as well.
    """
    group = standbys.group
    acceptable, most = group.settings.acceptable_recovery_lag, group.settings.num_standbys
    wanted = standbys.wanted(pair)
    holders = {
        process: max(0, lag - acceptable)
        for process, lag in group.copies.lags.get(pair, {}).items()
        if standbys.may_have(pair, process)
    }
    if standbys.may_have(pair, wanted):
        holders.setdefault(wanted, NO_COPY)
    if len(holders) <= most:
        for process in holders:
            standbys.add(pair, process)
        return
    places, crowding = standbys.places.of, standbys.crowding(pair)
    while holders and len(standbys.of[pair]) < most:
        best = min(
            holders,
            key=lambda each: (holders[each], crowding[places[each]], standbys.loads[each], each),
        )
        standbys.add(pair, best)
        del holders[best]


class _Idle:
    """The processes that may have standbys of some topics, by their load in each place."""

    def __init__(self, standbys: Standbys, keepers: Sequence[int]) -> None:
        self._standbys = standbys
        self._by_place: dict[int, list[tuple[int, int]]] = {}
        for process in keepers:
            heap = self._by_place.setdefault(standbys.places.of[process], [])
            heap.append((standbys.loads[process], process))
        for heap in self._by_place.values():
            heapq.heapify(heap)

    def add_to(self, pair: Pair, missing: int) -> None:
        """Give standbys of a partition to those with the least to do, far from each other."""
        if len(self._by_place) == 1:
            [heap] = self._by_place.values()
            self._add(pair, heap, missing)
            return
        crowding = self._standbys.crowding(pair)
        full: set[int] = set()
        while missing and len(full) < len(self._by_place):
            place = min(
                (each for each in self._by_place if each not in full),
                key=lambda each: (crowding[each], self._by_place[each][0]),
            )
            if self._add(pair, self._by_place[place], 1):
                missing -= 1
            else:
                full.add(place)

    def _add(self, pair: Pair, heap: list[tuple[int, int]], count: int) -> int:
        """Give standbys to those on the heap; return how many."""
        standbys = self._standbys
        seen: list[tuple[int, int]] = []
        given = 0
        for process in self._by_load(heap, seen):
            if standbys.may_have(pair, process):
                standbys.add(pair, process)
                given += 1
                if given == count:
                    break
        for _, process in seen:
            heapq.heappush(heap, (standbys.loads[process], process))
        return given

    def _by_load(self, heap: list[tuple[int, int]], seen: list[tuple[int, int]]) -> Iterator[int]:
        """Take processes from the heap, the least loaded first, into `seen`."""
        loads = self._standbys.loads
        while heap:
            load, process = heapq.heappop(heap)
            if load < loads[process]:
                heapq.heappush(heap, (loads[process], process))
                continue
            seen.append((load, process))
            yield process
