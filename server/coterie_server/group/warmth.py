"""What members with state report and are told: who keeps copies of what, and how far behind.

It is in the user data of subscriptions and assignments, which the coordinator passes on unread.
What is shown here changes nothing about the group, and takes bounded time: of a group, only so
many bytes are read, and what is unreadable is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from coterie_protocol.consumer import decode_assignment
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.streams.reading import (
    BLOCK_BYTES_MAX,
    Orders,
    has_block,
    may_have_block,
    read_lags,
    read_orders,
)
from coterie_server.group.ledger import by_topic

if TYPE_CHECKING:
    from coterie_protocol.journal import Lags, Partitions
    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member

__all__ = [
    "BYTES_AT_ONCE",
    "Allowance",
    "Plan",
    "has_copies_of",
    "has_lost_state",
    "lags_of",
    "orders_of",
    "plan_from",
    "plan_of",
]

#: How many bytes of user data are read in one step of a group; about a tenth of a second's worth.
BYTES_AT_ONCE: Final = 131_072
#: Groups are looked at again and again while nothing changes, so short user data that was read is
#: kept: so many, of at most so many bytes.
_KEPT: Final = 256
_SHORT_BYTES: Final = 2_048


@dataclass(frozen=True, slots=True)
class Plan:
    """What a group's leader has ordered, by member."""

    standbys: Mapping[str, Partitions]
    warming: Mapping[str, Partitions]
    #: What members are to work on in the end, where others do now.
    targets: Mapping[str, Partitions]
    #: When the group is to look again whether copies have caught up.
    next_probing_ms: int | None = None


@dataclass(slots=True)
class Allowance:
    """How many more bytes may be read."""

    left: int = BYTES_AT_ONCE

    def covers(self, data: bytes | None) -> bool:
        """Whether user data holds something, and may still be read."""
        if data is None or not has_block(data):
            return False
        self.left -= min(len(data), BLOCK_BYTES_MAX)
        return self.left >= 0


def lags_of(
    member: Member, protocol: str | None, allowance: Allowance | None = None
) -> Lags | None:
    """How far behind a consumer said, as it joined, that its copies are; None if it did not."""
    subscription = member.subscription(protocol)
    data = subscription.user_data if subscription is not None else None
    if subscription is None or not (allowance or Allowance()).covers(data):
        return None
    topics = tuple(subscription.topics)
    return _short_lags(data, topics) if _is_short(data) else _lags(data, topics)


def orders_of(
    member: Member, protocol: str | None, allowance: Allowance | None = None
) -> Orders | None:
    """What the leader ordered of a consumer besides its work; None if nothing."""
    if not may_have_block(member.assignment):  # so that large groups are not read for nothing
        return None
    try:
        data = decode_assignment(member.assignment).user_data
    except ProtocolError:
        return None
    if not (allowance or Allowance()).covers(data):
        return None
    subscription = member.subscription(protocol)
    topics = tuple(subscription.topics) if subscription is not None else ()
    return _short_orders(data, topics) if _is_short(data) else read_orders(data, topics)


def plan_of(members: Mapping[str, Member], protocol: str | None) -> Plan | None:
    """What the leader ordered of all members; None if it ordered nothing."""
    allowance = Allowance()
    orders = {name: orders_of(member, protocol, allowance) for name, member in members.items()}
    given = {member_id: each for member_id, each in orders.items() if each is not None}
    return plan_from(given, members.keys()) if given else None


def has_copies_of(group: Group, member: Member) -> bool:
    """Whether other members that are there keep copies of the state of a member's partitions."""
    return _others_keep(group, member, group.ledger.owned_by(member.id))


def has_lost_state(group: Group, member: Member) -> bool:
    """Whether a member that came back lacks state of which others keep copies.

    One that reports no state at all needs none.
    """
    lags = lags_of(member, group.row.protocol_name)
    if lags is None:
        return False
    lacking = frozenset(
        (topic, number)
        for topic, number in group.ledger.owned_by(member.id)
        if lags.get(topic, {}).get(str(number)) is None
    )
    return _others_keep(group, member, lacking)


def _others_keep(group: Group, member: Member, partitions: AbstractSet[Partition]) -> bool:
    if not partitions:
        return False
    allowance = Allowance()
    others = (each for each in group.members.values() if each is not member and not each.is_away)
    orders = (orders_of(each, group.row.protocol_name, allowance) for each in others)
    return any(each is not None and partitions & (each.standbys | each.warming) for each in orders)


def plan_from(orders: Mapping[str, Orders], members: Collection[str]) -> Plan:
    """A leader's orders, by member, in the shape in which the journal has them."""
    targets: dict[str, set[tuple[str, int]]] = {}
    for each in orders.values():
        for partition, member_id in each.targets.items():
            if member_id in members:
                targets.setdefault(member_id, set()).add(partition)
    next_ms = (each.next_rebalance_ms for each in orders.values())
    return Plan(
        standbys={name: by_topic(each.standbys) for name, each in orders.items() if each.standbys},
        warming={name: by_topic(each.warming) for name, each in orders.items() if each.warming},
        targets={name: by_topic(partitions) for name, partitions in targets.items()},
        next_probing_ms=min((at_ms for at_ms in next_ms if at_ms is not None), default=None),
    )


def _is_short(data: bytes | None) -> bool:
    return data is not None and len(data) <= _SHORT_BYTES


def _lags(user_data: bytes | None, topics: tuple[str, ...]) -> Lags | None:
    found = read_lags(user_data, topics)
    if found is None:
        return None
    lags: dict[str, dict[str, int | None]] = {}
    for (topic, number), lag in sorted(found.items()):
        lags.setdefault(topic, {})[str(number)] = lag
    return lags


_short_lags: Final = lru_cache(_KEPT)(_lags)
_short_orders: Final = lru_cache(_KEPT)(read_orders)
