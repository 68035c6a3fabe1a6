"""Round robin: all partitions dealt out one by one, as Kafka's assignor of that name deals them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import ClassVar

from coterie_assignors._subscribers import subscribers_by_topic
from coterie_assignors.base import (
    Assignor,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
)
from coterie_protocol.consumer import TopicPartitions

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(Assignor):
    """Deals the partitions, sorted, to the members in turn, passing over who did not subscribe."""

    name: ClassVar[str] = "roundrobin"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Deal topic by topic; the turn goes on where the topic before it ended."""
        order = in_kafka_order(members.values())
        given: list[list[TopicPartitions]] = [[] for _ in order]
        turn = 0
        for topic, seats in subscribers_by_topic(order, cluster).items():
            count = cluster.topics[topic]
            first = _first_seat(seats, turn)
            for place in range(min(count, len(seats))):
                seat = seats[(first + place) % len(seats)]
                numbers = tuple(range(place, count, len(seats)))
                given[seat].append(TopicPartitions(topic=topic, partitions=numbers))
            turn = (seats[(first + count - 1) % len(seats)] + 1) % len(order)
        return {member.member_id: tuple(given[seat]) for seat, member in enumerate(order)}


def _first_seat(seats: Sequence[int], turn: int) -> int:
    """Which of the subscribers is the first whose turn comes; after the last the first again."""
    return bisect_left(seats, turn) % len(seats)
