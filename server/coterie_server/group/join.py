"""JoinGroup: how members come into a group, join again, and come back under a known name.

Top down: `join` checks the request and finds the group; a member without an id is told one, taken
in, or given a known static member's place; a member with an id is told the present generation, or
joins again, which starts a rebalance.  A join that takes part in a rebalance is parked at its
member until `rebalance` ends the first phase.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined
from coterie_server.error_answers import join_error
from coterie_server.group import absence, replies, standing
from coterie_server.group.group import CONSUMER, Group
from coterie_server.group.member import Member, protocols_of, terms_of
from coterie_server.group.rebalance import (
    drop_member,
    prepare,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.records import MemberRow
from coterie_server.group.replacement import replace_static
from coterie_server.group.states import GroupState
from coterie_server.group.step import SHOWN_MAX, check_member

if TYPE_CHECKING:
    from coterie_protocol.messages import JoinGroupRequest
    from coterie_server.group.records import SupportedProtocol
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["expire_expansion", "join"]

#: From this version on a dynamic member is told its id first and joins with it (KIP-394).
_ID_REQUIRED_FROM = 4
#: Causes of which only members know; they say so at the front of their reason to join again.
_CAUSES_TOLD: Final = frozenset({"probing", "warm", "load"})
#: The longest string that an answer or a row can hold, in bytes.
_ID_MAX = 2**15 - 1


def join(step: Step, request: Request) -> None:
    """Answer a JoinGroup or park it."""
    message: JoinGroupRequest = request.message
    error = _check_request(step, message)
    if error is not None:
        _refuse(step, request, error, message.member_id)
        return
    group = step.group(message.group_id)
    if group is None:
        if message.member_id:
            _refuse(step, request, ErrorCode.UNKNOWN_MEMBER_ID, message.member_id)
            return
        group = step.create(message.group_id, request)
        if group is None:
            # Not an error to retry after: clients would try for ever and never say why.
            _refuse(step, request, ErrorCode.POLICY_VIOLATION)
            return
    if not _has_room(step, group, message):
        _turn_away(step, group, request)
    elif not group.supports(message.protocol_type, [p.name for p in message.protocols]):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        _refuse(step, request, error, message.member_id)
    elif message.member_id:
        _join_with_id(step, group, request)
    else:
        _join_without_id(step, group, request)


def _check_request(step: Step, message: JoinGroupRequest) -> ErrorCode | None:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    config = step.config
    shortest, longest = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not shortest <= message.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if message.registration_timeout_ms > longest:  # a member's silence is bounded, however called
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _refuse(step: Step, request: Request, error: ErrorCode, member_id: str = "") -> None:
    step.reply(request, join_error(request.version, error, member_id))


def _has_room(step: Step, group: Group, message: JoinGroupRequest) -> bool:
    """Whether `group.max.size` leaves room for this member.

    In the first phase those that have joined count, and those that are away, so that the last to
    come stay outside if the limit was lowered.  A static member that comes back takes no new place.
    """
    if group.state is GroupState.EMPTY:
        return True
    member_id = message.member_id or group.static.get(message.group_instance_id or "", "")
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING:
        has_place = member is not None and (member.join is not None or member.is_away)
        if has_place or (member is not None and not message.member_id):
            return True
        return group.parked_joins + len(group.away) < step.max_size(group)
    return member is not None or len(group.members) < step.max_size(group)


def _turn_away(step: Step, group: Group, request: Request) -> None:
    member_id = request.message.member_id
    group.pending_joins.discard(member_id)
    step.forget_session(group, member_id)
    member = group.members.get(member_id)
    if member is not None:
        drop_member(step, group, member, "turned_away")
    _refuse(step, request, ErrorCode.GROUP_MAX_SIZE_REACHED)
    try_complete(step, group)


# -- without an id -----------------------------------------------------------------------------


def _join_without_id(step: Step, group: Group, request: Request) -> None:
    message: JoinGroupRequest = request.message
    instance_id = message.group_instance_id
    member_id = step.table.ids.member_id(group.id, request.client_id, request.host, instance_id)
    if len(member_id.encode()) > _ID_MAX:  # made of a name that just fits
        _refuse(step, request, ErrorCode.INVALID_REQUEST)
    elif instance_id is not None and instance_id in group.static:
        replace_static(step, group, member_id, request)
    elif instance_id is None and request.version >= _ID_REQUIRED_FROM:
        _hand_out_id(step, group, member_id, request)
    else:
        _add(step, group, member_id, request)


def _hand_out_id(step: Step, group: Group, member_id: str, request: Request) -> None:
    if len(group.pending_joins) >= step.config.max_pending_members:
        limit, wanted = step.config.max_pending_members, f"an id in group {group.id[:SHOWN_MAX]}"
        step.hit_limit("max.pending.members.per.group", limit, wanted)
        _refuse(step, request, ErrorCode.GROUP_MAX_SIZE_REACHED)
        return
    group.pending_joins.add(member_id)
    deadline = ("session", group.id, member_id)
    step.table.deadlines.set(deadline, step.now_ms + request.message.session_timeout_ms)
    _refuse(step, request, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _add(step: Step, group: Group, member_id: str, request: Request) -> None:
    """Take a new member in, which starts a rebalance."""
    message: JoinGroupRequest = request.message
    member = Member(_new_row(group, member_id, request), is_new=True, join=request)
    member.reason = message.reason or ""
    member.last_seen_ms = member.joined_at_ms = member.came_at_ms = step.now_ms
    if not group.members:
        group.row = replace(group.row, protocol_type=message.protocol_type)
    if group.initial_delay is not None:
        group.initial_delay.has_newcomers = True
    group.add(member)
    standing.note_newcomer(step, group, member)
    if group.row.leader is None:
        group.row = replace(group.row, leader=member_id)
    step.keep_alive(group, member, step.config.new_member_join_timeout_ms)
    step.event(_joined(step, group, member))
    if member.instance_id is not None and _collect_expansion(step, group):
        return
    rebalance_or_complete(step, group, "member_joined", member.named(member.reason))


def _new_row(group: Group, member_id: str, request: Request) -> MemberRow:
    message: JoinGroupRequest = request.message
    return MemberRow(
        group_id=group.id,
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=request.host,
        protocols=protocols_of(message),
        **terms_of(request),
    )


def _joined(step: Step, group: Group, member: Member) -> MemberJoined:
    row = member.row
    first = row.protocols[0].name
    readable = group.row.protocol_type == CONSUMER
    subscription = member.subscription(first) if readable else None
    return MemberJoined(
        group=group.id,
        member=row.member_id,
        instance=row.instance_id,
        client_id=row.client_id,
        host=row.client_host,
        session_timeout_ms=row.session_timeout_ms,
        rebalance_timeout_ms=row.rebalance_timeout_ms,
        registration_timeout_ms=absence.registration_timeout_ms(step, member),
        protocols=tuple([protocol.name for protocol in row.protocols]),
        topics=subscription.topics if subscription else None,
        reason=member.reason,
    )


def _collect_expansion(step: Step, group: Group) -> bool:
    """Let more static members come before a stable group rebalances, if that is wanted."""
    wait_ms = step.config.static_expansion_timeout_ms
    if not wait_ms or group.state is not GroupState.STABLE:
        return False
    if step.table.deadlines.at(("expansion", group.id, "")) is None:
        step.arm(group, "expansion", wait_ms)
    return True


def expire_expansion(step: Step, group: Group) -> None:
    """Start the one rebalance for all the static members that have come."""
    if group.state is GroupState.STABLE:
        names = ", ".join(m.named(m.reason) for m in group.members.values() if m.is_new)
        prepare(step, group, "static_expansion", names)


# -- with an id --------------------------------------------------------------------------------


def _join_with_id(step: Step, group: Group, request: Request) -> None:
    message: JoinGroupRequest = request.message
    if message.member_id in group.pending_joins:
        if message.group_instance_id is not None:
            # Ids are handed out to dynamic members only.
            _refuse(step, request, ErrorCode.UNKNOWN_MEMBER_ID, message.member_id)
            return
        step.forget_session(group, message.member_id)
        _add(step, group, message.member_id, request)
        return
    error = check_member(step, group, message.member_id, message.group_instance_id, request)
    if error is not None:
        _refuse(step, request, error, message.member_id)
        return
    member = group.members[message.member_id]
    member.last_seen_ms = step.now_ms
    has_lost = member.is_away and group.asked_to_rejoin(member)
    absence.end(step, group, member)
    if _is_settled(group, member, protocols_of(message)) and not has_lost:
        if member.row.has_not_joined:
            step.save(group, replace(member.row, has_not_joined=False))
        if group.state is GroupState.STABLE:
            group.renew(
                step.table.timeline
            )  # it may have begun with its share before, and lost it since
        step.reply(request, replies.join_answer(group, member, request))
        return
    _join_again(step, group, member, request)


def _is_settled(group: Group, member: Member, protocols: tuple[SupportedProtocol, ...]) -> bool:
    """Whether a join says nothing new, so that it is answered with the present generation.

    Such a member may have missed the first answer.  Only a leader in a stable group means more by
    it: it has seen something that changes the assignment.
    """
    if member.is_new or not member.matches(protocols):
        return False
    if group.state is GroupState.STABLE:
        return group.row.leader != member.id
    return group.state is GroupState.COMPLETING


def _join_again(step: Step, group: Group, member: Member, request: Request) -> None:
    message: JoinGroupRequest = request.message
    protocols = protocols_of(message)
    cause, follows = _cause_of_rejoin(group, member, protocols, request)
    member.reason = message.reason or ""
    group.update_protocols(member, protocols, **terms_of(request))
    superseded = group.park_join(member, request, step.now_ms)
    if superseded is not None:
        answer = join_error(superseded.version, ErrorCode.REBALANCE_IN_PROGRESS, member.id)
        step.reply(superseded, answer)
    rebalance_or_complete(step, group, cause, member.named(member.reason), follows)


def _cause_of_rejoin(
    group: Group,
    member: Member,
    protocols: tuple[SupportedProtocol, ...],
    request: Request,
) -> tuple[str, int | None]:
    if group.asked_to_rejoin(member):
        return "revocation_follow_up", group.row.generation
    is_consumer = group.row.protocol_type == CONSUMER
    same = member.wants_the_topics_of(protocols) if is_consumer else member.matches(protocols)
    told = (request.message.reason or "").partition(":")[0]
    if same and told in _CAUSES_TOLD:
        return told, None
    if same and group.row.leader == member.id:
        return "leader_rejoined", None
    return "subscription_changed", None
