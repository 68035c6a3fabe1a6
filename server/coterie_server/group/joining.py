"""JoinGroup: how members come into a group, come again, and come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined, MemberReplaced
from coterie_server.group import replies
from coterie_server.group.checks import check_member
from coterie_server.group.group import CONSUMER, Group
from coterie_server.group.member import Member
from coterie_server.group.rebalancing import (
    drop_member,
    prepare,
    rebalance_or_complete,
    try_complete,
)
from coterie_server.group.records import Gone, MemberRow, SupportedProtocol
from coterie_server.group.states import GroupState
from coterie_server.group.turn import shown

if TYPE_CHECKING:
    from coterie_protocol.messages import JoinGroupRequest
    from coterie_server.group.member import Ticket
    from coterie_server.group.turn import Call, Turn

__all__ = ["expire_expansion", "join"]

#: From this version on a dynamic member is told its id first and joins with it (KIP-394).
_ID_REQUIRED_FROM = 4
#: From this version on a static leader that comes back can be told to leave things as they are.
_SKIP_ASSIGNMENT_FROM = 9
#: The longest string that an answer or a row can hold, in bytes.
_ID_MAX = 2**15 - 1


def join(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Answer or park a JoinGroup."""
    message: JoinGroupRequest = call.message
    error = _check_request(turn, message)
    if error is not None:
        _refuse(turn, ticket, call, error, message.member_id)
        return
    group = turn.group(message.group_id)
    if group is None:
        if message.member_id:
            _refuse(turn, ticket, call, ErrorCode.UNKNOWN_MEMBER_ID, message.member_id)
            return
        group = turn.create(message.group_id)
        if group is None:
            # None that asks for patience: clients would try again forever and never say why.
            _refuse(turn, ticket, call, ErrorCode.POLICY_VIOLATION)
            return
    if not _has_room(turn, group, message):
        _turn_away(turn, group, ticket, call)
    elif not group.supports(message.protocol_type, [p.name for p in message.protocols]):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        _refuse(turn, ticket, call, error, message.member_id)
    elif message.member_id:
        _join_with_id(turn, group, ticket, call)
    else:
        _join_without_id(turn, group, ticket, call)


def _check_request(turn: Turn, message: JoinGroupRequest) -> ErrorCode | None:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    config = turn.config
    shortest, longest = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not shortest <= message.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _refuse(turn: Turn, ticket: Ticket, call: Call, error: ErrorCode, member_id: str = "") -> None:
    turn.reply(ticket, replies.join_error(call.version, error, member_id))


def _has_room(turn: Turn, group: Group, message: JoinGroupRequest) -> bool:
    """Whether `group.max.size` leaves room for this member.

    In the first phase those who have joined count, so that the last to come stay outside if the
    limit was lowered.  A static member that comes back takes no new place.
    """
    if group.is_in(GroupState.EMPTY):
        return True
    member_id = message.member_id or group.static.get(message.group_instance_id or "", "")
    member = group.members.get(member_id)
    if group.is_in(GroupState.PREPARING):
        if member is not None and (member.join is not None or not message.member_id):
            return True
        return group.parked_joins < turn.config.max_size
    return member is not None or len(group.members) < turn.config.max_size


def _turn_away(turn: Turn, group: Group, ticket: Ticket, call: Call) -> None:
    member_id = call.message.member_id
    group.pending_joins.discard(member_id)
    turn.forget_session(group, member_id)
    member = group.members.get(member_id)
    if member is not None:
        drop_member(turn, group, member, "turned_away")
    _refuse(turn, ticket, call, ErrorCode.GROUP_MAX_SIZE_REACHED)
    try_complete(turn, group)


# -- without an id -----------------------------------------------------------------------------


def _join_without_id(turn: Turn, group: Group, ticket: Ticket, call: Call) -> None:
    message: JoinGroupRequest = call.message
    instance_id = message.group_instance_id
    member_id = turn.shard.ids.member_id(group.id, call.client_id, call.host, instance_id)
    if len(member_id.encode()) > _ID_MAX:  # made of a name that just fits
        _refuse(turn, ticket, call, ErrorCode.INVALID_REQUEST)
    elif instance_id is not None and instance_id in group.static:
        _replace_static(turn, group, member_id, ticket, call)
    elif instance_id is None and call.version >= _ID_REQUIRED_FROM:
        _hand_out_id(turn, group, member_id, ticket, call)
    else:
        _add(turn, group, member_id, ticket, call)


def _hand_out_id(turn: Turn, group: Group, member_id: str, ticket: Ticket, call: Call) -> None:
    if len(group.pending_joins) >= turn.config.max_pending_members:
        limit = turn.config.max_pending_members
        turn.note_hit("max.pending.members.per.group", limit, f"an id in {shown(group.id)}")
        _refuse(turn, ticket, call, ErrorCode.GROUP_MAX_SIZE_REACHED)
        return
    group.pending_joins.add(member_id)
    deadline = ("session", group.id, member_id)
    turn.shard.deadlines.set(deadline, turn.now_ms + call.message.session_timeout_ms)
    _refuse(turn, ticket, call, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _add(turn: Turn, group: Group, member_id: str, ticket: Ticket, call: Call) -> None:
    """Take a new member in, which starts a rebalance."""
    message: JoinGroupRequest = call.message
    member = Member(_new_row(group, member_id, call), is_new=True)
    member.reason = message.reason or ""
    member.last_seen_ms = turn.now_ms
    member.join = turn.park(call, ticket)
    if not group.members:
        group.row = replace(group.row, protocol_type=message.protocol_type)
    if group.initial_delay is not None:
        group.initial_delay.somebody_came = True
    group.add(member)
    if group.leader is None:
        group.row = replace(group.row, leader=member_id)
    turn.keep_alive(group, member, turn.config.new_member_join_timeout_ms)
    turn.event(_joined(group, member))
    if member.is_static and _collect_expansion(turn, group):
        return
    rebalance_or_complete(turn, group, "member_joined", _who(member))


def _new_row(group: Group, member_id: str, call: Call) -> MemberRow:
    message: JoinGroupRequest = call.message
    return MemberRow(
        group_id=group.id,
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=call.client_id,
        client_host=call.host,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(call),
        protocols=_protocols(message),
    )


def _rebalance_timeout_ms(call: Call) -> int:
    """Version 0 has none; a timeout of zero there would let no rebalance ever succeed."""
    message: JoinGroupRequest = call.message
    return message.rebalance_timeout_ms if call.version else message.session_timeout_ms


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


def _who(member: Member) -> str:
    who = f"{member.id} ({member.instance_id})" if member.is_static else member.id
    return f"{who}: {member.reason}" if member.reason else who


def _collect_expansion(turn: Turn, group: Group) -> bool:
    """Let more static members come before a stable group rebalances, if that is wanted."""
    wait_ms = turn.config.static_expansion_timeout_ms
    if not wait_ms or not group.is_in(GroupState.STABLE):
        return False
    if turn.shard.deadlines.at(("expansion", group.id, "")) is None:
        turn.arm(group, "expansion", wait_ms)
    return True


def expire_expansion(turn: Turn, group: Group) -> None:
    """Start the one rebalance for all the static members that have come."""
    if group.is_in(GroupState.STABLE):
        names = ", ".join(_who(m) for m in group.members.values() if m.is_new)
        prepare(turn, group, "static_expansion", names)


# -- with an id --------------------------------------------------------------------------------


def _join_with_id(turn: Turn, group: Group, ticket: Ticket, call: Call) -> None:
    message: JoinGroupRequest = call.message
    if message.member_id in group.pending_joins:
        if message.group_instance_id is not None:
            # Ids are handed out to dynamic members only.
            _refuse(turn, ticket, call, ErrorCode.UNKNOWN_MEMBER_ID, message.member_id)
            return
        turn.forget_session(group, message.member_id)
        _add(turn, group, message.member_id, ticket, call)
        return
    error = check_member(turn, group, message.member_id, message.group_instance_id, call)
    if error is not None:
        _refuse(turn, ticket, call, error, message.member_id)
        return
    member = group.members[message.member_id]
    member.last_seen_ms = turn.now_ms
    if _is_settled(group, member, _protocols(message)):
        if member.row.is_away:
            turn.save(group, replace(member.row, is_away=False))
        if group.is_in(GroupState.STABLE):
            group.renew()  # It may have begun with its share before, and lost it since.
        turn.reply(ticket, replies.join_answer(group, member, call.version))
        return
    _join_again(turn, group, member, ticket, call)


def _is_settled(group: Group, member: Member, protocols: tuple[SupportedProtocol, ...]) -> bool:
    """Whether a join says nothing new, so that the present generation is the answer to it.

    Such a member may not have received the first answer.  Only a leader in a stable group means
    more by it: it has seen something that changes the assignment.
    """
    if member.is_new or not member.matches(protocols):
        return False
    if group.is_in(GroupState.STABLE):
        return not group.is_leader(member.id)
    return group.is_in(GroupState.COMPLETING)


def _join_again(turn: Turn, group: Group, member: Member, ticket: Ticket, call: Call) -> None:
    message: JoinGroupRequest = call.message
    protocols = _protocols(message)
    cause, follows = _cause_of_rejoin(group, member, protocols)
    member.reason = message.reason or ""
    group.update_protocols(
        member,
        protocols,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(call),
    )
    superseded = group.park_join(member, turn.park(call, ticket))
    if superseded is not None:
        answer = replies.join_error(superseded.version, ErrorCode.REBALANCE_IN_PROGRESS, member.id)
        turn.reply(superseded.ticket, answer)
    rebalance_or_complete(turn, group, cause, _who(member), follows)


def _cause_of_rejoin(
    group: Group, member: Member, protocols: tuple[SupportedProtocol, ...]
) -> tuple[str, int | None]:
    if group.asked_to_rejoin(member):
        return "revocation_follow_up", group.generation
    is_consumer = group.row.protocol_type == CONSUMER
    same = member.wants_the_topics_of(protocols) if is_consumer else member.matches(protocols)
    if same and group.is_leader(member.id):
        return "leader_rejoined", None
    return "subscription_changed", None


# -- a static member comes back ----------------------------------------------------------------


def _replace_static(turn: Turn, group: Group, member_id: str, ticket: Ticket, call: Call) -> None:
    """Give a known instance its place back under a new member id; fence whoever had it."""
    message: JoinGroupRequest = call.message
    former_leader = group.leader or ""
    old = group.members[group.static[message.group_instance_id or ""]]
    protocols, former = _protocols(message), old.row.protocols
    new = _hand_over(turn, group, old, member_id, call)
    group.update_protocols(
        new,
        protocols,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(call),
    )
    detail = f"{_who(new)} replaces {old.id}"
    if group.is_in(GroupState.STABLE) and not new.is_new:
        is_same_protocol = group.select_protocol() == group.row.protocol_name
        is_consumer = group.row.protocol_type == CONSUMER
        wants_others = is_consumer and new.wants_other_topics(former, group.row.protocol_name)
        if is_same_protocol and not wants_others:
            _answer_in_place(turn, group, new, former_leader, ticket, call)
            return
        group.park_join(new, turn.park(call, ticket))
        if is_same_protocol:
            prepare(turn, group, "subscription_changed", f"{detail} and wants other topics")
        else:
            prepare(turn, group, "static_replaced", f"{detail} with other protocols")
        return
    group.park_join(new, turn.park(call, ticket))
    if group.is_in(GroupState.COMPLETING):
        # The leader has the old id in its list, so the new one would be given nothing.
        prepare(turn, group, "static_replaced", detail)
    else:
        try_complete(turn, group)


def _hand_over(turn: Turn, group: Group, old: Member, member_id: str, call: Call) -> Member:
    if old.join is not None:
        error = ErrorCode.FENCED_INSTANCE_ID
        turn.reply(old.join.ticket, replies.join_error(old.join.version, error, old.id))
    if old.sync is not None:
        turn.reply(old.sync.ticket, replies.sync_error(ErrorCode.FENCED_INSTANCE_ID))
    was_pending = old.id in group.pending_syncs
    new = group.replace_static(old, member_id)
    new.is_new = old.is_new
    new.reason = call.message.reason or ""
    new.last_seen_ms = turn.now_ms
    new.change(client_id=call.client_id, client_host=call.host)
    if was_pending:
        group.pending_syncs.add(member_id)
    group.ledger.rename(old.id, member_id)
    turn.forget_session(group, old.id)
    turn.keep_alive(group, new, turn.config.new_member_join_timeout_ms if new.is_new else None)
    if old.saved is not None:
        turn.record(Gone(MemberRow, group.id, old.id))
        # What it says of itself is stored when the generation begins, as everybody's is.
        new.saved = replace(
            old.saved, member_id=member_id, client_id=call.client_id, client_host=call.host
        )
        turn.record(new.saved)
    turn.event(
        MemberReplaced(
            group=group.id,
            instance=old.instance_id or "",
            member=member_id,
            host=call.host,
            former_member=old.id,
            former_host=old.row.client_host,
            silent_ms=turn.now_ms - old.last_seen_ms,
        )
    )
    return new


def _answer_in_place(
    turn: Turn, group: Group, member: Member, former_leader: str, ticket: Ticket, call: Call
) -> None:
    """Let a static member go on where it left off, without a rebalance.

    A leader that is too old to be told to skip the assignment must not learn that it leads: it
    would hand out one that nobody asked for.
    """
    if member.row != member.saved:
        turn.save(group, member.row)
        group.note_topics()
    group.renew()
    turn.keep_alive(group, member)
    leads = group.is_leader(member.id)
    if call.version >= _SKIP_ASSIGNMENT_FROM:
        answer = replies.join_answer(group, member, call.version, skip_assignment=leads)
    else:
        answer = replies.join_answer(
            group, member, call.version, leader=former_leader, as_leader=False
        )
    turn.reply(ticket, answer)
