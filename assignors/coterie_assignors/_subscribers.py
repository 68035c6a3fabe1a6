"""Who subscribed to what, turned around: by topic."""

from __future__ import annotations

from collections.abc import Sequence

from coterie_assignors.base import Cluster, MemberInfo

__all__ = ["subscribers_by_topic"]


def subscribers_by_topic(order: Sequence[MemberInfo], cluster: Cluster) -> dict[str, list[int]]:
    """The topics that have partitions, sorted, each with its subscribers' places in the order.

    Most members of a group subscribe to the same topics, so each set of topics is gone through
    once, and topics share one list where they can: it is not to be changed.
    """
    places: dict[frozenset[str], list[int]] = {}
    for place, member in enumerate(order):
        places.setdefault(frozenset(member.topics), []).append(place)
    if len(places) == 1:
        [(topics, everybody)] = places.items()
        return dict.fromkeys(sorted(t for t in topics if cluster.topics.get(t, 0) > 0), everybody)
    subscribers: dict[str, list[int]] = {}
    for topics, theirs in places.items():
        for topic in topics:
            if cluster.topics.get(topic, 0) > 0:
                subscribers.setdefault(topic, []).extend(theirs)
    return {topic: sorted(places) for topic, places in sorted(subscribers.items())}
