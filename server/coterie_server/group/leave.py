"""LeaveGroup: members go, by themselves or by an administrator, with one rebalance for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["leave"]

#: From this version on one request can make several members leave, static ones by their names.
_BATCHES_FROM = 3

#: What the reason says with which Kafka's own administrator removes members.
_BY_ADMIN = "removed by an admin"

#: A rebalance that many departures caused names no more of them than this.
_NAMED_MAX = 3


class _Departure(NamedTuple):
    """A member that is gone: the cause of a rebalance, and which member it was, and why."""

    cause: str
    detail: str


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
        _rebalance_without(step, group, [departure for _, departure in results if departure])


def _leave_one(
    step: Step, group: Group | None, identity: MemberIdentity, request: Request
) -> tuple[MemberResponse, _Departure | None]:
    """The answer for one member, and its departure if there was a member to lose."""
    error, departure = ErrorCode.NONE, None
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif not identity.member_id:
        error, departure = _remove_instance(step, group, identity)
    elif identity.member_id in group.pending_joins:
        drop_pending_id(step, group, identity.member_id)
        step.forget_session(group, identity.member_id)
    else:
        error, departure = _leave_member(step, group, identity, request)
    answer = MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=error,
    )
    return answer, departure


def _remove_instance(
    step: Step, group: Group, identity: MemberIdentity
) -> tuple[ErrorCode, _Departure | None]:
    member_id = group.static.get(identity.group_instance_id or "")
    if identity.group_instance_id is None or member_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    return ErrorCode.NONE, _remove(step, group, group.members[member_id], identity.reason or "")


def _remove(step: Step, group: Group, member: Member, reason: str) -> _Departure:
    """Let a member go for an administrator: it need not know of it, and may be at work."""
    drop_member(step, group, member, "removed", reason)
    return _Departure("member_removed", member.named(reason))


def _leave_member(
    step: Step, group: Group, identity: MemberIdentity, request: Request
) -> tuple[ErrorCode, _Departure | None]:
    error = check_member(step, group, identity.member_id, identity.group_instance_id, request)
    if error is not None:
        return error, None
    member, reason = group.members[identity.member_id], identity.reason or ""
    if not _is_own_word(member, reason, request):
        return ErrorCode.NONE, _remove(step, group, member, reason)
    member.last_seen_ms = step.now_ms
    drop_member(step, group, member, "left", reason)
    return ErrorCode.NONE, _Departure("member_left", member.named(reason))


def _is_own_word(member: Member, reason: str, request: Request) -> bool:
    """Whether a member leaves by itself: it asks as the one, and from where, it has joined.

    Administrators have other client ids, or other hosts; a request says nothing else of who asks.
    """
    row = member.row
    is_its_client = (request.client_id, request.host) == (row.client_id, row.client_host)
    return is_its_client and _BY_ADMIN not in reason


def _rebalance_without(step: Step, group: Group, departures: list[_Departure]) -> None:
    if not departures:  # none but pending ids, if any
        try_complete(step, group)
        return
    detail = ", ".join(departure.detail for departure in departures[:_NAMED_MAX])
    if len(departures) > _NAMED_MAX:
        detail += f" and {len(departures) - _NAMED_MAX} more"
    rebalance_or_complete(step, group, departures[0].cause, detail)
