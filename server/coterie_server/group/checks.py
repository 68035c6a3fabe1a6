"""Questions that several handlers ask: who sent this, and what may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberFenced
from coterie_server.group.group import CONSUMER

if TYPE_CHECKING:
    from coterie_server.group.group import Group
    from coterie_server.group.turn import Call, Turn

__all__ = ["check_generation", "check_member", "keeps_ledger"]


def check_member(
    turn: Turn, group: Group, member_id: str, instance_id: str | None, call: Call
) -> ErrorCode | None:
    """Why a member id, with its instance id if it names one, is not accepted.

    Whoever names an instance id that another member holds by now is fenced: two processes share
    a name, and only the one that came last may go on.
    """
    if instance_id is not None:
        holder = group.static.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            _note_fenced(turn, group, member_id, instance_id, call)
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None


def check_generation(
    turn: Turn,
    group: Group,
    member_id: str,
    instance_id: str | None,
    generation: int,
    call: Call,
) -> ErrorCode | None:
    """Why a member is not accepted as one of the present generation."""
    error = check_member(turn, group, member_id, instance_id, call)
    if error is None and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _note_fenced(turn: Turn, group: Group, member_id: str, instance_id: str, call: Call) -> None:
    holder = group.members[group.static[instance_id]]
    turn.event(
        MemberFenced(
            group=group.id,
            instance=instance_id,
            member=member_id,
            host=call.host,
            holder=holder.id,
            holder_host=holder.row.client_host,
            request=type(call.message).__name__.removesuffix("Request"),
        )
    )


def keeps_ledger(group: Group) -> bool:
    """Whether the coordinator can read who holds which partition in a group."""
    return group.row.protocol_type == CONSUMER
