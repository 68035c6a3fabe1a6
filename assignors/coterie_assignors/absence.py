"""Static members that are away: what waits for them, and what is shared out without them.

An assignor is asked only about the members that are there.  One that is away keeps what it had,
and gets nothing that another member would have worked on.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie_assignors.base import Cluster, MemberInfo, Partitions
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["keep_for_absent"]


def keep_for_absent(
    target: Mapping[str, Partitions], members: Mapping[str, MemberInfo], cluster: Cluster
) -> dict[str, Partitions]:
    """Add the members that are away to an assignment of the others, with what each of them had.

    The others go without that, so they may end up with unequal shares until all are back.
    """
    kept: dict[str, set[tuple[str, int]]] = {}
    taken: set[tuple[str, int]] = set()
    for name, member in members.items():
        if member.is_away:
            kept[name] = _still_wanted(member, cluster) - taken
            taken |= kept[name]
    return {
        name: group_by_topic(kept[name]) if name in kept else _without(target[name], taken)
        for name in members
    }


def _still_wanted(member: MemberInfo, cluster: Cluster) -> set[tuple[str, int]]:
    return {
        (topic, number)
        for topic, number in flatten(member.owned)
        if topic in member.topics and number < cluster.topics.get(topic, 0)
    }


def _without(partitions: Partitions, taken: set[tuple[str, int]]) -> Partitions:
    pairs = flatten(partitions)
    return group_by_topic(pairs - taken) if pairs & taken else partitions
