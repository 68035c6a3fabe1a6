"""Which processes keep a copy of each partition's state, in case its owner fails.

Copies that are caught up stay where they are; what is missing goes first to processes that have
copies nearly as good, then to those with the least to do.  Each copy is with another process than
the active one, and as far from the others as racks and tags allow.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from coterie_assignors.copies import NO_COPY, Pair, keeps_copies
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
        self._keepers = _keepers(group)
        self._keeping = {topic: frozenset(keepers) for topic, keepers in self._keepers.items()}
        self._refused = frozenset().union(*group.refused)

    def keepers(self, topic: str) -> tuple[int, ...]:
        """The processes that may have a standby of a topic's partitions, but for refusals."""
        return self._keepers.get(topic, ())

    def is_keeper(self, topic: str, process: int) -> bool:
        """Whether a process may have a standby of a topic's partitions, but for refusals."""
        return process in self._keeping.get(topic, ())

    def may_have(self, pair: Pair, process: int) -> bool:
        """Whether a process may have a standby of this partition, and has none yet."""
        if process == self.active[pair] or process in self.of[pair]:
            return False
        if pair not in self._refused:
            return process in self._keeping.get(pair[0], ())
        return any(self.group.may_keep(pair, m) for m in self.group.copies.members_of[process])

    def wanted(self, pair: Pair) -> int:
        """The process that a partition is meant for."""
        return self.group.copies.process_of[self.group.target[pair]]

    def has_room(self, pair: Pair) -> bool:
        """Whether any process may have one more standby; for what is refused, whether it might."""
        topic, of_pair = pair[0], self.of[pair]
        is_kept = self.active[pair] in self._keeping.get(topic, ())
        return self.is_refused(pair) or len(self.keepers(topic)) > len(of_pair) + is_kept

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
        if not self.places.is_one:
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


def _keepers(group: Group) -> dict[str, tuple[int, ...]]:
    """The processes that may keep copies of each topic's partitions."""
    found: dict[str, list[int]] = {}
    for process, members in enumerate(group.copies.members_of):
        able = (
            member
            for member in map(group.copies.order.__getitem__, members)
            if keeps_copies(member)
        )
        for topic in frozenset[str]().union(*(member.topics for member in able)):
            found.setdefault(topic, []).append(process)
    return {topic: tuple(processes) for topic, processes in found.items()}


def place_standbys(group: Group, active: Mapping[Pair, int]) -> Standbys:
    """Choose the processes that keep copies: as many for each partition as the settings say."""
    standbys = Standbys(group, active)
    if not group.settings.num_standbys:
        return standbys
    known, process_of = group.copies.lags, group.copies.process_of
    for pair, wanted in group.target.items():
        now, lags = standbys.active[pair], known.get(pair, ())
        # Mostly only the active one has a copy, or none has.
        if process_of[wanted] != now or len(lags) > (now in lags):
            _keep_copies(standbys, pair)
    pools: dict[tuple[int, ...], _Idle] = {}
    for pair, theirs in standbys.of.items():
        missing = group.settings.num_standbys - len(theirs)
        if not missing or not standbys.has_room(pair):
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
    lags, now = standbys.group.copies.lags.get(pair, {}), standbys.active[pair]
    acceptable, most = (
        standbys.group.settings.acceptable_recovery_lag,
        standbys.group.settings.num_standbys,
    )
    able = [each for each in lags if each != now and standbys.may_have(pair, each)]
    wanted = standbys.wanted(pair)
    if wanted not in lags and standbys.may_have(pair, wanted):
        able.append(wanted)
    if len(able) <= most:
        for process in able:
            standbys.add(pair, process)
        return
    holders = {each: max(0, lags.get(each, NO_COPY) - acceptable) for each in able}
    if standbys.places.is_one:
        best_ones = heapq.nsmallest(
            most, able, key=lambda each: (holders[each], standbys.loads[each], each)
        )
        for process in best_ones:
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
        """Give standbys to those on the heap, the least loaded first; return how many."""
        standbys, loads = self._standbys, self._standbys.loads
        seen: list[int] = []
        given = 0
        while heap and given < count:
            load, process = heap[0]
            if load < loads[process]:
                heapq.heapreplace(heap, (loads[process], process))
                continue
            seen.append(heapq.heappop(heap)[1])
            if standbys.may_have(pair, process):
                standbys.add(pair, process)
                given += 1
        for process in seen:
            heapq.heappush(heap, (loads[process], process))
        return given
