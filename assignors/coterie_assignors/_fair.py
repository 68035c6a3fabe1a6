"""The fair and sticky way of sharing out: from claims to who is to have which partition.

Partitions are numbers here: a pool's topics, sorted, lie behind one another, and a list says for
each partition at which place its owner stands.  Names come back only in the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from coterie_assignors._claims import NOBODY, Ledger, settle
from coterie_assignors._nearness import Lot, share_by_racks
from coterie_assignors._pools import Pool, settle_shares
from coterie_assignors._subscribers import subscribers_by_topic
from coterie_assignors.base import (
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
)
from coterie_protocol.consumer import TopicPartitions

__all__ = ["share_out"]


@dataclass(slots=True)
class _Ground:
    """A pool's partitions, one by one."""

    topics: list[str]
    pool: Pool
    owners: list[int]


def share_out(
    cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
) -> dict[str, Partitions]:
    """Share out all partitions evenly, moving as few as possible away from who claims them."""
    order = in_kafka_order(members.values())
    ledger = settle([claims.get(member.member_id, Claim()) for member in order])
    grounds = [
        _ground(topics, subscribers, cluster, ledger)
        for subscribers, topics in _topics_by_subscribers(order, cluster).items()
    ]
    settle_shares([ground.pool for ground in grounds], len(order))
    lots = share_by_racks(order, grounds, cluster)
    for lot in lots:
        _hand_over_lot(lot, grounds[lot.ground].owners)
    if not lots:
        for ground in grounds:
            _hand_over(ground)
    return _by_member(order, grounds, cluster)


def _topics_by_subscribers(
    order: Sequence[MemberInfo], cluster: Cluster
) -> dict[tuple[int, ...], list[str]]:
    """The topics there are, each set of subscribers with those that have exactly this set."""
    together: dict[tuple[int, ...], list[str]] = {}
    for topic, subscribers in subscribers_by_topic(order, cluster).items():
        together.setdefault(tuple(subscribers), []).append(topic)
    return together


def _ground(
    topics: list[str], subscribers: tuple[int, ...], cluster: Cluster, ledger: Ledger
) -> _Ground:
    allowed = set(subscribers)
    owners: list[int] = []
    for topic in topics:
        count = cluster.topics[topic]
        of_topic = [NOBODY] * count
        for number, place in ledger.get(topic, {}).items():
            # Claims come from other members' bytes: they can name what is not there.
            if 0 <= number < count and place in allowed:
                of_topic[number] = place
        owners += of_topic
    held = Counter(owners)
    members = list(subscribers)
    return _Ground(topics, Pool(members, len(owners), [held[place] for place in members]), owners)


def _hand_over(ground: _Ground) -> None:
    pool = ground.pool
    _change_hands(
        ground.owners,
        (
            (place, share - had)
            for place, had, share in zip(pool.members, pool.had, pool.share, strict=True)
        ),
    )


def _hand_over_lot(lot: Lot, owners: list[int]) -> None:
    theirs = [owners[number] for number in lot.numbers]
    members = sorted(lot.had.keys() | lot.share.keys())
    _change_hands(theirs, ((place, lot.share[place] - lot.had[place]) for place in members))
    for number, owner in zip(lot.numbers, theirs, strict=True):
        owners[number] = owner


def _change_hands(owners: list[int], changes: Iterable[tuple[int, int]]) -> None:
    """Choose which partitions change hands, so that each member gets so many more, or less."""
    surplus: dict[int, int] = {}
    needs: list[tuple[int, int]] = []
    for place, more in changes:
        if more < 0:
            surplus[place] = -more
        elif more:
            needs.append((place, more))
    if surplus:
        _take(owners, surplus)
    if needs:
        free = [number for number, owner in enumerate(owners) if owner == NOBODY]
        for number, place in zip(free, _turns(needs), strict=True):
            owners[number] = place


def _take(owners: list[int], surplus: Mapping[int, int]) -> None:
    """Take from each so many of its partitions, at even distances.

    So a member that gives up a tenth gives up about a tenth of each topic, and no topic gathers in
    the members that come in later.
    """
    theirs: dict[int, list[int]] = {place: [] for place in surplus}
    for number, owner in enumerate(owners):
        if owner in theirs:
            theirs[owner].append(number)
    for place, numbers in theirs.items():
        taken, had = surplus[place], len(numbers)
        for step in range(taken):
            # Each begins elsewhere, so that not all of them give up the same topic.
            owners[numbers[(step * had + place % had) // taken]] = NOBODY


def _turns(needs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Whose turn it is, one partition each, until everybody's need is met."""
    return chain.from_iterable(_rounds(needs))


def _rounds(needs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    turn = 0
    while needs:
        places = [place for place, _ in needs]
        fewest = min(need for _, need in needs)
        for _ in range(turn, fewest):
            yield places
        turn = fewest
        needs = [(place, need) for place, need in needs if need > turn]


def _by_member(
    order: Sequence[MemberInfo], grounds: Sequence[_Ground], cluster: Cluster
) -> dict[str, Partitions]:
    given: list[list[TopicPartitions]] = [[] for _ in order]
    for topic, owners in sorted(_owners_by_topic(grounds, cluster)):
        ranked = tuple(sorted(range(len(owners)), key=owners.__getitem__))
        end = 0
        for place, count in sorted(Counter(owners).items()):
            start, end = end, end + count
            numbers = ranked[start:end]
            given[place].append(TopicPartitions(topic=topic, partitions=numbers))
    return {member.member_id: tuple(given[place]) for place, member in enumerate(order)}


def _owners_by_topic(
    grounds: Sequence[_Ground], cluster: Cluster
) -> Iterator[tuple[str, list[int]]]:
    for ground in grounds:
        start = 0
        for topic in ground.topics:
            end = start + cluster.topics[topic]
            yield topic, ground.owners[start:end]
            start = end
