"""Who owns what now, for those who send work to its owners.

A partition that a member was assigned is its own once it has been told so.  It stays its own until
the member joins without claiming it any more, or is gone.  In between it is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from coterie_protocol.consumer import flatten
from coterie_server.group.group import CONSUMER
from coterie_server.group.states import GroupState
from coterie_server.group.warmth import Allowance, orders_of
from coterie_server.turns import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member
    from coterie_server.turns import Making

__all__ = ["OwnerState", "Ownership", "Ownerships", "ownerships_of"]


class OwnerState(StrEnum):
    """How it stands with a partition."""

    OWNED = "owned"
    #: It is owned, and another member makes a copy of its state in order to own it then.
    WARMING = "warming"
    #: It has no owner just now: its static member's session is over, and its place is kept.
    AWAY = "away"
    #: It has no owner just now, and a rebalance is about to give it one.
    ON_ITS_WAY = "on_its_way"
    UNOWNED = "unowned"


class Ownership(NamedTuple):
    """How it stands with a partition, and if it is owned, by whom."""

    state: OwnerState
    member: str | None = None
    instance: str | None = None
    address: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    #: The token with which its owner took it over; None if that is not known.
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Ownerships:
    """Who owns what in a group."""

    generation: int
    state: str
    #: How many partitions each topic has, as far as the node or the group's leader knows.
    topics: Mapping[str, int]
    #: By topic and number, in that order: those that the node knows, and those with an owner.
    partitions: Mapping[Partition, Ownership]


_ON_ITS_WAY = Ownership(OwnerState.ON_ITS_WAY)
_UNOWNED = Ownership(OwnerState.UNOWNED)


def ownerships_of(group: Group, sizes: Mapping[str, int]) -> Making[Ownerships | None]:
    """Who owns what, as it is when this begins; None if the group's bytes can't be read.

    `sizes` are the topics that there are.
    """
    if not _is_readable(group):
        return None
    row, piece = group.row, Piece()
    moment = _Moment(group)
    yield from moment.read_targets(row.protocol_name, piece)
    beyond = _beyond(moment.holdings, sizes)
    topics: dict[str, int] = {}
    found: dict[Partition, Ownership] = {}
    held = {topic for topic, _ in moment.holdings}
    for topic in sorted(held.union(group.topics() or ())):
        known, numbers = sizes.get(topic, 0), beyond.get(topic, ())
        topics[topic] = numbers[-1] + 1 if numbers else known
        for number in chain(range(known), numbers):
            found[topic, number] = moment.ownership_of((topic, number))
            if piece.is_whole():
                yield
    return Ownerships(row.generation, row.state, topics, found)


def _beyond(holdings: Iterable[Partition], sizes: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
    """The partitions that a leader has given out and that the node does not know, by topic.

    It may know a topic as larger.  Or it made a mistake: the highest number says nothing of how
    many there are.
    """
    beyond: dict[str, list[int]] = {}
    unknown = [each for each in holdings if each[1] >= sizes.get(each[0], 0)]
    for topic, number in sorted(unknown):
        beyond.setdefault(topic, []).append(number)
    return beyond


def _is_readable(group: Group) -> bool:
    if group.row.protocol_type not in (None, CONSUMER):
        return False
    return group.topics() is not None or group.state in (GroupState.EMPTY, GroupState.PREPARING)


class _Moment:
    """What there is to know of a group at one moment, whatever becomes of it later."""

    def __init__(self, group: Group) -> None:
        ledger = group.ledger
        self.holdings, self._tokens = dict(ledger.holdings), dict(ledger.tokens)
        self._moving = ledger.on_their_way()
        self._members = list(group.members.values())
        self._owners = {member.id: _Owner(group, member) for member in self._members}
        self._is_rebalancing = group.state in (GroupState.PREPARING, GroupState.COMPLETING)
        #: Who is to own partitions in the end that others own now.
        self._targets: dict[Partition, str] = {}

    def read_targets(self, protocol: str | None, piece: Piece) -> Making[None]:
        """Find out which partitions are to move once copies of their state have caught up."""
        allowance = Allowance()
        for member in self._members:
            orders = orders_of(member, protocol, allowance)
            if orders is not None:
                self._targets |= orders.targets
            if orders is not None or piece.is_whole():
                yield

    def ownership_of(self, partition: Partition) -> Ownership:
        """How it stands with a partition."""
        holding = self.holdings.get(partition)
        owner = None if holding is None else self._owners.get(holding.member_id)
        if owner is not None and owner.has(partition):
            target = self._owners.get(self._targets.get(partition, ""), owner)
            state = OwnerState.OWNED if target is owner else OwnerState.WARMING
            return owner.shown._replace(state=state, token=self._tokens.get(partition))
        if owner is not None and owner.is_away and not self._is_rebalancing:
            return Ownership(OwnerState.AWAY, instance=owner.shown.instance)
        if holding is not None or self._is_rebalancing or partition in self._moving:
            return _ON_ITS_WAY
        return _UNOWNED


class _Owner:
    """A member, and what it has of that which was assigned to it."""

    def __init__(self, group: Group, member: Member) -> None:
        protocol = group.row.protocol_name
        told = member.data(protocol)
        self.shown = Ownership(
            OwnerState.OWNED,
            member.id,
            member.instance_id,
            None if told is None else told.address,
            () if told is None else tuple(sorted(told.labels.items())),
        )
        has_joined = (
            member.join is not None
            if group.state is GroupState.PREPARING
            else group.state is GroupState.COMPLETING and not member.row.has_not_joined
        )
        #: Whether it has all that it was assigned, and not only what it claimed as it joined.
        self._has_all = member.id in group.ledger.told and not has_joined and not member.is_away
        self.is_away = member.is_away
        self._subscription = member.subscription(protocol)
        self._claimed: frozenset[Partition] | None = None

    def has(self, partition: Partition) -> bool:
        """Whether it has a partition that it was assigned."""
        if self._has_all or self.is_away:
            return self._has_all
        if self._claimed is None:
            said = self._subscription
            self._claimed = frozenset() if said is None else flatten(said.owned_partitions)
        return partition in self._claimed
