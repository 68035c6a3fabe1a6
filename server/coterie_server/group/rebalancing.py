"""The two phases of a rebalance: how one starts, when the first is over, when the second fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.consumer import flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import (
    GroupEmptied,
    MemberGone,
    MemberPhase,
    PhaseJoined,
    RebalanceStarted,
)
from coterie_server.group import replies
from coterie_server.group.group import CONSUMER, InitialDelay, Rebalance
from coterie_server.group.ledger import by_topic
from coterie_server.group.records import Gone, MemberRow
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.turn import Turn

__all__ = [
    "complete_join",
    "drop_member",
    "end_initial_delay",
    "expire_join",
    "expire_sync",
    "prepare",
    "rebalance_or_complete",
    "save_members",
    "try_complete",
]

#: While nobody joins, look again no sooner than this, whatever timeout the members have.
_PATIENCE_MIN_MS = 100

_CAN_PREPARE = (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE)


def rebalance_or_complete(
    turn: Turn, group: Group, cause: str, detail: str, follows: int | None = None
) -> None:
    """Start a rebalance; if one is in its first phase already, see whether that is over now."""
    if group.is_in(*_CAN_PREPARE):
        prepare(turn, group, cause, detail, follows)
    else:
        try_complete(turn, group)


def prepare(turn: Turn, group: Group, cause: str, detail: str, follows: int | None = None) -> None:
    """Start a rebalance: everybody is to join again."""
    from_state = group.state
    if from_state is GroupState.COMPLETING:
        _cancel_syncs(turn, group)
    group.pending_syncs.clear()
    turn.cancel(group, "sync")
    turn.cancel(group, "expansion")
    turn.enter(group, GroupState.PREPARING)
    group.row = replace(group.row, cause=cause)
    awaited = tuple(member.id for member in group.not_joined())
    group.rebalance = Rebalance(cause, detail, turn.now_ms, awaited, follows)
    everybody_is_here = group.all_joined and from_state is not GroupState.EMPTY
    wait_ms = 0 if everybody_is_here else _arm_first_phase(turn, group, from_state)
    turn.event(
        RebalanceStarted(
            group=group.id,
            generation=group.generation,
            from_state=from_state.value,
            cause=cause,
            detail=detail,
            awaited=awaited,
            deadline=turn.date_ms + wait_ms,
            follows=follows,
        )
    )
    if everybody_is_here:
        complete_join(turn, group)


def _arm_first_phase(turn: Turn, group: Group, from_state: GroupState) -> int:
    wait_ms = group.rebalance_timeout_ms
    if from_state is GroupState.EMPTY:
        delay_ms = turn.config.initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(wait_ms - delay_ms, 0))
        wait_ms = delay_ms
    turn.arm(group, "join", wait_ms)
    return wait_ms


def _cancel_syncs(turn: Turn, group: Group) -> None:
    """Send everybody back to joining; what the leader was working out is void."""
    for member in group.members.values():
        member.change(is_void=True)
        if member.sync is not None:
            turn.reply(member.sync.ticket, replies.sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            turn.keep_alive(group, member)


def end_initial_delay(turn: Turn, group: Group, delay: InitialDelay) -> None:
    """Wait once more if somebody came, or end the first phase."""
    if delay.somebody_came and delay.remaining_ms:
        step_ms = min(turn.config.initial_rebalance_delay_ms, delay.remaining_ms)
        group.initial_delay = InitialDelay(step_ms, max(delay.remaining_ms - delay.step_ms, 0))
        turn.arm(group, "join", step_ms)
    else:
        complete_join(turn, group)


def try_complete(turn: Turn, group: Group) -> None:
    """End the first phase if nobody is waited for."""
    is_waiting = group.is_in(GroupState.PREPARING) and group.initial_delay is None
    if is_waiting and group.all_joined:
        complete_join(turn, group)


def expire_join(turn: Turn, group: Group) -> None:
    """The time of the first phase is up."""
    if not group.is_in(GroupState.PREPARING):
        return
    if group.initial_delay is not None:
        end_initial_delay(turn, group, group.initial_delay)
    else:
        complete_join(turn, group)


def complete_join(turn: Turn, group: Group) -> None:
    """End the first phase: a new generation of those who joined.

    Static members keep their places though they did not join.  If nobody at all joined, the
    phase goes on: there is no one who could lead.
    """
    turn.cancel(group, "join")
    group.initial_delay = None
    rebalance = group.rebalance or Rebalance(group.row.cause, "", turn.now_ms)
    for member in group.not_joined():
        if not member.is_static:
            rebalance.dropped.append(member.id)
            drop_member(turn, group, member, "rebalance_expired")
    if group.members and not group.elect():
        turn.arm(group, "join", max(group.rebalance_timeout_ms, _PATIENCE_MIN_MS))
        return
    group.begin_generation()
    if group.members:
        _start_generation(turn, group, rebalance)
    else:
        _become_empty(turn, group)


def _become_empty(turn: Turn, group: Group) -> None:
    group.row = replace(group.row, protocol_name=None, leader=None)
    group.note_topics()
    group.rebalance = None
    group.ledger.clear()
    turn.enter(group, GroupState.EMPTY)
    turn.event(GroupEmptied(group=group.id, generation=group.generation))


def _start_generation(turn: Turn, group: Group, rebalance: Rebalance) -> None:
    group.row = replace(group.row, protocol_name=group.select_protocol())
    group.note_topics()
    turn.enter(group, GroupState.COMPLETING)
    rebalance.joined_at_ms = turn.now_ms
    turn.event(_phase_joined(turn, group, rebalance))
    group.pending_syncs.clear()
    for member in group.members.values():
        _answer_join(turn, group, member)
    save_members(turn, group)
    turn.arm(group, "sync", group.rebalance_timeout_ms)


def _answer_join(turn: Turn, group: Group, member: Member) -> None:
    member.is_new = False
    if member.row.is_away != (member.join is None):
        member.change(is_away=member.join is None)
    parked = group.park_join(member, None)
    if parked is not None:
        turn.reply(parked.ticket, replies.join_answer(group, member, parked.version))
        turn.keep_alive(group, member)
        group.pending_syncs.add(member.id)


def save_members(turn: Turn, group: Group) -> None:
    """Store the members whose rows have changed since they were stored."""
    for member in group.members.values():
        if member.row != member.saved:
            turn.save(group, member.row)


def drop_member(turn: Turn, group: Group, member: Member, how: str, reason: str = "") -> None:
    """Take a member out of the group; its parked requests are answered, its row is deleted."""
    owned = group.ledger.forget(member.id)
    turn.event(
        MemberGone(
            group=group.id,
            member=member.id,
            instance=member.instance_id,
            host=member.row.client_host,
            how=how,
            silent_ms=turn.now_ms - member.last_seen_ms,
            session_timeout_ms=member.row.session_timeout_ms,
            reason=reason,
            owned=by_topic(owned),
        )
    )
    parked = group.park_join(member, None)
    if parked is not None:
        answer = replies.join_error(parked.version, ErrorCode.UNKNOWN_MEMBER_ID)
        turn.reply(parked.ticket, answer)
    if member.sync is not None:
        turn.reply(member.sync.ticket, replies.sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.id)
    turn.forget_session(group, member.id)
    if member.saved is not None:
        turn.record(Gone(MemberRow, group.id, member.id))


def expire_sync(turn: Turn, group: Group) -> None:
    """The time of the second phase is up: members that joined did not ask what they are given.

    Dynamic ones are dropped.  Static ones are not, for only their session ends them; but if one
    of them leads, everybody waits for it, so another is to lead the next generation.
    """
    if not group.pending_syncs or group.is_in(GroupState.EMPTY, GroupState.PREPARING):
        return
    late = [group.members[member_id] for member_id in sorted(group.pending_syncs)]
    group.pending_syncs.clear()
    for member in late:
        if not member.is_static:
            drop_member(turn, group, member, "sync_expired")
        else:
            group.move_last(member)
    names = ", ".join(member.id for member in late)
    if group.is_in(GroupState.COMPLETING) or any(not member.is_static for member in late):
        prepare(turn, group, "sync_expired", f"{names} did not sync")


def _phase_joined(turn: Turn, group: Group, rebalance: Rebalance) -> PhaseJoined:
    members = tuple(_member_phase(group, member, rebalance) for member in group.members.values())
    last = max(
        (m for m in members if m.joined_after_ms is not None),
        key=lambda m: m.joined_after_ms or 0,
        default=None,
    )
    return PhaseJoined(
        group=group.id,
        generation=group.generation,
        protocol_type=group.row.protocol_type or "",
        protocol=group.row.protocol_name or "",
        leader=group.leader or "",
        members=members,
        dropped=tuple(rebalance.dropped),
        last=last.member if last else None,
        cause=rebalance.cause,
        took_ms=turn.now_ms - rebalance.started_at_ms,
    )


def _member_phase(group: Group, member: Member, rebalance: Rebalance) -> MemberPhase:
    readable = group.row.protocol_type == CONSUMER
    subscription = member.subscription(group.row.protocol_name) if readable else None
    joined_after_ms = None
    if member.join is not None:
        joined_after_ms = max(member.join.since_ms - rebalance.started_at_ms, 0)
    return MemberPhase(
        member=member.id,
        instance=member.instance_id,
        host=member.row.client_host,
        joined_after_ms=joined_after_ms,
        topics=subscription.topics if subscription else None,
        owned=by_topic(flatten(subscription.owned_partitions)) if subscription else None,
    )
