"""Balancing without members that are away: they keep what they had, the others share the rest.

An assignor that took them for present would give them a share, which others then get in their
place; and as partitions move, that turns out otherwise each time.  So it is asked about the others
alone, and about what is left for them, as if there was nothing else.

That is for assignors to ask for: what is left is numbered anew, and to one of a user's own a
partition's number may mean something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from coterie_assignors.absence import kept_for_absent
from coterie_assignors.base import Claim, Cluster, MemberInfo, Partitions
from coterie_assignors.copies import Pair
from coterie_protocol.consumer import TopicPartitions, flatten, group_by_topic

__all__ = ["among_present"]

Balance: TypeAlias = Callable[
    [Cluster, Mapping[str, MemberInfo], Mapping[str, Claim]], dict[str, Partitions]
]

V = TypeVar("V")


def among_present(
    balance: Balance,
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
) -> dict[str, Partitions]:
    """What members are to have; `balance` sees only those that are there."""
    kept = kept_for_absent(members, cluster)
    if kept is None:
        return balance(cluster, members, claims)
    present = {name: member for name, member in members.items() if name not in kept}
    if present:
        rest = _Rest(cluster, set().union(*kept.values()))
        given = balance(
            rest.cluster,
            {name: rest.of_member(member) for name, member in present.items()},
            {
                name: replace(claim, owned=rest.renumbered(claim.owned))
                for name, claim in claims.items()
                if name in present
            },
        )
        shares = {name: rest.restored(partitions) for name, partitions in given.items()}
    else:
        shares = {}
    _add_unwanted(kept, cluster, members, present)
    return {
        name: shares[name] if name in shares else group_by_topic(kept[name]) for name in members
    }


def _add_unwanted(
    kept: Mapping[str, set[Pair]],
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    present: Mapping[str, MemberInfo],
) -> None:
    """Give members that are away what no other one subscribes to."""
    wanted = {topic for member in present.values() for topic in member.topics}
    taken = set().union(*kept.values())
    for name in kept:
        free = set(cluster.partitions_of(set(members[name].topics) - wanted)) - taken
        kept[name].update(free)
        taken |= free


class _Rest:
    """The partitions that are left: those of each topic are numbered from zero."""

    def __init__(self, cluster: Cluster, kept: Iterable[Pair]) -> None:
        missing: dict[str, set[int]] = {}
        for topic, number in kept:
            missing.setdefault(topic, set()).add(number)
        #: The numbers of the partitions that are left, of topics that miss some.
        self._left = {
            topic: [n for n in range(cluster.topics[topic]) if n not in numbers]
            for topic, numbers in missing.items()
        }
        self._place = {
            topic: {number: place for place, number in enumerate(numbers)}
            for topic, numbers in self._left.items()
        }
        self.cluster = Cluster(
            {topic: len(self._left.get(topic, range(n))) for topic, n in cluster.topics.items()},
            {
                topic: [racks[n] for n in self._left[topic] if n < len(racks)]
                if topic in self._left
                else racks
                for topic, racks in cluster.racks.items()
            },
        )

    def of_member(self, member: MemberInfo) -> MemberInfo:
        """What a member says, with these numbers."""
        warm, loads = member.warm, member.loads
        return replace(
            member,
            owned=self.renumbered(member.owned),
            refused=self.renumbered(member.refused),
            warm=warm and replace(warm, lags=self._renumbered(warm.lags)),
            loads=loads
            and replace(
                loads, owned=self._renumbered(loads.owned), left=self._renumbered(loads.left)
            ),
        )

    def renumbered(self, partitions: Partitions) -> Partitions:
        """Partitions with these numbers, without those that are not left."""
        return group_by_topic(self._renumbered(dict.fromkeys(flatten(partitions))))

    def _renumbered(self, found: Mapping[Pair, V]) -> dict[Pair, V]:
        place = self._place
        return {
            (topic, number if topic not in place else place[topic][number]): value
            for (topic, number), value in found.items()
            if topic not in place or number in place[topic]
        }

    def restored(self, partitions: Partitions) -> Partitions:
        """Partitions with their own numbers again."""
        return tuple(
            entry
            if (left := self._left.get(entry.topic)) is None
            else TopicPartitions(
                topic=entry.topic, partitions=tuple(left[place] for place in entry.partitions)
            )
            for entry in partitions
        )
