"""Static members that are away: what waits for them, and what is shared out without them.

An assignor is asked only about the members that are there.  One that is away keeps what it had,
and gets nothing that another member would have worked on.  Only where another member's copy of the
state has caught up, that one goes on in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie_assignors.base import Cluster, MemberInfo, Partitions
from coterie_assignors.copies import NO_COPY, Copies, Pair
from coterie_assignors.state import WarmSettings
from coterie_assignors.warm.refiner import Refined
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["keep_for_absent", "keep_unless_caught_up"]


def keep_for_absent(
    target: Mapping[str, Partitions], members: Mapping[str, MemberInfo], cluster: Cluster
) -> Mapping[str, Partitions]:
    """Add the members that are away to an assignment of the others, with what each of them had.

    The others go without that, so they may end up with unequal shares until all are back.
    """
    kept = _had(members, cluster)
    return target if kept is None else _with(kept, target, members)


def keep_unless_caught_up(
    refined: Refined,
    members: Mapping[str, MemberInfo],
    cluster: Cluster,
    settings: WarmSettings,
) -> Refined:
    """The same for members with state; a member whose copy has caught up goes on in their place.

    One that was to begin without, since there is no better one, only goes on with its copy.
    """
    kept = _had(members, cluster)
    if kept is None:
        return refined
    order = [member for member in members.values() if not member.is_away]
    copies = Copies(order)
    owners = {pair: i for i, m in enumerate(order) for pair in flatten(refined.active[m.member_id])}
    standbys = {name: set(flatten(partitions)) for name, partitions in refined.standbys.items()}
    for pairs in kept.values():
        for pair in [pair for pair in pairs if pair in owners]:
            owner = owners[pair]
            if copies.lag(pair, copies.process_of[owner]) <= settings.acceptable_recovery_lag:
                pairs.remove(pair)
            elif copies.own_lag(pair, owner) < NO_COPY:
                standbys.setdefault(order[owner].member_id, set()).add(pair)
    waiting = set().union(*kept.values())
    warmups = {name: _without(each, waiting) for name, each in refined.warmups.items()}
    targets = {pair: name for pair, name in refined.targets.items() if pair not in waiting}
    is_over = not targets and not any(warmups.values())
    return replace(
        refined,
        active=_with(kept, refined.active, members),
        standbys={name: group_by_topic(pairs) for name, pairs in standbys.items()},
        warmups={name: each for name, each in warmups.items() if each},
        targets=targets,
        is_final=refined.is_final or is_over,
    )


def _had(members: Mapping[str, MemberInfo], cluster: Cluster) -> dict[str, set[Pair]] | None:
    """What each member that is away had and may have again; None if none is away."""
    kept: dict[str, set[Pair]] = {}
    taken: set[Pair] = set()
    for name, member in members.items():
        if member.is_away:
            kept[name] = {
                (topic, number)
                for topic, number in flatten(member.owned)
                if topic in member.topics and number < cluster.topics.get(topic, 0)
            } - taken
            taken |= kept[name]
    return kept or None


def _with(
    kept: Mapping[str, set[Pair]], target: Mapping[str, Partitions], names: Iterable[str]
) -> dict[str, Partitions]:
    taken = set().union(*kept.values())
    return {
        name: group_by_topic(kept[name]) if name in kept else _without(target[name], taken)
        for name in names
    }


def _without(partitions: Partitions, taken: set[Pair]) -> Partitions:
    pairs = flatten(partitions)
    return group_by_topic(pairs - taken) if pairs & taken else partitions
