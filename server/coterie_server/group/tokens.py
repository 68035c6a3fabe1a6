"""With which fencing tokens members own what they own, as far as the coordinator remembers.

Only those of members that tell of themselves are remembered: no program asks for the others'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.consumer import flatten
from coterie_server.group.group import RENEWAL_BITS

if TYPE_CHECKING:
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member

__all__ = ["note_tokens", "recover_tokens"]


def note_tokens(group: Group, member: Member) -> None:
    """Remember the token of what a member takes over now, as it is told its assignment."""
    name = group.row.protocol_name
    subscription = member.subscription(name)
    if subscription is not None and member.data(name) is not None:
        kept = flatten(subscription.owned_partitions)
        group.ledger.note_tokens(member.id, group.token, kept)


def recover_tokens(group: Group) -> None:
    """Find out with which tokens the members own what they were assigned.

    They told of what they had as they joined.  The token of what they got then is at least the
    first one of its generation; too low a token is better than one that its owner does not have.
    """
    least = group.row.assigned_in << RENEWAL_BITS
    for member in group.members.values():
        told = member.data(group.row.protocol_name)
        if told is None:
            continue
        for partition in group.ledger.owned_by(member.id):
            group.ledger.tokens[partition] = min(told.tokens.get(partition, least), least)
