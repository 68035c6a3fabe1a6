"""The two phases of a rebalance, and how members go.

In the first phase (`PREPARING`) all members join again: `prepare` starts it, `try_complete` and
`expire_join` end it, with a new generation of those that have joined.  In the second phase
(`COMPLETING`) they ask for their assignments, until the leader's SyncGroup brings them (see
`sync`); `expire_sync` ends it if members that joined do not ask.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from coterie_protocol.consumer import flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import (
    GroupEmptied,
    IdUnclaimed,
    MemberGone,
    MemberPhase,
    PhaseJoined,
    RebalanceStarted,
)
from coterie_server.error_answers import join_error, sync_error
from coterie_server.group import replies, standing
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import by_topic
from coterie_server.group.phases import InitialDelay, OngoingRebalance
from coterie_server.group.records import Gone, MemberRow
from coterie_server.group.states import GroupState
from coterie_server.group.warmth import Allowance, lags_of

if TYPE_CHECKING:
    from coterie_protocol.consumer import Subscription
    from coterie_protocol.journal import Partitions
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step

__all__ = [
    "drop_member",
    "drop_pending_id",
    "expire_join",
    "expire_sync",
    "prepare",
    "rebalance_or_complete",
    "save_members",
    "try_complete",
]

#: While no member joins, look again no sooner than this, whatever timeout the members have.
_EXTENSION_MIN_MS = 100


def rebalance_or_complete(
    step: Step, group: Group, cause: str, detail: str, follows: int | None = None
) -> None:
    """Start a rebalance; if one is in its first phase already, see whether that is over now."""
    if group.state is GroupState.PREPARING:
        try_complete(step, group)
    else:
        prepare(step, group, cause, detail, follows)


# -- the first phase ---------------------------------------------------------------------------


def prepare(step: Step, group: Group, cause: str, detail: str, follows: int | None = None) -> None:
    """Start a rebalance: all members are to join again.

    `follows` is the generation whose assignment asked for this rebalance, if one did.
    """
    from_state = group.state
    if from_state is GroupState.COMPLETING:
        _cancel_syncs(step, group)
    group.pending_syncs.clear()
    step.cancel(group, "sync")
    step.cancel(group, "expansion")
    group.enter(GroupState.PREPARING, step.date_ms)
    group.row = replace(group.row, cause=cause)
    awaited = tuple(member.id for member in group.not_joined())
    group.rebalance = OngoingRebalance(cause, step.now_ms)
    is_complete = group.all_joined and from_state is not GroupState.EMPTY
    wait_ms = 0 if is_complete else _arm_first_phase(step, group, from_state)
    step.event(
        RebalanceStarted(
            group=group.id,
            generation=group.row.generation,
            from_state=from_state.value,
            cause=cause,
            detail=detail,
            awaited=awaited,
            deadline=step.date_ms + wait_ms,
            follows=follows,
        )
    )
    if is_complete:
        _complete_join(step, group)


def _arm_first_phase(step: Step, group: Group, from_state: GroupState) -> int:
    wait_ms = group.rebalance_timeout_ms
    if from_state is GroupState.EMPTY:
        delay_ms = step.config.initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(wait_ms - delay_ms, 0))
        wait_ms = delay_ms
    step.arm(group, "join", wait_ms)
    return wait_ms


def _cancel_syncs(step: Step, group: Group) -> None:
    """Send all members back to joining; what the leader was working out is void."""
    for member in group.members.values():
        member.change(is_void=True)
        if member.sync is not None:
            step.reply(member.sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            step.keep_alive(group, member)


def try_complete(step: Step, group: Group) -> None:
    """End the first phase if it waits for no member any more."""
    is_waiting = group.state is GroupState.PREPARING and group.initial_delay is None
    if is_waiting and group.all_joined:
        _complete_join(step, group)


def expire_join(step: Step, group: Group) -> None:
    """The time of the first phase is up."""
    if group.state is not GroupState.PREPARING:
        return
    delay = group.initial_delay
    if delay is not None and delay.has_newcomers and delay.remaining_ms:
        next_ms = min(step.config.initial_rebalance_delay_ms, delay.remaining_ms)
        group.initial_delay = InitialDelay(next_ms, max(delay.remaining_ms - delay.step_ms, 0))
        step.arm(group, "join", next_ms)
    else:
        _complete_join(step, group)


def _complete_join(step: Step, group: Group) -> None:
    """End the first phase: those that joined are a new generation.

    Static members keep their places though they did not join.  If no member joined at all, the
    phase goes on: there is none that could lead.
    """
    step.cancel(group, "join")
    group.initial_delay = None
    rebalance = group.rebalance or OngoingRebalance(group.row.cause, step.now_ms)
    for member in group.not_joined():
        if member.instance_id is None:
            rebalance.dropped.append(member.id)
            drop_member(step, group, member, "rebalance_expired")
    if group.members and not group.elect():
        step.arm(group, "join", max(group.rebalance_timeout_ms, _EXTENSION_MIN_MS))
        return
    group.begin_generation(step.table.timeline)
    if group.members:
        _start_generation(step, group, rebalance)
    else:
        _become_empty(step, group)


def _become_empty(step: Step, group: Group) -> None:
    group.row = replace(group.row, protocol_name=None, leader=None, topics=None)
    group.note_topics()
    group.rebalance = None
    group.ledger.clear()
    group.enter(GroupState.EMPTY, step.date_ms)
    step.event(GroupEmptied(group=group.id, generation=group.row.generation))


def _start_generation(step: Step, group: Group, rebalance: OngoingRebalance) -> None:
    group.row = replace(group.row, protocol_name=group.select_protocol())
    group.note_topics()
    group.note_sizes(step.table.topics)
    group.enter(GroupState.COMPLETING, step.date_ms)
    rebalance.joined_at_ms = step.now_ms
    step.event(_phase_joined(step, group, rebalance))
    group.pending_syncs.clear()
    # The leader first, as all others wait for what it works out.
    for member in sorted(group.members.values(), key=lambda each: each.id != group.row.leader):
        _answer_join(step, group, member)
    save_members(step, group)
    step.arm(group, "sync", group.rebalance_timeout_ms)


def _answer_join(step: Step, group: Group, member: Member) -> None:
    member.is_new = False
    if member.row.has_not_joined != (member.join is None):
        member.change(has_not_joined=member.join is None)
    join = group.park_join(member, None)
    if join is not None:
        step.reply(join, replies.join_answer(group, member, join))
        step.keep_alive(group, member)
        group.pending_syncs.add(member.id)


def save_members(step: Step, group: Group) -> None:
    """Store the members whose rows have changed since they were stored."""
    for member in group.members.values():
        row, saved = member.row, member.saved
        if row is not saved and (saved is None or row != saved):
            step.save(group, row)


def _phase_joined(step: Step, group: Group, rebalance: OngoingRebalance) -> PhaseJoined:
    allowance = Allowance()
    members = tuple(
        [_member_phase(group, member, rebalance, allowance) for member in group.members.values()]
    )
    joined = [each for each in members if each.joined_after_ms is not None]
    last = max(joined, key=attrgetter("joined_after_ms"), default=None)
    return PhaseJoined(
        group=group.id,
        generation=group.row.generation,
        protocol_type=group.row.protocol_type or "",
        protocol=group.row.protocol_name or "",
        leader=group.row.leader or "",
        members=members,
        dropped=tuple(rebalance.dropped),
        last=last.member if last else None,
        cause=rebalance.cause,
        took_ms=step.now_ms - rebalance.started_at_ms,
    )


def _member_phase(
    group: Group, member: Member, rebalance: OngoingRebalance, allowance: Allowance
) -> MemberPhase:
    readable = group.row.protocol_type == CONSUMER
    subscription = member.subscription(group.row.protocol_name) if readable else None
    joined_after_ms = None
    if member.join is not None:
        joined_after_ms = max(member.joined_at_ms - rebalance.started_at_ms, 0)
    return MemberPhase(
        member=member.id,
        instance=member.instance_id,
        host=member.row.client_host,
        joined_after_ms=joined_after_ms,
        topics=subscription.topics if subscription is not None else None,
        owned=_owned(subscription) if subscription is not None else None,
        lags=(
            lags_of(member, group.row.protocol_name, allowance)
            if subscription is not None and subscription.user_data is not None
            else None
        ),
    )


def _owned(subscription: Subscription) -> Partitions:
    """What a member says that it owns: nothing with an eager assignor."""
    owned = subscription.owned_partitions
    return by_topic(flatten(owned)) if owned else {}


# -- the second phase --------------------------------------------------------------------------


def expire_sync(step: Step, group: Group) -> None:
    """The time of the second phase is up: some members joined and did not ask for their share.

    Dynamic ones are dropped.  Static ones are not, for only their session ends them; but if one
    of them leads, all others wait for it, so another one is to lead the next generation.
    """
    if not group.pending_syncs or group.state in (GroupState.EMPTY, GroupState.PREPARING):
        return
    late = [group.members[member_id] for member_id in sorted(group.pending_syncs)]
    group.pending_syncs.clear()
    for member in late:
        if member.instance_id is None:
            drop_member(step, group, member, "sync_expired")
        else:
            group.move_last(member)
    names = ", ".join(member.id for member in late)
    if group.state is GroupState.COMPLETING or any(member.instance_id is None for member in late):
        prepare(step, group, "sync_expired", f"{names} did not sync")


# -- members go --------------------------------------------------------------------------------


def drop_member(step: Step, group: Group, member: Member, how: str, reason: str = "") -> None:
    """Take a member out of the group; its parked requests are answered, its row is deleted."""
    owned = group.ledger.forget(member.id)
    step.event(
        MemberGone(
            group=group.id,
            member=member.id,
            instance=member.instance_id,
            host=member.row.client_host,
            how=how,
            silent_ms=step.now_ms - member.last_seen_ms,
            session_timeout_ms=member.row.session_timeout_ms,
            reason=reason,
            away_ms=max(step.date_ms - member.row.away_since_ms, 0) if member.is_away else 0,
            owned=by_topic(owned),
        )
    )
    join = group.park_join(member, None)
    if join is not None:
        step.reply(join, join_error(join.version, ErrorCode.UNKNOWN_MEMBER_ID))
    if member.sync is not None:
        step.reply(member.sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.id)
    step.forget_session(group, member.id)
    if member.saved is not None:
        step.record(Gone(MemberRow, group.id, member.id))
    standing.forget_member(step, group, member)


def drop_pending_id(step: Step, group: Group, member_id: str) -> None:
    """Take back an id that a new member was told to join with."""
    group.pending_joins.discard(member_id)
    step.event(IdUnclaimed(group=group.id, member=member_id))
