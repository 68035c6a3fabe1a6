"""Round robin: all partitions are dealt out one by one, as by Kafka's assignor of that name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
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

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(Assignor):
    """Deals the sorted partitions to the members in turn, skipping those that don't subscribe."""

    name: ClassVar[str] = "roundrobin"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Deal topic by topic, each time continuing after the member that was served last."""
        order = in_kafka_order(members.values())
        given: list[list[TopicPartitions]] = [[] for _ in order]
        turn = 0
        for topic, subscribers in subscribers_by_topic(order, cluster).items():
            count = cluster.topics[topic]
            # After the last member it is the first one's turn again.
            first = bisect_left(subscribers, turn) % len(subscribers)
            for offset in range(min(count, len(subscribers))):
                member = subscribers[(first + offset) % len(subscribers)]
                numbers = tuple(range(offset, count, len(subscribers)))
                given[member].append(TopicPartitions(topic=topic, partitions=numbers))
            turn = (subscribers[(first + count - 1) % len(subscribers)] + 1) % len(order)
        return {member.member_id: tuple(given[index]) for index, member in enumerate(order)}
