"""Pools: topics with the same subscribers, whose partitions are interchangeable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coterie_assignors.base import Cluster, MemberInfo, subscribers_by_topic
from coterie_assignors.ownership import UNOWNED, Owners

__all__ = ["Pool", "loads_of", "make_pools"]


@dataclass(slots=True)
class Pool:
    """The topics that have exactly these subscribers, and each one's number of partitions."""

    #: The subscribers, as indexes into all members, ascending.
    members: list[int]
    #: The number of partitions.
    size: int
    #: How many of them each subscriber owned.
    owned: list[int]
    topics: list[str] = field(default_factory=list)
    #: The owner of each partition, topic after topic.
    owners: list[int] = field(default_factory=list)
    #: How many partitions each subscriber is to get.
    quota: list[int] = field(init=False)
    #: How many of them may not be taken away for now.
    pinned: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.quota = list(self.owned)
        self.pinned = self.owned


def make_pools(members: Sequence[MemberInfo], cluster: Cluster, owners: Owners) -> list[Pool]:
    """Group the topics by their subscribers; `owners` are indexes into `members`."""
    together: dict[tuple[int, ...], list[str]] = {}
    for topic, subscribers in subscribers_by_topic(members, cluster).items():
        together.setdefault(tuple(subscribers), []).append(topic)
    return [_pool(topics, subscribers, cluster, owners) for subscribers, topics in together.items()]


def _pool(
    topics: list[str], subscribers: tuple[int, ...], cluster: Cluster, owners: Owners
) -> Pool:
    allowed = set(subscribers)
    of_pool: list[int] = []
    for topic in topics:
        count = cluster.topics[topic]
        of_topic = [UNOWNED] * count
        for number, owner in owners.get(topic, {}).items():
            # Claims come from other members' bytes: they may name partitions that don't exist.
            if 0 <= number < count and owner in allowed:
                of_topic[number] = owner
        of_pool += of_topic
    counts = Counter(of_pool)
    owned = [counts[member] for member in subscribers]
    return Pool(list(subscribers), len(of_pool), owned, topics, of_pool)


def loads_of(pools: Iterable[Pool], members: int) -> list[int]:
    """The number of partitions that each member is to get from all pools together."""
    loads = [0] * members
    for pool in pools:
        for member, quota in zip(pool.members, pool.quota, strict=True):
            loads[member] += quota
    return loads
