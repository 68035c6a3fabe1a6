"""The group as the refiner sees it: in numbers, with owners, copies, and who may have what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie_assignors.base import Claim, MemberInfo, Partitions, in_kafka_order
from coterie_assignors.copies import NO_COPY, Copies, Pair
from coterie_assignors.ownership import resolve_claims
from coterie_assignors.state import WarmSettings
from coterie_protocol.consumer import flatten

__all__ = ["Group", "Move", "group_of"]


@dataclass(frozen=True, slots=True)
class Move:
    """A copy that is to be made, so that a partition or a standby can move to where it is."""

    pair: Pair
    member: int


@dataclass(frozen=True, slots=True)
class Group:
    """Members and processes are numbers, as in `Copies`."""

    copies: Copies
    settings: WarmSettings
    #: The member that each partition is meant for, sorted by partition.
    target: dict[Pair, int]
    #: The member that has it now, if one has, may, and can work on it.
    owner: dict[Pair, int]
    #: What each member subscribes to, and what it can't work on.
    topics: list[frozenset[str]]
    refused: list[frozenset[Pair]]

    def is_ready(self, pair: Pair, member: int) -> bool:
        """Whether a member can work on a partition at once."""
        copies = self.copies
        if self.is_away(member):
            return False
        return (
            copies.order[member].warm is None
            or copies.lag(pair, copies.process_of[member]) <= self.settings.acceptable_recovery_lag
        )

    def is_at_work(self, pair: Pair, owner: int) -> bool:
        """Whether the owner works on a partition, instead of still catching up itself."""
        if self.is_away(owner):
            return False
        return self.copies.lag(pair, self.copies.process_of[owner]) == NO_COPY or self.is_ready(
            pair, owner
        )

    def is_away(self, member: int) -> bool:
        """Whether a member is away: it neither works nor makes copies, and its partitions wait."""
        return self.copies.order[member].is_away

    def in_one_process(self, member: int, other: int) -> bool:
        """Whether two members share their state."""
        return self.copies.process_of[member] == self.copies.process_of[other]

    def may_have(self, pair: Pair, member: int) -> bool:
        """Whether a member subscribes to a partition's topic, and has not refused it."""
        return pair[0] in self.topics[member] and pair not in self.refused[member]

    def may_keep(self, pair: Pair, member: int) -> bool:
        """Whether a member can be given a copy of a partition's state."""
        info = self.copies.order[member]
        is_able = info.warm is not None and not (info.is_away or info.is_drained)
        return is_able and self.may_have(pair, member)


def group_of(
    target: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    settings: WarmSettings,
) -> Group:
    """Put what the members said into numbers."""
    order = in_kafka_order(members.values())
    wanted = {
        (entry.topic, number): index
        for index, member in enumerate(order)
        for entry in target[member.member_id]
        for number in entry.partitions
    }
    group = Group(
        copies=Copies(order),
        settings=settings,
        target={pair: wanted[pair] for pair in sorted(wanted)},
        owner={},
        topics=[frozenset(member.topics) for member in order],
        refused=[flatten(member.refused) for member in order],
    )
    owners = resolve_claims([claims.get(member.member_id, Claim()) for member in order])
    for topic, of_topic in owners.items():
        for number, index in of_topic.items():
            pair = (topic, number)
            # Claims may name what is gone; contested ones count for none of the members.
            if index < 0 or pair not in wanted or topic not in group.topics[index]:
                continue
            if pair not in group.refused[index] or wanted[pair] == index:
                group.owner[pair] = index
    # What a member that is away is to have, it has, whatever it last claimed itself.
    group.owner.update({pair: index for pair, index in wanted.items() if group.is_away(index)})
    return group
