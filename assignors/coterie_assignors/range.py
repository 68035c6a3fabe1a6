"""Range: every topic is cut into one run of partitions per member, as by Kafka's assignor.

Rack awareness is that of KIP-881 and of Kafka's assignor.  A first pass assigns partitions to
members in the racks of their replicas, up to each member's quota; a second pass assigns the rest,
in order.  Topics with the same subscribers and equally many partitions are co-partitioned: the
first pass treats them together, so that one member gets equal numbers of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import ClassVar

from coterie_assignors.base import (
    Assignor,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
    subscribers_by_topic,
)
from coterie_protocol.consumer import TopicPartitions

__all__ = ["RangeAssignor"]


class RangeAssignor(Assignor):
    """Gives each member one run of every topic, so that equal numbers of topics meet in one member.

    Where members and replicas tell their racks (KIP-881), partitions first go to members in the
    rack of a replica, as far as balance allows.
    """

    name: ClassVar[str] = "range"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Cut each topic; if it does not divide evenly, the first members get one more."""
        order = in_kafka_order(members.values())
        given: list[list[TopicPartitions]] = [[] for _ in order]
        subscribers = subscribers_by_topic(order, cluster)
        by_rack = _assign_by_rack(order, cluster, subscribers) if cluster.racks else {}
        # Topics of one size with as many subscribers are cut alike.
        cuts: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for topic, takers in subscribers.items():
            if topic in by_rack:
                for place, numbers in by_rack[topic].items():
                    given[takers[place]].append(TopicPartitions(topic=topic, partitions=numbers))
                continue
            size = (cluster.topics[topic], len(takers))
            runs = cuts.get(size) or cuts.setdefault(size, _runs(*size))
            for taker, numbers in zip(takers, runs, strict=False):
                given[taker].append(TopicPartitions(topic=topic, partitions=numbers))
        return {member.member_id: tuple(given[index]) for index, member in enumerate(order)}


def _runs(count: int, takers: int) -> list[tuple[int, ...]]:
    """Cut `count` partitions into runs, the longer ones first; there are no empty runs."""
    size, longer = divmod(count, takers)
    middle = longer * (size + 1)
    starts = [*range(0, middle, size + 1), *(range(middle, count, size) if size else ())]
    return [tuple(range(start, end)) for start, end in pairwise([*starts, count])]


# Rack awareness


def _assign_by_rack(
    order: Sequence[MemberInfo], cluster: Cluster, subscribers: Mapping[str, Sequence[int]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """The partitions of each topic, by places among its subscribers; empty if racks don't matter.

    Then the topics are cut as without racks.
    """
    topics = [
        _Topic(
            topic,
            cluster.topics[topic],
            [order[taker] for taker in takers],
            cluster.racks.get(topic, ()),
        )
        for topic, takers in subscribers.items()
    ]
    if not any(topic.racks_matter() for topic in topics if topic.racks):
        return {}
    for together in _co_partitioned(topics):
        if len(together) > 1:
            _assign_together(together)
        elif together[0].racks_matter():
            together[0].fill(same_rack_only=True)
    for topic in topics:
        topic.fill(same_rack_only=False)
    return {
        topic.name: {taker: tuple(sorted(numbers)) for taker, numbers in topic.given.items()}
        for topic in topics
    }


@dataclass(slots=True)
class _Topic:
    """A topic, and what each of its subscribers has been given so far."""

    name: str
    count: int
    takers: Sequence[MemberInfo]
    racks: Sequence[frozenset[str]]
    given: dict[int, list[int]] = field(default_factory=dict)
    #: The partitions not given yet, in order.
    unassigned: dict[int, None] = field(init=False)
    #: How many partitions each member gets at least.
    quota: int = field(init=False)
    #: How many members may still get one more.
    longer: int = field(init=False)

    def __post_init__(self) -> None:
        self.unassigned = dict.fromkeys(range(self.count))
        self.quota, self.longer = divmod(self.count, len(self.takers))

    def racks_matter(self) -> bool:
        """Whether some partitions have replicas in members' racks, and not all in the same ones."""
        members = {member.rack for member in self.takers if member.rack is not None}
        everywhere = frozenset[str]().union(*self.racks)
        if members.isdisjoint(everywhere):
            return False
        return any(self.racks_of(number) != everywhere for number in range(self.count))

    def racks_of(self, number: int) -> frozenset[str]:
        """The racks of a partition's replicas; none if they are unknown."""
        return self.racks[number] if number < len(self.racks) else frozenset()

    def room(self, taker: int) -> int:
        """How many more partitions a member may get."""
        return max(0, self.quota + (self.longer > 0) - len(self.given.get(taker, ())))

    def can_take(self, taker: int, number: int) -> bool:
        """Whether a member has room, and is in a rack of the partition or does not tell its own."""
        rack = self.takers[taker].rack
        return self.room(taker) > 0 and (rack is None or rack in self.racks_of(number))

    def give(self, taker: int, numbers: Sequence[int]) -> None:
        """Give partitions to a member that has room for them."""
        theirs = self.given.setdefault(taker, [])
        theirs += numbers
        if len(theirs) > self.quota:
            self.longer -= 1
        for number in numbers:
            del self.unassigned[number]

    def fill(self, *, same_rack_only: bool) -> None:
        """Fill up the members in order, each with the first partitions that it may get."""
        candidates: dict[str | None, Iterator[int]] = {}
        for taker, member in enumerate(self.takers):
            if not self.unassigned:
                return
            room = self.room(taker)
            if room:
                rack = member.rack if same_rack_only else None
                # Members of one rack share an iterator: what was passed over once stays so.
                theirs = candidates.get(rack) or candidates.setdefault(rack, self._in_rack(rack))
                numbers = list(islice(theirs, room))
                if numbers:
                    self.give(taker, numbers)

    def _in_rack(self, rack: str | None) -> Iterator[int]:
        """The unassigned partitions with a replica in this rack, or all of them, in order."""
        for number in range(self.count):
            if number in self.unassigned and (rack is None or rack in self.racks_of(number)):
                yield number


def _co_partitioned(topics: Iterable[_Topic]) -> list[list[_Topic]]:
    """Group the topics by their subscribers and number of partitions."""
    together: dict[tuple[object, ...], list[_Topic]] = {}
    for topic in topics:
        key = (topic.count, *(member.member_id for member in topic.takers))
        together.setdefault(key, []).append(topic)
    return list(together.values())


def _assign_together(topics: Sequence[_Topic]) -> None:
    """Give each number to the first member that can take it in every topic."""
    takers = list(range(len(topics[0].takers)))
    for number in range(topics[0].count):
        taker = next(
            (each for each in takers if all(topic.can_take(each, number) for topic in topics)),
            None,
        )
        if taker is None:
            continue
        for topic in topics:
            topic.give(taker, [number])
        if not any(topic.room(taker) for topic in topics):
            takers.remove(taker)
