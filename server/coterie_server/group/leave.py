"""LeaveGroup: members go, by themselves or by an administrator, with one rebalance for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import LeaveGroupResponse, MemberIdentity, MemberResponse
from coterie_server.group.rebalance import (
    drop_member,
    drop_pending_id,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.step import check_member

if TYPE_CHECKING:
    from coterie_protocol.messages import LeaveGroupRequest
    from coterie_server.group.group import Group
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["leave"]

#: From this version on one request can make several members leave, static ones by their names.
_BATCHES_FROM = 3


def leave(step: Step, request: Request) -> None:
    """Let members go."""
    message: LeaveGroupRequest = request.message
    if not message.group_id:
        step.reply(request, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    is_batch = request.version >= _BATCHES_FROM
    leaving = message.members if is_batch else (MemberIdentity(member_id=message.member_id),)
    group = step.group(message.group_id)
    results = tuple(_leave_one(step, group, identity, request) for identity in leaving)
    if is_batch:
        answer = LeaveGroupResponse(members=tuple(result for result, _ in results))
    else:
        answer = LeaveGroupResponse(error_code=results[0][0].error_code)
    step.reply(request, answer)
    if group is not None:
        _rebalance_without(step, group, [cause for _, cause in results if cause])


def _leave_one(
    step: Step, group: Group | None, identity: MemberIdentity, request: Request
) -> tuple[MemberResponse, str]:
    """The answer for one member, and the cause of a rebalance if there was a member to lose."""
    error, cause = ErrorCode.NONE, ""
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif not identity.member_id:
        error, cause = _remove_instance(step, group, identity)
    elif identity.member_id in group.pending_joins:
        drop_pending_id(step, group, identity.member_id)
        step.forget_session(group, identity.member_id)
    else:
        error, cause = _leave_member(step, group, identity, request)
    answer = MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=error,
    )
    return answer, cause


def _remove_instance(step: Step, group: Group, identity: MemberIdentity) -> tuple[ErrorCode, str]:
    member_id = group.static.get(identity.group_instance_id or "")
    if identity.group_instance_id is None or member_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, ""
    drop_member(step, group, group.members[member_id], "removed", identity.reason or "")
    return ErrorCode.NONE, "member_removed"


def _leave_member(
    step: Step, group: Group, identity: MemberIdentity, request: Request
) -> tuple[ErrorCode, str]:
    error = check_member(step, group, identity.member_id, identity.group_instance_id, request)
    if error is not None:
        return error, ""
    member = group.members[identity.member_id]
    member.last_seen_ms = step.now_ms
    drop_member(step, group, member, "left", identity.reason or "")
    return ErrorCode.NONE, "member_left"


def _rebalance_without(step: Step, group: Group, causes: list[str]) -> None:
    if not causes:  # none but pending ids, if any
        try_complete(step, group)
        return
    gone = f"{len(causes)} member{'s' if len(causes) > 1 else ''}"
    rebalance_or_complete(step, group, causes[0], gone)
