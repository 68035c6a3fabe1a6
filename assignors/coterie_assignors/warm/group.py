"""The group as the refiner sees it: in numbers, with owners, copies, and who may have what."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie_assignors.base import Claim, MemberInfo, Partitions, in_kafka_order
from coterie_assignors.copies import NO_COPY, Copies, Pair, keeps_copies
from coterie_assignors.ownership import UNOWNED, owners_among
from coterie_assignors.state import WarmSettings
from coterie_protocol.consumer import TopicPartitions, flatten

__all__ = ["Group", "Move", "Tasks", "group_of"]

#: The lags of no process.
_NOTHING: Final[dict[int, int]] = {}


@dataclass(frozen=True, slots=True)
class Move:
    """A copy that is to be made, so that a partition or a standby can move to where it is."""

    task: int
    member: int


class Tasks:
    """The partitions that are shared out, as numbers: indexes into what is sorted here.

    Lists that have something of each partition are much faster than dictionaries.
    """

    def __init__(self, numbers: Mapping[str, Iterable[int]]) -> None:
        #: The topic of each partition, and its number there.
        self.topics: list[str] = []
        self.numbers: list[int] = []
        #: The partitions of each topic.
        self.of_topic: dict[str, range] = {}
        #: The same by their numbers.
        self.by_number: dict[str, dict[int, int]] = {}
        for topic in sorted(numbers):
            theirs = sorted(numbers[topic])
            of_topic = range(len(self.numbers), len(self.numbers) + len(theirs))
            self.topics += [topic] * len(theirs)
            self.numbers += theirs
            self.of_topic[topic] = of_topic
            self.by_number[topic] = dict(zip(theirs, of_topic, strict=True))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.numbers)

    def numbers_of(self, topic: str) -> Iterable[int]:
        """The numbers of a topic's partitions."""
        return self.by_number[topic]

    def pair(self, task: int) -> Pair:
        """The topic, and the number in it."""
        return self.topics[task], self.numbers[task]

    def task(self, pair: Pair) -> int | None:
        """The number of a partition; None if it is not shared out."""
        topic, number = pair
        return self.by_number.get(topic, _NOTHING).get(number)

    def grouped(self, tasks: Iterable[int]) -> Partitions:
        """Some partitions as messages have them."""
        ordered, numbers = sorted(tasks), self.numbers
        found: list[TopicPartitions] = []
        start = 0
        while start < len(ordered):
            topic = self.topics[ordered[start]]
            end = bisect_left(ordered, self.of_topic[topic].stop, start)
            theirs = tuple([numbers[task] for task in ordered[start:end]])
            found.append(TopicPartitions(topic=topic, partitions=theirs))
            start = end
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Group:
    """Members and processes are numbers, as in `Copies`, and partitions as in `Tasks`."""

    copies: Copies
    settings: WarmSettings
    tasks: Tasks
    #: The member that each partition is meant for.
    target: list[int]
    #: What each member subscribes to, and what it can't work on.
    topics: list[frozenset[str]]
    refused: list[frozenset[Pair]]
    #: The process whose copies make a member ready: None if it needs no state, -1 if it is away.
    state_of: list[int | None]
    #: The lag of each process that has a copy of a partition.
    lags: list[dict[int, int]]
    #: The member that has each partition now and can work on it, or `UNOWNED`.
    owner: list[int] = field(default_factory=list)

    def is_ready(self, task: int, member: int) -> bool:
        """Whether a member can work on a partition at once."""
        process = self.state_of[member]
        return (
            process is None
            or self.lags[task].get(process, NO_COPY) <= self.settings.acceptable_recovery_lag
        )

    def is_at_work(self, task: int, owner: int) -> bool:
        """Whether the owner works on a partition, instead of still catching up itself."""
        if self.is_away(owner):
            return False
        return self.copies.process_of[owner] not in self.lags[task] or self.is_ready(task, owner)

    def is_away(self, member: int) -> bool:
        """Whether a member is away: it neither works nor makes copies, and its partitions wait."""
        return self.copies.order[member].is_away

    def in_one_process(self, member: int, other: int) -> bool:
        """Whether two members share their state."""
        return self.copies.process_of[member] == self.copies.process_of[other]

    def may_have(self, task: int, member: int) -> bool:
        """Whether a member subscribes to a partition's topic, and has not refused it."""
        if self.tasks.topics[task] not in self.topics[member]:
            return False
        refused = self.refused[member]
        return not refused or self.tasks.pair(task) not in refused

    def may_keep(self, task: int, member: int) -> bool:
        """Whether a member can be given a copy of a partition's state."""
        return keeps_copies(self.copies.order[member]) and self.may_have(task, member)

    def own_lag(self, task: int, member: int) -> int:
        """The lag that one member reports."""
        return self.copies.own_lag(self.tasks.pair(task), member)


def group_of(
    target: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    settings: WarmSettings,
) -> Group:
    """Put what the members said into numbers."""
    order = in_kafka_order(members.values())
    copies = Copies(order)
    takers = _takers(target, order)
    tasks = Tasks(takers)
    group = Group(
        copies=copies,
        settings=settings,
        tasks=tasks,
        target=[
            takers[topic][number] for topic in tasks.of_topic for number in tasks.numbers_of(topic)
        ],
        topics=[frozenset(member.topics) for member in order],
        refused=[flatten(member.refused) if member.refused else frozenset() for member in order],
        state_of=[
            -1 if member.is_away else None if member.warm is None else process
            for member, process in zip(order, copies.process_of, strict=True)
        ],
        lags=_lags(copies, tasks),
    )
    group.owner.extend(_owners(group, claims))
    # What a member that is away is to have, it has, whatever it last claimed itself.
    if any(member.is_away for member in order):
        for task, index in enumerate(group.target):
            if group.is_away(index):
                group.owner[task] = index
    return group


def _takers(
    target: Mapping[str, Partitions], order: Sequence[MemberInfo]
) -> dict[str, dict[int, int]]:
    """The member that each partition is meant for, by topic and partition."""
    takers: dict[str, dict[int, int]] = {}
    for index, member in enumerate(order):
        for entry in target[member.member_id]:
            of_topic = takers.setdefault(entry.topic, {})
            of_topic.update(dict.fromkeys(entry.partitions, index))
    return takers


def _lags(copies: Copies, tasks: Tasks) -> list[dict[int, int]]:
    """The lag of each process that has a copy, by partition."""
    found, by_number = [_NOTHING] * len(tasks), tasks.by_number
    for process, told in copies.told():
        for (topic, number), lag in told.items():
            task = by_number.get(topic, _NOTHING).get(number)
            if task is None:
                continue
            of_task = found[task]
            if not of_task:
                found[task] = {process: lag}
            elif lag < of_task.get(process, NO_COPY):
                of_task[process] = lag
    return found


def _owners(group: Group, claims: Mapping[str, Claim]) -> list[int]:
    """Who has each partition now."""
    order, tasks = group.copies.order, group.tasks
    owners: list[int] = []
    claimed = owners_among(order, claims)
    for topic in tasks.of_topic:
        of_topic = claimed.get(topic, _NOTHING)
        found = [of_topic.get(number, UNOWNED) for number in tasks.numbers_of(topic)]
        # Contested claims count for none of the members.
        able = {index for index in set(found) if index >= 0 and topic in group.topics[index]}
        owners += [index if index in able else UNOWNED for index in found]
    for index, refused in enumerate(group.refused):
        for task in map(tasks.task, refused):
            if task is not None and owners[task] == index and group.target[task] != index:
                owners[task] = UNOWNED
    return owners
