"""With which fencing tokens members own what they own, as far as the coordinator remembers.

Only those of members that tell of themselves are remembered: no program asks for the others'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.consumer import flatten
from coterie_server.group.group import RENEWAL_BITS

if TYPE_CHECKING:
    from coterie_protocol.member_data import MemberData
    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member

__all__ = ["note_tokens", "recover_tokens"]


def note_tokens(group: Group, member: Member) -> None:
    """Remember the token of what a member takes over now, as it is told its assignment."""
    told, kept = _said(group, member)
    if told is not None:
        group.ledger.note_tokens(member.id, group.token, kept, told.tokens)


def recover_tokens(group: Group) -> None:
    """Find out with which tokens the members own what they were assigned.

    They told of what they had as they joined.  The token of what they got then is at least the
    first one of its generation; too low a token is better than one that its owner does not have.
    """
    least = group.row.assigned_in << RENEWAL_BITS
    for member in group.members.values():
        told, kept = _said(group, member)
        if told is not None:
            group.ledger.note_tokens(member.id, least, kept, told.tokens)


def _said(group: Group, member: Member) -> tuple[MemberData | None, frozenset[Partition]]:
    """What a member told as it joined: of itself, and what it kept."""
    name = group.row.protocol_name
    subscription, told = member.subscription(name), member.data(name)
    if subscription is None or told is None:
        return None, frozenset()
    return told, flatten(subscription.owned_partitions)
