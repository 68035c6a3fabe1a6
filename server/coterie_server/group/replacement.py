"""A static member that comes back in a new process: its place is given to a new member id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberReplaced
from coterie_server.error_answers import join_error, sync_error
from coterie_server.group import absence, replies
from coterie_server.group.group import CONSUMER
from coterie_server.group.member import claims_of, protocols_of, terms_of
from coterie_server.group.rebalance import prepare, try_complete
from coterie_server.group.records import Gone, MemberRow
from coterie_server.group.states import GroupState
from coterie_server.group.warmth import has_lost_state

if TYPE_CHECKING:
    from coterie_protocol.messages import JoinGroupRequest
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.records import SupportedProtocol
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["replace_static"]

#: From this version on a static leader that comes back can be told to leave things as they are.
_SKIP_ASSIGNMENT_FROM = 9


def replace_static(step: Step, group: Group, member_id: str, request: Request) -> None:
    """Give a known instance its place back under a new member id, and fence its former process."""
    message: JoinGroupRequest = request.message
    former_leader = group.row.leader or ""
    old = group.members[group.static[message.group_instance_id or ""]]
    protocols, former = protocols_of(message), old.row.protocols
    has_lost = old.is_away and group.asked_to_rejoin(old)
    new = _hand_over(step, group, old, member_id, request)
    group.update_protocols(new, protocols, **terms_of(request))
    detail = f"{new.named(new.reason)} replaces {old.id}"
    if group.state is GroupState.STABLE and not new.is_new:
        is_same_protocol = group.select_protocol() == group.row.protocol_name
        is_consumer = group.row.protocol_type == CONSUMER
        wants_others = is_consumer and new.wants_other_topics(former, group.row.protocol_name)
        is_awaited = is_consumer and _has_withheld(step, group, former)
        is_cold = is_consumer and has_lost_state(group, new)
        if is_same_protocol and not (wants_others or is_awaited or has_lost or is_cold):
            _answer_in_place(step, group, new, former_leader, request)
            return
        group.park_join(new, request, step.now_ms)
        if not is_same_protocol:
            prepare(step, group, "static_replaced", f"{detail} with other protocols")
        elif wants_others:
            prepare(step, group, "subscription_changed", f"{detail} and wants other topics")
        elif is_awaited:
            prepare(step, group, "revocation_follow_up", detail, group.row.generation)
        elif has_lost:
            detail += ", and others have had its partitions"
            prepare(step, group, "static_replaced", detail, group.row.generation)
        else:
            detail += ", and others keep copies of state that it no longer has"
            prepare(step, group, "static_replaced", detail)
        return
    group.park_join(new, request, step.now_ms)
    if group.state is GroupState.COMPLETING:
        # The leader has the old id in its list, so the new one would be given nothing.
        prepare(step, group, "static_replaced", detail)
    else:
        try_complete(step, group)


def _has_withheld(step: Step, group: Group, former: tuple[SupportedProtocol, ...]) -> bool:
    """Whether partitions have no owner because the member's former process claimed them.

    A cooperative leader leaves what it wants to move to no member until its owner has joined
    without it.  If the owner was restarted instead, or was away, no other member would join.
    """
    claimed = claims_of(former, group.row.protocol_name)
    topics, sizes = group.topics() or (), step.table.topics
    return any(
        topic in topics and number < sizes.get(topic, 0)
        for topic, number in claimed - group.ledger.holdings.keys()
    )


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
    new.last_seen_ms = new.came_at_ms = step.now_ms
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
    absence.end(step, group, new)
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
        answer = replies.join_answer(group, member, request, skip_assignment=leads)
    else:
        answer = replies.join_answer(group, member, request, leader=former_leader, as_leader=False)
    step.reply(request, answer)
