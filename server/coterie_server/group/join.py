"""JoinGroup: how members come into a group, join again, and come back under a known name.

Top down: `join` checks the request and finds the group; a member without an id is told one, taken
in, or given a known static member's place; a member with an id is told the present generation, or
joins again, which starts a rebalance.  A join that takes part in a rebalance is parked at its
member until `rebalance` ends the first phase.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined, MemberReplaced
from coterie_server.error_answers import join_error, sync_error
from coterie_server.group import replies
from coterie_server.group.group import CONSUMER, Group
from coterie_server.group.member import Member
from coterie_server.group.rebalance import (
    drop_member,
    prepare,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.records import Gone, MemberRow, SupportedProtocol
from coterie_server.group.states import GroupState
from coterie_server.group.step import SHOWN_MAX, check_member

if TYPE_CHECKING:
    from coterie_protocol.messages import JoinGroupRequest
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["expire_expansion", "join"]

#: From this version on a dynamic member is told its id first and joins with it (KIP-394).
_ID_REQUIRED_FROM = 4
#: From this version on a static leader that comes back can be told to leave things as they are.
_SKIP_ASSIGNMENT_FROM = 9
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
    return None


def _refuse(step: Step, request: Request, error: ErrorCode, member_id: str = "") -> None:
    step.reply(request, join_error(request.version, error, member_id))


def _has_room(step: Step, group: Group, message: JoinGroupRequest) -> bool:
    """Whether `group.max.size` leaves room for this member.

    In the first phase those that have joined count, so that the last to come stay outside if the
    limit was lowered.  A static member that comes back takes no new place.
    """
    if group.state is GroupState.EMPTY:
        return True
    member_id = message.member_id or group.static.get(message.group_instance_id or "", "")
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING:
        if member is not None and (member.join is not None or not message.member_id):
            return True
        return group.parked_joins < step.max_size(group)
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
        _replace_static(step, group, member_id, request)
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
    member.last_seen_ms = member.joined_at_ms = step.now_ms
    if not group.members:
        group.row = replace(group.row, protocol_type=message.protocol_type)
    if group.initial_delay is not None:
        group.initial_delay.has_newcomers = True
    group.add(member)
    if group.row.leader is None:
        group.row = replace(group.row, leader=member_id)
    step.keep_alive(group, member, step.config.new_member_join_timeout_ms)
    step.event(_joined(group, member))
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
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        protocols=_protocols(message),
    )


def _rebalance_timeout_ms(request: Request) -> int:
    """Version 0 has none; a timeout of zero there would let no rebalance ever succeed."""
    message: JoinGroupRequest = request.message
    return message.rebalance_timeout_ms if request.version else message.session_timeout_ms


def _protocols(message: JoinGroupRequest) -> tuple[SupportedProtocol, ...]:
    """A member's protocols; one that it names twice counts once."""
    names: dict[str, bytes] = {}
    for protocol in message.protocols:
        names.setdefault(protocol.name, protocol.metadata)
    return tuple(SupportedProtocol(name=n, metadata=bytes(m)) for n, m in names.items())


def _joined(group: Group, member: Member) -> MemberJoined:
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
        protocols=tuple(protocol.name for protocol in row.protocols),
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
    if _is_settled(group, member, _protocols(message)):
        if member.row.is_away:
            step.save(group, replace(member.row, is_away=False))
        if group.state is GroupState.STABLE:
            group.renew(
                step.table.timeline
            )  # it may have begun with its share before, and lost it since
        step.reply(request, replies.join_answer(group, member, request.version))
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
    protocols = _protocols(message)
    cause, follows = _cause_of_rejoin(group, member, protocols)
    member.reason = message.reason or ""
    group.update_protocols(
        member,
        protocols,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
    )
    superseded = group.park_join(member, request, step.now_ms)
    if superseded is not None:
        answer = join_error(superseded.version, ErrorCode.REBALANCE_IN_PROGRESS, member.id)
        step.reply(superseded, answer)
    rebalance_or_complete(step, group, cause, member.named(member.reason), follows)


def _cause_of_rejoin(
    group: Group, member: Member, protocols: tuple[SupportedProtocol, ...]
) -> tuple[str, int | None]:
    if group.asked_to_rejoin(member):
        return "revocation_follow_up", group.row.generation
    is_consumer = group.row.protocol_type == CONSUMER
    same = member.wants_the_topics_of(protocols) if is_consumer else member.matches(protocols)
    if same and group.row.leader == member.id:
        return "leader_rejoined", None
    return "subscription_changed", None


# -- a static member comes back ----------------------------------------------------------------


def _replace_static(step: Step, group: Group, member_id: str, request: Request) -> None:
    """Give a known instance its place back under a new member id, and fence its former process."""
    message: JoinGroupRequest = request.message
    former_leader = group.row.leader or ""
    old = group.members[group.static[message.group_instance_id or ""]]
    protocols, former = _protocols(message), old.row.protocols
    new = _hand_over(step, group, old, member_id, request)
    group.update_protocols(
        new,
        protocols,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
    )
    detail = f"{new.named(new.reason)} replaces {old.id}"
    if group.state is GroupState.STABLE and not new.is_new:
        is_same_protocol = group.select_protocol() == group.row.protocol_name
        is_consumer = group.row.protocol_type == CONSUMER
        wants_others = is_consumer and new.wants_other_topics(former, group.row.protocol_name)
        if is_same_protocol and not wants_others:
            _answer_in_place(step, group, new, former_leader, request)
            return
        group.park_join(new, request, step.now_ms)
        if is_same_protocol:
            prepare(step, group, "subscription_changed", f"{detail} and wants other topics")
        else:
            prepare(step, group, "static_replaced", f"{detail} with other protocols")
        return
    group.park_join(new, request, step.now_ms)
    if group.state is GroupState.COMPLETING:
        # The leader has the old id in its list, so the new one would be given nothing.
        prepare(step, group, "static_replaced", detail)
    else:
        try_complete(step, group)


def _hand_over(step: Step, group: Group, old: Member, member_id: str, request: Request) -> Member:
    if old.join is not None:
        error = ErrorCode.FENCED_INSTANCE_ID
        step.reply(old.join, join_error(old.join.version, error, old.id))
    if old.sync is not None:
        step.reply(old.sync, sync_error(ErrorCode.FENCED_INSTANCE_ID))
    was_pending = old.id in group.pending_syncs
    new = group.replace_static(old, member_id)
    new.is_new = old.is_new
    new.reason = request.message.reason or ""
    new.last_seen_ms = step.now_ms
    new.change(client_id=request.client_id, client_host=request.host)
    if was_pending:
        group.pending_syncs.add(member_id)
    group.ledger.rename(old.id, member_id)
    step.forget_session(group, old.id)
    step.keep_alive(group, new, step.config.new_member_join_timeout_ms if new.is_new else None)
    if old.saved is not None:
        step.record(Gone(MemberRow, group.id, old.id))
        # What it says of itself is stored when the next generation begins, as every member's is.
        new.saved = replace(
            old.saved, member_id=member_id, client_id=request.client_id, client_host=request.host
        )
        step.record(new.saved)
    step.event(
        MemberReplaced(
            group=group.id,
            instance=old.instance_id or "",
            member=member_id,
            host=request.host,
            former_member=old.id,
            former_host=old.row.client_host,
            silent_ms=step.now_ms - old.last_seen_ms,
        )
    )
    return new


def _answer_in_place(
    step: Step, group: Group, member: Member, former_leader: str, request: Request
) -> None:
    """Let a static member go on where it left off, without a rebalance.

    A leader that is too old to be told to skip the assignment must not learn that it leads: it
    would compute one, and the group is not waiting for any.
    """
    if member.row != member.saved:
        step.save(group, member.row)
        group.note_topics()
    group.renew(step.table.timeline)
    step.keep_alive(group, member)
    leads = group.row.leader == member.id
    if request.version >= _SKIP_ASSIGNMENT_FROM:
        answer = replies.join_answer(group, member, request.version, skip_assignment=leads)
    else:
        answer = replies.join_answer(
            group, member, request.version, leader=former_leader, as_leader=False
        )
    step.reply(request, answer)
