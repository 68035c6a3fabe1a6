"""SyncGroup: the leader brings the assignment, everybody is told their part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OwnershipConflict, RebalanceCompleted
from coterie_server.group import replies
from coterie_server.group.checks import check_generation, keeps_ledger
from coterie_server.group.ledger import Review, by_topic
from coterie_server.group.rebalancing import save_members
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from coterie_protocol.messages import SyncGroupRequest
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member, Ticket
    from coterie_server.group.turn import Call, Turn

__all__ = ["sync"]

#: From this version on a member says which protocol it means, and has to.
_PROTOCOL_NAMED_FROM = 5


def sync(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Answer or park a SyncGroup; the leader's ends the rebalance."""
    message: SyncGroupRequest = call.message
    group = turn.group(message.group_id)
    error = _check(turn, group, call)
    if error is not None:
        turn.reply(ticket, replies.sync_error(error))
        return
    if group is None:
        raise AssertionError("a sync without a group passed the checks")
    member = group.members[message.member_id]
    member.last_seen_ms = turn.now_ms
    if group.is_in(GroupState.PREPARING):
        turn.reply(ticket, replies.sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    group.pending_syncs.discard(member.id)
    if not group.pending_syncs:
        turn.cancel(group, "sync")
    if group.is_in(GroupState.STABLE):
        answer = replies.sync_answer(group, member, with_token=message.wants_token)
        turn.reply(ticket, answer)
        return
    if member.sync is not None:
        superseded = replies.sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        turn.reply(member.sync.ticket, superseded)
    member.sync = turn.park(call, ticket)
    member.wants_token = message.wants_token
    if group.is_leader(member.id):
        _complete(turn, group, message)


def _check(turn: Turn, group: Group | None, call: Call) -> ErrorCode | None:
    message: SyncGroupRequest = call.message
    named = (message.protocol_type, message.protocol_name)
    if call.version >= _PROTOCOL_NAMED_FROM and None in named:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.is_in(GroupState.EMPTY):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(
        turn,
        group,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        call,
    )
    if error is None and not _means_the_same(named, group):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return error


def _means_the_same(named: tuple[str | None, str | None], group: Group) -> bool:
    chosen = (group.row.protocol_type, group.row.protocol_name)
    return all(n is None or c is None or n == c for n, c in zip(named, chosen, strict=True))


def _complete(turn: Turn, group: Group, message: SyncGroupRequest) -> None:
    """Put the leader's assignment in place and tell everybody who has asked."""
    brought = {a.member_id: bytes(a.assignment) for a in message.assignments}
    assignments = {member_id: brought.get(member_id, b"") for member_id in group.members}
    review = _review(turn, group, assignments)
    for member in group.members.values():
        _give(group, member, review)
    turn.enter(group, GroupState.STABLE)
    save_members(turn, group)
    for member in group.members.values():
        _answer(turn, group, member)
    _note_completed(turn, group, review)


def _give(group: Group, member: Member, review: Review) -> None:
    asked = group.generation if member.id in review.follow_up else member.row.asked_to_rejoin_in
    assignment = review.assignments[member.id]
    member.change(assignment=assignment, is_void=False, asked_to_rejoin_in=asked)


def _review(turn: Turn, group: Group, assignments: dict[str, bytes]) -> Review:
    if not keeps_ledger(group):
        return Review(assignments)
    guard = turn.config.ownership_guard
    enforce = guard == "enforce"
    review = group.ledger.review(assignments, group.members, group.row, enforce=enforce)
    for conflict in review.conflicts if guard != "off" else ():
        topic, partition = conflict.partition
        turn.event(
            OwnershipConflict(
                group=group.id,
                generation=group.generation,
                topic=topic,
                partition=partition,
                holder=conflict.holder,
                given_to=conflict.given_to,
                withheld=enforce,
            )
        )
    group.ledger.take_over(review, group.members, group.generation, turn.now_ms)
    group.row = replace(group.row, assigned_in=group.generation)
    return review


def _answer(turn: Turn, group: Group, member: Member) -> None:
    if member.sync is not None:
        answer = replies.sync_answer(group, member, with_token=member.wants_token)
        turn.reply(member.sync.ticket, answer)
        member.sync = None
        turn.keep_alive(group, member)


def _note_completed(turn: Turn, group: Group, review: Review) -> None:
    rebalance = group.rebalance
    joined_at_ms = rebalance.joined_at_ms if rebalance else turn.now_ms
    started_at_ms = rebalance.started_at_ms if rebalance else turn.now_ms
    given = review.given
    turn.event(
        RebalanceCompleted(
            group=group.id,
            generation=group.generation,
            cause=group.row.cause,
            assigned=None if given is None else {m: by_topic(p) for m, p in given.items()},
            moved=review.moved,
            revoked=review.revoked,
            needs_rejoin=review.needs_rejoin,
            took_ms=turn.now_ms - joined_at_ms,
            total_ms=turn.now_ms - started_at_ms,
        )
    )
    group.rebalance = None
