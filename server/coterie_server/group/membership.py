"""Heartbeat and LeaveGroup, and what happens to members that are not heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import IdUnclaimed
from coterie_protocol.messages import (
    HeartbeatResponse,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from coterie_server.group.checks import check_generation, check_member
from coterie_server.group.rebalancing import (
    drop_member,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from coterie_protocol.messages import HeartbeatRequest, LeaveGroupRequest
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member, Ticket
    from coterie_server.group.turn import Call, Shard, Turn

__all__ = ["expire_session", "hear", "heartbeat", "leave"]

#: From this version on one request can make several members leave, static ones by their names.
_BATCHES_FROM = 3

_FINE = HeartbeatResponse()
_REBALANCING = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Keep a member alive, and tell it if it is to join again."""
    message: HeartbeatRequest = call.message
    if not message.group_id:
        # There is such a group if offsets were committed for it, but nobody can be a member of it.
        turn.reply(ticket, HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    group = turn.shard.groups.get(message.group_id)
    if group is None:
        turn.reply(ticket, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return
    refusal = check_generation(
        turn, group, message.member_id, message.group_instance_id, message.generation_id, call
    )
    if refusal is not None:
        turn.reply(ticket, HeartbeatResponse(error_code=refusal))
        return
    member = group.members[message.member_id]
    member.last_seen_ms = turn.now_ms
    turn.keep_alive(group, member)
    turn.reply(ticket, _welcome(group))


def hear(shard: Shard, message: HeartbeatRequest, now_ms: int) -> HeartbeatResponse | None:
    """The same for a member of which only a number changes; None for everybody else.

    Nothing comes of it that is stored or told, so it needs no turn.  Nor does a deadline: that of
    a member who does not wait for an answer is armed for the end of its session, or for before.
    """
    group = shard.groups.get(message.group_id)
    if group is None or message.generation_id != group.row.generation:
        return None
    member = group.members.get(message.member_id)
    if member is None or member.join is not None or member.sync is not None:
        return None
    row, instance_id = member.row, message.group_instance_id
    alive_until_ms = now_ms + row.session_timeout_ms
    if instance_id not in (None, row.instance_id) or alive_until_ms < member.alive_until_ms:
        return None
    member.last_seen_ms = now_ms
    member.alive_until_ms = alive_until_ms
    return _welcome(group)


def _welcome(group: Group) -> HeartbeatResponse:
    return _REBALANCING if group.state is GroupState.PREPARING else _FINE


# -- leaving -----------------------------------------------------------------------------------


def leave(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Let members go; one rebalance for all of them."""
    message: LeaveGroupRequest = call.message
    if not message.group_id:
        answer = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        turn.reply(ticket, answer)
        return
    if call.version < _BATCHES_FROM:
        leaving: tuple[MemberIdentity, ...] = (MemberIdentity(member_id=message.member_id),)
    else:
        leaving = message.members
    group = turn.group(message.group_id)
    results = tuple(_leave_one(turn, group, identity, call) for identity in leaving)
    if call.version < _BATCHES_FROM:
        answer = LeaveGroupResponse(error_code=results[0][0].error_code)
    else:
        answer = LeaveGroupResponse(members=tuple(result for result, _ in results))
    turn.reply(ticket, answer)
    if group is not None:
        _rebalance_without(turn, group, [cause for _, cause in results if cause])


def _leave_one(
    turn: Turn, group: Group | None, identity: MemberIdentity, call: Call
) -> tuple[MemberResponse, str]:
    """The answer for one member, and the cause of a rebalance if there was a member to lose."""
    error, cause = ErrorCode.NONE, ""
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif not identity.member_id:
        error, cause = _remove_instance(turn, group, identity)
    elif identity.member_id in group.pending_joins:
        _give_up_id(turn, group, identity.member_id)
        turn.forget_session(group, identity.member_id)
    else:
        error, cause = _leave_member(turn, group, identity, call)
    answer = MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=error,
    )
    return answer, cause


def _remove_instance(turn: Turn, group: Group, identity: MemberIdentity) -> tuple[ErrorCode, str]:
    member_id = group.static.get(identity.group_instance_id or "")
    if identity.group_instance_id is None or member_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, ""
    drop_member(turn, group, group.members[member_id], "removed", identity.reason or "")
    return ErrorCode.NONE, "member_removed"


def _leave_member(
    turn: Turn, group: Group, identity: MemberIdentity, call: Call
) -> tuple[ErrorCode, str]:
    error = check_member(turn, group, identity.member_id, identity.group_instance_id, call)
    if error is not None:
        return error, ""
    member = group.members[identity.member_id]
    member.last_seen_ms = turn.now_ms
    drop_member(turn, group, member, "left", identity.reason or "")
    return ErrorCode.NONE, "member_left"


def _rebalance_without(turn: Turn, group: Group, causes: list[str]) -> None:
    if not causes:  # ids at most that were pending
        try_complete(turn, group)
        return
    gone = f"{len(causes)} member{'s' if len(causes) > 1 else ''}"
    rebalance_or_complete(turn, group, causes[0], gone)


def _give_up_id(turn: Turn, group: Group, member_id: str) -> None:
    group.pending_joins.discard(member_id)
    turn.event(IdUnclaimed(group=group.id, member=member_id))


# -- not heard of ------------------------------------------------------------------------------


def expire_session(turn: Turn, group: Group, member_id: str) -> None:
    """Look at a member whose deadline has come: it may have been heard of since."""
    if member_id in group.pending_joins:
        _give_up_id(turn, group, member_id)
        try_complete(turn, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.alive_until_ms > turn.now_ms:
        turn.shard.deadlines.set(("session", group.id, member_id), member.alive_until_ms)
    elif member.is_new or not member.is_waiting:
        _expire(turn, group, member)
    # A member whose request is parked is there; its session starts anew with the answer.


def _expire(turn: Turn, group: Group, member: Member) -> None:
    how = "join_expired" if member.is_new else "session_expired"
    silent_ms = turn.now_ms - member.last_seen_ms
    drop_member(turn, group, member, how)
    rebalance_or_complete(turn, group, how, f"{member.id} was silent for {silent_ms} ms")
