"""Who owns what now, for those who send work to its owners.

A partition that a member was assigned is its own once it has been told so.  It stays its own until
the member joins without claiming it any more, or is gone.  In between it is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from coterie_protocol.consumer import flatten
from coterie_server.group.group import CONSUMER
from coterie_server.group.states import GroupState
from coterie_server.turns import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member
    from coterie_server.turns import Making

__all__ = ["OwnerState", "Ownership", "Ownerships", "ownerships_of"]


class OwnerState(StrEnum):
    """How it stands with a partition."""

    OWNED = "owned"
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
    #: How many partitions each topic has.
    topics: Mapping[str, int]
    #: By topic and number, in that order.
    partitions: Mapping[Partition, Ownership]


_ON_ITS_WAY = Ownership(OwnerState.ON_ITS_WAY)
_UNOWNED = Ownership(OwnerState.UNOWNED)


def ownerships_of(group: Group, sizes: Mapping[str, int]) -> Making[Ownerships | None]:
    """Who owns what, as it is when this begins; None if the group's bytes can't be read.

    `sizes` are the topics that there are.
    """
    if not _is_readable(group):
        return None
    row, ledger = group.row, group.ledger
    # What is looked at later must not change until then.
    holdings, tokens, moving = dict(ledger.holdings), dict(ledger.tokens), ledger.on_their_way()
    owners = {member.id: _Owner(group, member) for member in group.members.values()}
    topics = {name: sizes.get(name, 0) for name in group.topics() or ()}
    is_rebalancing = group.state in (GroupState.PREPARING, GroupState.COMPLETING)
    piece = Piece()
    for topic, number in holdings:
        topics[topic] = max(topics.get(topic, 0), number + 1)
    found: dict[Partition, Ownership] = {}
    for topic, size in sorted(topics.items()):
        for number in range(size):
            partition = (topic, number)
            holding = holdings.get(partition)
            owner = None if holding is None else owners.get(holding.member_id)
            if owner is not None and owner.has(partition):
                found[partition] = owner.shown._replace(token=tokens.get(partition))
            elif holding is not None or is_rebalancing or partition in moving:
                found[partition] = _ON_ITS_WAY
            else:
                found[partition] = _UNOWNED
            if piece.is_whole():
                yield
    return Ownerships(row.generation, row.state, topics, found)


def _is_readable(group: Group) -> bool:
    if group.row.protocol_type not in (None, CONSUMER):
        return False
    return group.topics() is not None or group.state in (GroupState.EMPTY, GroupState.PREPARING)


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
            else group.state is GroupState.COMPLETING and not member.row.is_away
        )
        #: Whether it has all that it was assigned, and not only what it claimed as it joined.
        self._has_all = member.id in group.ledger.told and not has_joined
        self._subscription = member.subscription(protocol)
        self._claimed: frozenset[Partition] | None = None

    def has(self, partition: Partition) -> bool:
        """Whether it has a partition that it was assigned."""
        if self._has_all:
            return True
        if self._claimed is None:
            said = self._subscription
            self._claimed = frozenset() if said is None else flatten(said.owned_partitions)
        return partition in self._claimed
