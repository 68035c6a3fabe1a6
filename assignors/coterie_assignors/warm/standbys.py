"""Which processes keep a copy of each partition's state, in case its owner fails.

Copies that are caught up stay where they are; what is missing goes first to processes that have
copies nearly as good, then to those with the least to do.  Each copy is with another process than
the active one, and as far from the others as racks and tags allow.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from coterie_assignors.copies import NO_COPY, keeps_copies
from coterie_assignors.warm.group import Group
from coterie_assignors.warm.places import Places

__all__ = ["Standbys", "place_standbys"]


class Standbys:
    """The processes with standbys, which processes may have them, and how much each has to do."""

    def __init__(self, group: Group, active: Sequence[int]) -> None:
        self.group = group
        self.places = Places(group.copies)
        process_of = group.copies.process_of
        #: The process that each partition is active on, and the one that it is meant for.
        self.active = [process_of[member] for member in active]
        self.wanted = [process_of[member] for member in group.target]
        #: The processes with a standby of each partition.
        self.of: list[list[int]] = [[] for _ in self.active]
        #: The number of partitions and standbys of each process, as it is to be in the end.
        self.loads = [0] * len(group.copies.members_of)
        for process, count in Counter(self.wanted).items():
            self.loads[process] = count
        self._crowding: dict[int, list[int]] = {}
        self._keepers = _keepers(group)
        self._keeping = {topic: frozenset(keepers) for topic, keepers in self._keepers.items()}
        #: The partitions that any member refused, so that not all keepers of the topic may.
        self.refused = frozenset(
            task
            for pair in frozenset().union(*group.refused)
            if (task := group.tasks.task(pair)) is not None
        )

    def keepers(self, topic: str) -> tuple[int, ...]:
        """The processes that may have a standby of a topic's partitions, but for refusals."""
        return self._keepers.get(topic, ())

    def is_keeper(self, topic: str, process: int) -> bool:
        """Whether a process may have a standby of a topic's partitions, but for refusals."""
        return process in self._keeping.get(topic, ())

    def may_have(self, task: int, process: int) -> bool:
        """Whether a process may have a standby of this partition, and has none yet."""
        if process == self.active[task] or process in self.of[task]:
            return False
        if task in self.refused:
            group = self.group
            return any(group.may_keep(task, m) for m in group.copies.members_of[process])
        return process in self._keeping.get(self.group.tasks.topics[task], ())

    def able(self, task: int) -> list[int]:
        """Those that may have a standby of a partition and have a copy, or are meant to have it."""
        now, wanted, copied = self.active[task], self.wanted[task], self.group.lags[task]
        if task in self.refused:
            able = [each for each in copied if self.may_have(task, each)]
        else:
            keeping = self._keeping.get(self.group.tasks.topics[task], ())
            able = [each for each in copied if each in keeping and each != now]
        if wanted != now and wanted not in copied and self.may_have(task, wanted):
            able.append(wanted)
        return able

    def lacking(self, most: int) -> Iterator[int]:
        """The partitions that can have more standbys, and are to have so many."""
        of, active = self.of, self.active
        for topic, tasks in self.group.tasks.of_topic.items():
            keeping = self._keeping.get(topic, frozenset())
            for task in tasks:
                count = len(of[task])
                # Of what is refused, only a closer look tells.
                if count < most and (
                    len(keeping) > count + (active[task] in keeping) or task in self.refused
                ):
                    yield task

    def crowding(self, task: int) -> list[int]:
        """How crowded a copy would be in each place, as far as is decided."""
        if task not in self._crowding:
            self._crowding[task] = [0] * len(self.places.common)
            self._crowd(task, self.wanted[task], 1)
        return self._crowding[task]

    def gain(self, task: int, giver: int, taker: int) -> int:
        """How much less crowded a standby would be with another process."""
        if self.places.is_one:
            return 0
        here, there, common = self.places.of[giver], self.places.of[taker], self.places.common
        crowding = self.crowding(task)
        return (crowding[here] - common[here][here]) - (crowding[there] - common[there][here])

    def add(self, task: int, process: int) -> None:
        """Give a process a standby."""
        self.of[task].append(process)
        self.loads[process] += 1
        if not self.places.is_one:
            self._crowd(task, process, 1)

    def by_process(self) -> dict[int, list[int]]:
        """The standbys of each process that has any."""
        found: dict[int, list[int]] = {}
        for task, processes in enumerate(self.of):
            for process in processes:
                if process in found:
                    found[process].append(task)
                else:
                    found[process] = [task]
        return found

    def add_all(self, task: int, processes: Sequence[int]) -> None:
        """Give processes a standby each."""
        self.of[task] += processes
        for process in processes:
            self.loads[process] += 1
        if not self.places.is_one:
            for process in processes:
                self._crowd(task, process, 1)

    def remove(self, task: int, process: int) -> None:
        """Take a standby from a process."""
        self.of[task].remove(process)
        self.loads[process] -= 1
        self._crowd(task, process, -1)

    def _crowd(self, task: int, process: int, more: int) -> None:
        if not self.places.is_one:
            common = self.places.common[self.places.of[process]]
            crowding = self.crowding(task)
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


def place_standbys(group: Group, active: Sequence[int]) -> Standbys:
    """Choose the processes that keep copies: as many for each partition as the settings say."""
    standbys = Standbys(group, active)
    most = group.settings.num_standbys
    if not most or len(group.copies.members_of) == 1:
        return standbys
    for topic, tasks in group.tasks.of_topic.items():
        _keep_copies(standbys, topic, tasks)
    pools = _Pools(standbys)
    for task in standbys.lacking(most):
        pools.of_task(task).add_to(task, most - len(standbys.of[task]))
    return standbys


def _keep_copies(standbys: Standbys, topic: str, tasks: Iterable[int]) -> None:
    """Use the copies that there are of a topic's partitions."""
    lags, most = standbys.group.lags, standbys.group.settings.num_standbys
    # Which is so nearly always, and much faster than to look at each of the processes.
    is_for_all = not standbys.refused and len(standbys.keepers(topic)) == len(standbys.loads)
    for task in tasks:
        now = standbys.active[task]
        if is_for_all and standbys.wanted[task] == now:
            able = list(lags[task])
            if now in able:
                able.remove(now)
        else:
            able = standbys.able(task)
        if len(able) > most:
            _keep_best(standbys, task, able)
        elif able:
            standbys.add_all(task, able)


def _keep_best(standbys: Standbys, task: int, able: list[int]) -> None:
    """Use copies that are caught up, then the others, best ones first.

    The one that the partition is meant for comes before other cold ones: its copy serves the move
    as well.
    """
    most = standbys.group.settings.num_standbys
    lags, acceptable = standbys.group.lags[task], standbys.group.settings.acceptable_recovery_lag
    holders = {each: max(0, lags.get(each, NO_COPY) - acceptable) for each in able}
    if standbys.places.is_one:
        able.sort(key=lambda each: (holders[each], standbys.loads[each], each))
        standbys.add_all(task, able[:most])
        return
    places, crowding = standbys.places.of, standbys.crowding(task)
    while holders and len(standbys.of[task]) < most:
        best = min(
            holders,
            key=lambda each: (holders[each], crowding[places[each]], standbys.loads[each], each),
        )
        standbys.add(task, best)
        del holders[best]


class _Pools:
    """The processes that may have standbys; topics share those who may have them all."""

    def __init__(self, standbys: Standbys) -> None:
        self._standbys = standbys
        self._by_topic: dict[str, _Idle] = {}
        self._by_keepers: dict[tuple[int, ...], _Idle] = {}

    def of_task(self, task: int) -> _Idle:
        """Those that may have standbys of a partition."""
        standbys, topic = self._standbys, self._standbys.group.tasks.topics[task]
        if task in standbys.refused:
            keepers = standbys.keepers(topic)
            return self._of(tuple(each for each in keepers if standbys.may_have(task, each)))
        if topic not in self._by_topic:
            self._by_topic[topic] = self._of(standbys.keepers(topic))
        return self._by_topic[topic]

    def _of(self, keepers: tuple[int, ...]) -> _Idle:
        if keepers not in self._by_keepers:
            self._by_keepers[keepers] = _Idle(self._standbys, keepers)
        return self._by_keepers[keepers]


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

    def add_to(self, task: int, missing: int) -> None:
        """Give standbys of a partition to those with the least to do, far from each other."""
        if len(self._by_place) == 1:
            [heap] = self._by_place.values()
            self._add(task, heap, missing)
            return
        crowding = self._standbys.crowding(task)
        full: set[int] = set()
        while missing and len(full) < len(self._by_place):
            place = min(
                (each for each in self._by_place if each not in full),
                key=lambda each: (crowding[each], self._by_place[each][0]),
            )
            if self._add(task, self._by_place[place], 1):
                missing -= 1
            else:
                full.add(place)

    def _add(self, task: int, heap: list[tuple[int, int]], count: int) -> int:
        """Give standbys to those on the heap, the least loaded first; return how many."""
        standbys, loads = self._standbys, self._standbys.loads
        now, theirs = standbys.active[task], standbys.of[task]
        seen: list[tuple[int, int]] = []
        given = 0
        while heap and given < count:
            load, process = heap[0]
            if load < loads[process]:
                heapq.heapreplace(heap, (loads[process], process))
            elif process == now or process in theirs:
                seen.append(heapq.heappop(heap))
            else:
                standbys.add(task, process)
                heapq.heapreplace(heap, (load + 1, process))
                given += 1
        for entry in seen:
            heapq.heappush(heap, entry)
        return given
