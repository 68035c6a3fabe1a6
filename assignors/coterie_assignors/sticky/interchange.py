"""Which partitions move, where members report state: those that takers have copies of.

And not those of which they tried to make copies in vain.

To the balance, one partition is as good as another.  To a member it is not: it takes
over at once what it has a caught-up copy of, and has to copy anything else first.  And as each
answer starts from the partitions that members own, moves that wait for their copies would
otherwise be decided anew every time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from coterie_assignors.base import (
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
    subscribers_by_topic,
)
from coterie_assignors.copies import NO_COPY, Copies, Pair
from coterie_assignors.ownership import UNOWNED, resolve_claims
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["prefer_copies"]


def prefer_copies(
    assignment: Mapping[str, Partitions],
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    *,
    by_topic: bool = False,
    copies: Copies | None = None,
) -> dict[str, Partitions]:
    """Exchange partitions for ones that their takers have copies of.

    What is exchanged has the same subscribers and racks, and `by_topic` also the same topic.  So
    loads stay as they are, and no more partitions move.
    """
    if all(member.warm is None for member in members.values()):
        return dict(assignment)
    order = in_kafka_order(members.values())
    taker = {
        (entry.topic, number): index
        for index, member in enumerate(order)
        for entry in assignment[member.member_id]
        for number in entry.partitions
    }
    topics = [frozenset(member.topics) for member in order]
    owner = {
        (topic, number): index
        for topic, of_topic in resolve_claims(
            [claims.get(member.member_id, Claim()) for member in order]
        ).items()
        for number, index in of_topic.items()
        if index >= 0 and topic in topics[index]
    }
    if all(owner.get(pair) == index for pair, index in taker.items()):
        return dict(assignment)
    copies = Copies(order) if copies is None else copies
    changes: dict[Pair, int] = {}
    for alike in _alike(order, cluster, taker, by_topic=by_topic):
        changes |= _exchanged(alike, taker, owner, copies)
    if not changes:
        return dict(assignment)
    pairs: list[list[Pair]] = [[] for _ in order]
    for pair, index in (taker | changes).items():
        pairs[index].append(pair)
    return {member.member_id: group_by_topic(pairs[n]) for n, member in enumerate(order)}


def _alike(
    order: Sequence[MemberInfo], cluster: Cluster, taker: Mapping[Pair, int], *, by_topic: bool
) -> Iterable[list[Pair]]:
    """The partitions that can stand in for each other."""
    pools: dict[Hashable, int] = {}
    pool_of = {
        topic: pools.setdefault(topic if by_topic else tuple(theirs), len(pools))
        for topic, theirs in subscribers_by_topic(order, cluster).items()
    }
    groups: dict[tuple[int, frozenset[str]], list[Pair]] = {}
    for pair in sorted(taker):
        racks = cluster.racks.get(pair[0])
        where = racks[pair[1]] if racks else frozenset[str]()
        groups.setdefault((pool_of[pair[0]], where), []).append(pair)
    return groups.values()


def _exchanged(
    alike: Sequence[Pair],
    taker: Mapping[Pair, int],
    owner: Mapping[Pair, int],
    copies: Copies,
) -> dict[Pair, int]:
    """The new takers of partitions that move, or moved before."""
    moving = [pair for pair in alike if owner.get(pair, UNOWNED) != taker[pair]]
    gives = Counter(owner.get(pair, UNOWNED) for pair in moving)
    takes = Counter(taker[pair] for pair in moving)
    changes: dict[Pair, int] = {}
    candidates = [*_copied(alike, takes, copies), *_untried(alike, taker, takes, copies)]
    for _, pair, member in sorted(candidates):
        giver = owner.get(pair, UNOWNED)
        if pair not in changes and takes[member] and gives[giver] and giver != member:
            changes[pair] = member
            takes[member] -= 1
            gives[giver] -= 1
    if not changes:
        return changes
    rest = [pair for pair in moving if pair not in changes]
    # What still has a place where it was to go stays meant for it; the others take what is left.
    for pair in sorted(rest, key=lambda each: not takes[taker[each]]):
        giver = owner.get(pair, UNOWNED)
        if not gives[giver]:
            changes[pair] = giver
            continue
        member = taker[pair] if takes[taker[pair]] else next(iter(+takes))
        changes[pair] = member
        takes[member] -= 1
        gives[giver] -= 1
    return changes


def _copied(
    alike: Sequence[Pair], takes: Mapping[int, int], copies: Copies
) -> Iterable[tuple[int, Pair, int]]:
    """The copies that takers have, with their lag."""
    takers: dict[int, list[int]] = {}
    for member in takes:
        takers.setdefault(copies.process_of[member], []).append(member)
    for pair in alike:
        for process, lag in copies.lags.get(pair, {}).items():
            for member in takers.get(process, ()):
                if not _is_refused(pair, member, copies):
                    yield lag, pair, member


def _untried(
    alike: Sequence[Pair], taker: Mapping[Pair, int], takes: Mapping[int, int], copies: Copies
) -> Iterable[tuple[int, Pair, int]]:
    """What takers have no copies of, for those that do not get on with what they are to have."""
    if not copies.stalled:
        return
    process_of = copies.process_of
    stuck = {
        member for pair in alike if (pair, process_of[member := taker[pair]]) in copies.stalled
    }
    for member in sorted(stuck & takes.keys()):
        process = process_of[member]
        for pair in alike:
            is_new = process not in copies.lags.get(pair, ())
            is_stalled = (pair, process) in copies.stalled
            if is_new and not is_stalled and not _is_refused(pair, member, copies):
                yield NO_COPY, pair, member


def _is_refused(pair: Pair, member: int, copies: Copies) -> bool:
    refused = copies.order[member].refused
    return bool(refused) and pair in flatten(refused)
