"""Ranges: each topic cut into one run of partitions per member, as Kafka's assignor cuts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from coterie_assignors._racks import TopicCut, match_racks
from coterie_assignors._subscribers import subscribers_by_topic
from coterie_assignors.base import (
    Assignor,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
)
from coterie_protocol.consumer import TopicPartitions

__all__ = ["RangeAssignor"]


class RangeAssignor(Assignor):
    """Gives each member a run of every topic, so that equal numbers of topics meet in one member.

    Where members and replicas tell their racks (KIP-881), partitions first go to members in a rack
    that has a replica, so far as balance allows; topics with the same members and as many
    partitions still meet.
    """

    name: ClassVar[str] = "range"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Cut each topic; the first members get one more where it does not come out even."""
        order = in_kafka_order(members.values())
        given: list[list[TopicPartitions]] = [[] for _ in order]
        subscribers = subscribers_by_topic(order, cluster)
        by_racks = _by_racks(order, cluster, subscribers) if cluster.racks else {}
        cuts: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for topic, takers in subscribers.items():
            if topic in by_racks:
                for place, numbers in by_racks[topic].items():
                    run = TopicPartitions(topic=topic, partitions=numbers)
                    given[takers[place]].append(run)
                continue
            # Topics of one size and as many takers are cut alike.
            cut = (cluster.topics[topic], len(takers))
            runs = cuts.get(cut) or cuts.setdefault(cut, _runs(*cut))
            for taker, numbers in zip(takers, runs, strict=False):
                given[taker].append(TopicPartitions(topic=topic, partitions=numbers))
        return {member.member_id: tuple(given[place]) for place, member in enumerate(order)}


def _by_racks(
    order: Sequence[MemberInfo], cluster: Cluster, subscribers: Mapping[str, Sequence[int]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """The runs of each topic, by their takers' places among the topic's subscribers."""
    return match_racks(
        TopicCut(
            topic,
            cluster.topics[topic],
            [order[taker] for taker in takers],
            cluster.racks.get(topic, ()),
        )
        for topic, takers in subscribers.items()
    )


def _runs(count: int, takers: int) -> list[tuple[int, ...]]:
    """Cut `count` partitions into runs, the longer ones first, until there are none left."""
    size, longer = divmod(count, takers)
    turn = longer * (size + 1)
    starts = [*range(0, turn, size + 1), *(range(turn, count, size) if size else ())]
    return [tuple(range(start, end)) for start, end in pairwise([*starts, count])]
