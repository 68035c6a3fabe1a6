"""Heartbeat: a member says that it is there, and is told whether it has to join again.

There are more heartbeats than all other requests together, and of nearly all of them nothing
comes but a longer session.  `try_heartbeat` holds the rules for those, and the connection asks it
first, before any step is begun.  `heartbeat` takes all others: those that are refused, and those
of the few members whose deadline has to be set anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatResponse
from coterie_server.group import absence
from coterie_server.group.rebalance import (
    drop_member,
    drop_pending_id,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.states import GroupState
from coterie_server.group.step import check_generation

if TYPE_CHECKING:
    from coterie_protocol.messages import HeartbeatRequest
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step
    from coterie_server.group.table import GroupTable
    from coterie_server.step import Request

__all__ = ["expire_session", "heartbeat", "try_heartbeat"]

_FINE = HeartbeatResponse()
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def try_heartbeat(
    table: GroupTable, message: HeartbeatRequest, now_ms: int
) -> HeartbeatResponse | None:
    """Answer a heartbeat that only makes a session longer; None if it is another kind.

    Nothing has to be stored or told, so this needs no step.  Nor has a deadline to be set: that of
    a member without a parked request is armed for the end of its session or earlier, and is looked
    at when it comes.
    """
    group = table.groups.get(message.group_id)
    if group is None or message.generation_id != group.row.generation:
        return None
    member = group.members.get(message.member_id)
    if member is None or member.join is not None or member.sync is not None:
        return None
    alive_until_ms = now_ms + member.row.session_timeout_ms
    is_same = message.group_instance_id in (None, member.instance_id)
    if not is_same or alive_until_ms < member.alive_until_ms or member.row.away_since_ms >= 0:
        return None
    member.last_seen_ms = now_ms
    member.alive_until_ms = alive_until_ms
    return _REJOIN if group.state is GroupState.PREPARING else _FINE


def heartbeat(step: Step, request: Request) -> None:
    """Answer any heartbeat."""
    answer = try_heartbeat(step.table, request.message, step.now_ms)
    if answer is None:
        answer = _refuse(step, request) or _keep_alive(step, request.message)
    step.reply(request, answer)


def _refuse(step: Step, request: Request) -> HeartbeatResponse | None:
    message: HeartbeatRequest = request.message
    group = step.table.groups.get(message.group_id)
    error: ErrorCode | None
    if not message.group_id:
        # There is such a group if offsets were committed for it, but it can't have members.
        error = ErrorCode.INVALID_GROUP_ID
    elif group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    else:
        error = check_generation(
            step,
            group,
            message.member_id,
            message.group_instance_id,
            message.generation_id,
            request,
        )
    return None if error is None else HeartbeatResponse(error_code=error)


def _keep_alive(step: Step, message: HeartbeatRequest) -> HeartbeatResponse:
    """Give a new session to a member whose deadline may not be armed, or only for later."""
    group = step.table.groups[message.group_id]
    member = group.members[message.member_id]
    member.last_seen_ms = step.now_ms
    absence.end(step, group, member)
    step.keep_alive(group, member)
    return _REJOIN if group.state is GroupState.PREPARING else _FINE


# -- no heartbeat ------------------------------------------------------------------------------


def expire_session(step: Step, group: Group, member_id: str) -> None:
    """Look at a member whose deadline has come: it may have been heard from since."""
    if member_id in group.pending_joins:
        drop_pending_id(step, group, member_id)
        try_complete(step, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.alive_until_ms > step.now_ms:
        step.table.deadlines.set(("session", group.id, member_id), member.alive_until_ms)
    elif member.is_new or not member.is_waiting:
        _expire(step, group, member)
    # A member whose request is parked is there; its session starts anew with the answer.


def _expire(step: Step, group: Group, member: Member) -> None:
    if not member.is_away and absence.kept_ms(step, member):
        absence.begin(step, group, member)
        return
    how = "join_expired" if member.is_new else "session_expired"
    if member.is_away:
        how = "registration_expired"
    silent_ms = step.now_ms - member.last_seen_ms
    drop_member(step, group, member, how)
    rebalance_or_complete(step, group, how, f"{member.id} was silent for {silent_ms} ms")
