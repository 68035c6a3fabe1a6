"""SyncGroup: the leader brings the assignment, and every member is told its part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OwnershipConflict, RebalanceCompleted
from coterie_server.error_answers import sync_error
from coterie_server.group import absence, replies
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import Review, by_topic
from coterie_server.group.rebalance import save_members
from coterie_server.group.states import GroupState
from coterie_server.group.step import check_generation
from coterie_server.group.tokens import note_tokens
from coterie_server.group.topic_changes import settle_topics
from coterie_server.group.warmth import Plan, plan_of

if TYPE_CHECKING:
    from coterie_protocol.messages import SyncGroupRequest
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["sync"]

#: From this version on a member says which protocol it means, and has to.
_PROTOCOL_NAMED_FROM = 5


def sync(step: Step, request: Request) -> None:
    """Answer a SyncGroup or park it; the leader's ends the rebalance."""
    message: SyncGroupRequest = request.message
    group = step.group(message.group_id)
    error = _check(step, group, request)
    if error is not None:
        step.reply(request, sync_error(error))
        return
    if group is None:
        raise AssertionError("a sync without a group passed the checks")
    member = group.members[message.member_id]
    member.last_seen_ms = step.now_ms
    absence.end(step, group, member)
    if group.state is GroupState.PREPARING:
        step.reply(request, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    group.pending_syncs.discard(member.id)
    if not group.pending_syncs:
        step.cancel(group, "sync")
    if group.state is GroupState.STABLE:
        _tell(step, group, member, request)
        return
    if member.sync is not None:
        step.reply(member.sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync = request
    if group.row.leader == member.id:
        _complete(step, group, message)


def _check(step: Step, group: Group | None, request: Request) -> ErrorCode | None:
    message: SyncGroupRequest = request.message
    named = (message.protocol_type, message.protocol_name)
    if request.version >= _PROTOCOL_NAMED_FROM and None in named:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(
        step,
        group,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        request,
    )
    chosen = (group.row.protocol_type, group.row.protocol_name)
    if error is None and named != chosen and _differ(named, chosen):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return error


def _differ(named: tuple[str | None, ...], chosen: tuple[str | None, ...]) -> bool:
    """Whether a member names other protocols than were chosen, where both are known."""
    pairs = zip(named, chosen, strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


# -- the leader's sync -------------------------------------------------------------------------


def _complete(step: Step, group: Group, message: SyncGroupRequest) -> None:
    """Put the leader's assignment in place, and tell all members who have asked."""
    brought = {a.member_id: bytes(a.assignment) for a in message.assignments}
    assignments = {member_id: brought.get(member_id, b"") for member_id in group.members}
    had = {member_id: group.ledger.owned_by(member_id) for member_id in group.away}
    former = group.row.assigned_in
    review = _review(step, group, assignments)
    for member in group.members.values():
        _give(group, member, review)
    plan = plan_of(group.members, group.row.protocol_name) if review.given is not None else None
    if plan is not None:
        absence.note_losses(group, had, former)
    group.enter(GroupState.STABLE, step.date_ms)
    save_members(step, group)
    for member in group.members.values():
        _answer(step, group, member)
    _note_completed(step, group, review, plan)
    settle_topics(step, group)


def _review(step: Step, group: Group, assignments: dict[str, bytes]) -> Review:
    """Hold the assignment against who owns what, and let the guard withhold what has an owner."""
    if group.row.protocol_type != CONSUMER:  # then its bytes can't be read here
        return Review(assignments)
    guard = step.config.ownership_guard
    enforce = guard == "enforce"
    review = group.ledger.review(assignments, group.members, group.row, enforce=enforce)
    for conflict in review.conflicts if guard != "off" else ():
        topic, partition = conflict.partition
        step.event(
            OwnershipConflict(
                group=group.id,
                generation=group.row.generation,
                topic=topic,
                partition=partition,
                holder=conflict.holder,
                given_to=conflict.given_to,
                withheld=enforce,
            )
        )
    group.ledger.take_over(review, group.members, group.row.generation, step.now_ms)
    group.row = replace(group.row, assigned_in=group.row.generation)
    return review


def _give(group: Group, member: Member, review: Review) -> None:
    has_to_rejoin = member.id in review.follow_up
    member.change(
        assignment=review.assignments[member.id],
        is_void=False,
        asked_to_rejoin_in=(
            group.row.generation if has_to_rejoin else member.row.asked_to_rejoin_in
        ),
    )


def _answer(step: Step, group: Group, member: Member) -> None:
    if member.sync is not None:
        _tell(step, group, member, member.sync)
        member.sync = None
        step.keep_alive(group, member)


def _tell(step: Step, group: Group, member: Member, request: Request) -> None:
    step.reply(request, replies.sync_answer(group, member, request))
    group.ledger.tell(member.id)
    if request.message.wants_token:
        note_tokens(group, member)


def _note_completed(step: Step, group: Group, review: Review, plan: Plan | None) -> None:
    rebalance = group.rebalance
    joined_at_ms = rebalance.joined_at_ms if rebalance else step.now_ms
    started_at_ms = rebalance.started_at_ms if rebalance else step.now_ms
    given = review.given
    step.event(
        RebalanceCompleted(
            group=group.id,
            generation=group.row.generation,
            cause=group.row.cause,
            assigned=None if given is None else {m: by_topic(p) for m, p in given.items()},
            moved=review.moved,
            revoked=review.revoked,
            needs_rejoin=review.needs_rejoin,
            took_ms=step.now_ms - joined_at_ms,
            total_ms=step.now_ms - started_at_ms,
            standbys=plan.standbys if plan else None,
            warming=plan.warming if plan else None,
            targets=plan.targets if plan else None,
            next_probing=plan.next_probing_ms if plan else None,
        )
    )
    group.rebalance = None
