"""The group as the refiner sees it: in numbers, with owners, copies, and who may have what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie_assignors.base import NO_CLAIM, Claim, MemberInfo, Partitions, in_kafka_order
from coterie_assignors.copies import NO_COPY, Copies, Pair, keeps_copies
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
    #: The lags of each member's process; None if it needs no state, nothing if it is away.
    lags: list[Mapping[Pair, int] | None]

    def is_ready(self, pair: Pair, member: int) -> bool:
        """Whether a member can work on a partition at once."""
        lags = self.lags[member]
        return lags is None or lags.get(pair, NO_COPY) <= self.settings.acceptable_recovery_lag

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
        return keeps_copies(self.copies.order[member]) and self.may_have(pair, member)


def group_of(
    target: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    settings: WarmSettings,
) -> Group:
    """Put what the members said into numbers."""
    order = in_kafka_order(members.values())
    copies = Copies(order)
    takers = _takers(target, order)
    group = Group(
        copies=copies,
        settings=settings,
        target={
            (topic, number): of_topic[number]
            for topic, of_topic in sorted(takers.items())
            for number in sorted(of_topic)
        },
        owner={},
        topics=[frozenset(member.topics) for member in order],
        refused=[flatten(member.refused) if member.refused else frozenset() for member in order],
        lags=[
            {}
            if member.is_away
            else None
            if member.warm is None
            else copies.of_process[copies.process_of[index]]
            for index, member in enumerate(order)
        ],
    )
    group.owner.update(_owners(group, takers, claims))
    # What a member that is away is to have, it has, whatever it last claimed itself.
    if any(member.is_away for member in order):
        group.owner.update(
            {pair: index for pair, index in group.target.items() if group.is_away(index)}
        )
    return group


def _takers(
    target: Mapping[str, Partitions], order: Sequence[MemberInfo]
) -> dict[str, dict[int, int]]:
    """The member that each partition is meant for, by topic and partition."""
    takers: dict[str, dict[int, int]] = {}
    for index, member in enumerate(order):
        for entry in target[member.member_id]:
            of_topic = takers.setdefault(entry.topic, {})
            of_topic.update(dict.fromkeys(entry.partitions, index))
    return takers


def _owners(
    group: Group, takers: Mapping[str, Mapping[int, int]], claims: Mapping[str, Claim]
) -> Iterator[tuple[Pair, int]]:
    """Who has what now."""
    order = group.copies.order
    claimed = resolve_claims([claims.get(member.member_id, NO_CLAIM) for member in order])
    for topic, of_topic in claimed.items():
        wanted = takers.get(topic, {})
        for number, index in of_topic.items():
            # Claims may name what is gone; contested ones count for none of the members.
            if index < 0 or number not in wanted or topic not in group.topics[index]:
                continue
            pair, refused = (topic, number), group.refused[index]
            if not refused or pair not in refused or wanted[number] == index:
                yield pair, index
