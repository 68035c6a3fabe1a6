"""From claims to each member's partitions: balanced, and with as few moves as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from coterie_assignors.base import (
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
)
from coterie_assignors.ownership import UNOWNED, owners_among
from coterie_assignors.sticky.cycles import cancel_negative_cycles
from coterie_assignors.sticky.pools import Pool, make_pools
from coterie_assignors.sticky.quotas import set_quotas
from coterie_assignors.sticky.racks import RackGroup, set_rack_quotas
from coterie_protocol.consumer import TopicPartitions

__all__ = ["balanced", "by_member", "grouped"]


def balanced(
    cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
) -> dict[str, Partitions]:
    """Assign all partitions evenly, moving as few as possible away from their owners."""
    order = in_kafka_order(members.values())
    owners = owners_among(order, claims)
    pools = make_pools(order, cluster, owners)
    loads = set_quotas(pools, len(order))
    cancel_negative_cycles(pools, loads)
    groups = set_rack_quotas(order, pools, cluster)
    for group in groups:
        _hand_over_in_group(group, pools[group.pool].owners)
    if not groups:
        for pool in pools:
            _hand_over(pool)
    return by_member(order, pools, cluster)


# Which partitions change hands


def _hand_over(pool: Pool) -> None:
    _change_owners(
        pool.owners,
        (
            (member, quota - owned)
            for member, owned, quota in zip(pool.members, pool.owned, pool.quota, strict=True)
        ),
    )


def _hand_over_in_group(group: RackGroup, owners: list[int]) -> None:
    theirs = [owners[number] for number in group.numbers]
    members = sorted(group.owned.keys() | group.quota.keys())
    _change_owners(theirs, ((each, group.quota[each] - group.owned[each]) for each in members))
    for number, owner in zip(group.numbers, theirs, strict=True):
        owners[number] = owner


def _change_owners(owners: list[int], changes: Iterable[tuple[int, int]]) -> None:
    """Choose which partitions change hands, so that each member gets that many more or fewer."""
    surplus: dict[int, int] = {}
    needs: list[tuple[int, int]] = []
    for member, more in changes:
        if more < 0:
            surplus[member] = -more
        elif more:
            needs.append((member, more))
    if surplus:
        _take(owners, surplus)
    if needs:
        free = [number for number, owner in enumerate(owners) if owner == UNOWNED]
        for number, member in zip(free, chain.from_iterable(_rounds(needs)), strict=True):
            owners[number] = member


def _take(owners: list[int], surplus: Mapping[int, int]) -> None:
    """Take that many partitions from each member, at even distances.

    So a member that gives up a tenth gives up about a tenth of each topic, and topics do not
    concentrate on newcomers.
    """
    theirs: dict[int, list[int]] = {member: [] for member in surplus}
    for number, owner in enumerate(owners):
        if owner in theirs:
            theirs[owner].append(number)
    for member, numbers in theirs.items():
        taken, had = surplus[member], len(numbers)
        for step in range(taken):
            # Each begins at another offset, so that not all of them give up the same topic.
            owners[numbers[(step * had + member % had) // taken]] = UNOWNED


def _rounds(needs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """The members that get one partition in each round, until every need is met."""
    done = 0
    while needs:
        members = [member for member, _ in needs]
        fewest = min(need for _, need in needs)
        for _ in range(done, fewest):
            yield members
        done = fewest
        needs = [(member, need) for member, need in needs if need > done]


# The answer


def by_member(
    order: Sequence[MemberInfo], pools: Sequence[Pool], cluster: Cluster
) -> dict[str, Partitions]:
    """Each member's partitions, as the pools have them."""
    return grouped(order, sorted(_owners_by_topic(pools, cluster)))


def grouped(
    order: Sequence[MemberInfo], by_topic: Iterable[tuple[str, Sequence[int]]]
) -> dict[str, Partitions]:
    """Each member's partitions, from the member of each partition; the topics are sorted."""
    given: list[list[TopicPartitions]] = [[] for _ in order]
    for topic, owners in by_topic:
        by_owner = tuple(sorted(range(len(owners)), key=owners.__getitem__))
        end = 0
        for owner, count in sorted(Counter(owners).items()):
            start, end = end, end + count
            numbers = by_owner[start:end]
            given[owner].append(TopicPartitions(topic=topic, partitions=numbers))
    return {member.member_id: tuple(given[index]) for index, member in enumerate(order)}


def _owners_by_topic(pools: Sequence[Pool], cluster: Cluster) -> Iterator[tuple[str, list[int]]]:
    for pool in pools:
        start = 0
        for topic in pool.topics:
            end = start + cluster.topics[topic]
            yield topic, pool.owners[start:end]
            start = end
