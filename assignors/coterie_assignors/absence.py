"""Static members that are away: what waits for them, and what is shared out without them.

Assignors need not know of absences.  A member that is away keeps what it had, and gets nothing on
which another member could work.  Only where another member's copy of the state has caught up, that
one goes on in its place (`warm`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from coterie_assignors.base import Claim, Cluster, MemberInfo, Partitions
from coterie_assignors.copies import Copies, Pair, keeps_copies
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = [
    "has_uneven_absent",
    "keep_for_absent",
    "kept_for_absent",
    "without_replaced",
    "without_reports",
]


def keep_for_absent(
    target: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    cluster: Cluster,
) -> Mapping[str, Partitions]:
    """Let members that are away have what they had, of an assignment that took them for present.

    What it gave them besides stays with the owner that claims it, or goes to the least busy member.
    Members that were to have what the absent keep get something else, if others have more.
    """
    kept = kept_for_absent(members, cluster)
    if kept is None:
        return target
    taken = set().union(*kept.values())
    held = {name: set(flatten(target[name])) - taken for name in members if name not in kept}
    owners = _owners(claims, held)
    besides = {pair: name for name in kept for pair in flatten(target[name]) - taken}
    for pair in sorted(besides, key=lambda pair: (pair not in owners, pair)):
        takers = [name for name in held if _may_take(members[name], pair)]
        owner = owners.get(pair)
        if owner in takers:
            held[owner].add(pair)
        elif takers:
            held[min(takers, key=lambda name: (len(held[name]), name))].add(pair)
        else:
            kept[besides[pair]].add(pair)
    for name in sorted(held):
        for _ in flatten(target[name]) & taken:
            _even_out(held, members, name, owners)
    return {name: group_by_topic(pairs) for name, pairs in (held | kept).items()}


def _even_out(
    held: dict[str, set[Pair]],
    members: Mapping[str, MemberInfo],
    taker: str,
    owners: Mapping[Pair, str],
) -> None:
    """Give a member one partition of the busiest other one that has at least two more."""
    givers = [name for name in held if len(held[name]) >= len(held[taker]) + 2]
    for giver in sorted(givers, key=lambda name: (-len(held[name]), name)):
        able = [pair for pair in held[giver] if _may_take(members[taker], pair)]
        if able:
            # Rather what its owner would have to give up anyway.
            pair = min(able, key=lambda pair: (owners.get(pair) == giver, pair))
            held[giver].remove(pair)
            held[taker].add(pair)
            return


def without_reports(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members; what those that are away reported is no longer so."""
    return {name: _without_lags(member) for name, member in members.items()}


def without_replaced(
    members: Mapping[str, MemberInfo], acceptable_lag: int
) -> dict[str, MemberInfo]:
    """The members; those that are away no longer have what another one is ready to work on.

    So it is shared out at once.  If it was kept for them first, and taken over only then, the next
    rebalance would find that it was another member's, and might move it again.
    """
    if not any(member.is_away for member in members.values()):
        return dict(members)
    ready = _ready_to_go_on(members, acceptable_lag)
    return {
        name: replace(member, owned=group_by_topic(flatten(member.owned) - ready))
        if member.is_away
        else member
        for name, member in members.items()
    }


def _ready_to_go_on(members: Mapping[str, MemberInfo], acceptable_lag: int) -> set[Pair]:
    """What any member that is there has a caught-up copy of, and may have."""
    copies = Copies(list(members.values()))
    waiting = set().union(*(flatten(each.owned) for each in members.values() if each.is_away))
    return {
        pair
        for pair in waiting
        if any(
            lag <= acceptable_lag
            and keeps_copies(copies.order[index])
            and _may_take(copies.order[index], pair)
            for process, lag in copies.lags.get(pair, {}).items()
            for index in copies.members_of[process]
        )
    }


def _without_lags(member: MemberInfo) -> MemberInfo:
    if not member.is_away or member.warm is None:
        return member
    return replace(member, warm=replace(member.warm, lags={}))


def _owners(claims: Mapping[str, Claim], names: Collection[str]) -> dict[Pair, str]:
    """Who had each partition last, of some members."""
    by_age = sorted((claim.generation, name) for name, claim in claims.items() if name in names)
    return {pair: name for _, name in by_age for pair in flatten(claims[name].owned)}


def _may_take(member: MemberInfo, pair: Pair) -> bool:
    return pair[0] in member.topics and pair not in flatten(member.refused)


def has_uneven_absent(target: Mapping[str, Partitions], members: Mapping[str, MemberInfo]) -> bool:
    """Whether a member with state that is away would give or get partitions if it were back.

    No rebalance begins by itself when it is.
    """
    absent = [each for each in members.values() if each.is_away and each.warm is not None]
    if not absent:
        return False
    counts = {name: sum(len(e.partitions) for e in given) for name, given in target.items()}
    return any(
        abs(counts[each.member_id] - counts[name]) > 1
        and not set(members[name].topics).isdisjoint(each.topics)
        for each in absent
        for name in members
    )


def kept_for_absent(
    members: Mapping[str, MemberInfo], cluster: Cluster
) -> dict[str, set[Pair]] | None:
    """What each member that is away had and may have again; None if none is away."""
    kept: dict[str, set[Pair]] = {}
    taken: set[Pair] = set()
    for name in sorted(members):
        member = members[name]
        if member.is_away:
            kept[name] = {
                (topic, number)
                for topic, number in flatten(member.owned)
                if topic in member.topics and number < cluster.topics.get(topic, 0)
            } - taken
            taken |= kept[name]
    return kept or None
