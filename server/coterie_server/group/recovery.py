"""Taking up groups where their stored rows leave off.

The rows go through the same `Group.apply` as when they were made.  What is not stored, the parked
requests and the time that ran, starts anew: every member gets a fresh session to come back in, a
rebalance that was going on gets its full time again.  The generation stays, so that members that
come back in time need no rebalance.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from coterie_protocol.journal import GroupRecovered
from coterie_server.group import absence, standing
from coterie_server.group.bundle import BundleRow
from coterie_server.group.group import CONSUMER, Group
from coterie_server.group.offsets import forget_topics
from coterie_server.group.phases import OngoingRebalance
from coterie_server.group.rebalance import prepare
from coterie_server.group.records import END_OF_TIME_MS, FloorRow, GroupRow
from coterie_server.group.skipping import behind_a_loss, skipped_since
from coterie_server.group.states import GroupState
from coterie_server.group.tokens import recover_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.group.records import StoredRow
    from coterie_server.group.step import Step

__all__ = ["recover"]

#: A row that has a generation.
Numbered = TypeVar("Numbered", FloorRow, GroupRow)


def recover(
    step: Step, rows: Iterable[StoredRow], *, is_lossy: bool, lacks_topics: bool, timeline: int
) -> None:
    """Apply stored rows, groups before their members, and set the groups going again."""
    table = step.table
    table.timeline = timeline
    last_bundle = 0
    for row in rows:
        if isinstance(row, FloorRow):
            table.floor = row
            continue
        if isinstance(row, GroupRow) and row.state == GroupState.DEAD.value:
            table.tombstones[row.group_id] = row
            continue
        group = table.groups.get(row.group_id)
        if group is None:
            group = table.groups[row.group_id] = Group(row.group_id)
        group.apply(row)
        if isinstance(row, BundleRow):
            last_bundle = max(last_bundle, row.number)
    table.bundle_numbers = count(last_bundle + 1)
    table.owned.update(group.row.owner for group in table.groups.values())
    by_age = sorted(table.tombstones.values(), key=lambda tombstone: tombstone.changed_at_ms)
    table.tombstones = {tombstone.group_id: tombstone for tombstone in by_age}
    _raise_floor(step)
    if is_lossy:
        _skip_generations(step)
    for group_id in list(table.groups):
        group = step.group(group_id)
        if group is not None:
            _resume(step, group)
            # That it was read is told before anything that comes of it.
            if not lacks_topics:
                _forget_deleted_topics(step, group)
            standing.resume(step, group)


def _raise_floor(step: Step) -> None:
    """Begin new groups behind all generations of groups that may be lost with their names."""
    table = step.table
    floor, now = table.floor, table.timeline
    if floor.timeline != now:
        skipped = skipped_since(floor.timeline, now)
        table.floor = replace(floor, generation=floor.generation + skipped, timeline=now)
        step.record(table.floor)


def _skip_generations(step: Step) -> None:
    """Skip so many generations that no number comes twice, whichever have been used.

    A member of a generation that is missing learns at its next heartbeat that it is over, and
    joins anew.
    """
    table, date_ms = step.table, step.date_ms
    table.floor = _skipped(table.floor, date_ms)
    step.record(table.floor)
    for name, tombstone in table.tombstones.items():
        table.tombstones[name] = _skipped(tombstone, date_ms)
        step.record(table.tombstones[name])
    for group_id in list(table.groups):
        group = step.group(group_id)
        if group is not None:
            group.row = _skipped(group.row, date_ms)


def _skipped(row: Numbered, date_ms: int) -> Numbered:
    return replace(row, generation=behind_a_loss(row.generation, date_ms))


def _forget_deleted_topics(step: Step, group: Group) -> None:
    """Forget topics that were deleted when the node stopped before its groups had heard of it."""
    deleted = {topic for topic, _ in group.offsets} - step.table.topics.keys()
    if deleted:
        forget_topics(step, group, deleted, END_OF_TIME_MS)


def _resume(step: Step, group: Group) -> None:
    if group.row.leader not in group.members:
        # The leader was new when the node stopped, and is not stored.
        group.row = replace(group.row, leader=next(iter(group.members), None))
    group.note_topics()
    if not group.members:
        _empty(step, group)
        if group.row.protocol_type is not None:
            # The journal may tell of members or a generation that were gone, or come, in the last
            # moment of the life before: this line is the truth from now on.
            step.event(_recovered(group))
        return
    _await_members(step, group)
    if group.row.protocol_type == CONSUMER:
        group.ledger.recover(group.members.values(), group.row.assigned_in, step.now_ms)
        recover_tokens(group)
    if group.state in (GroupState.PREPARING, GroupState.COMPLETING):
        group.rebalance = OngoingRebalance(group.row.cause, step.now_ms, step.now_ms)
    if group.state is GroupState.PREPARING:
        step.arm(group, "join", group.rebalance_timeout_ms)
    elif group.state is GroupState.COMPLETING:
        joined = (m for m in group.members.values() if not (m.row.has_not_joined or m.is_away))
        group.pending_syncs.update(member.id for member in joined)
        step.arm(group, "sync", group.rebalance_timeout_ms)
    step.event(_recovered(group))
    if group.state in (GroupState.STABLE, GroupState.COMPLETING):
        _rebalance_if_needed(step, group)


def _await_members(step: Step, group: Group) -> None:
    for member in group.members.values():
        member.last_seen_ms = step.now_ms
        if member.is_away:
            absence.resume(step, group, member)
        else:
            step.keep_alive(group, member)


def _rebalance_if_needed(step: Step, group: Group) -> None:
    """A restart is no reason to rebalance, but what was due before it is still due."""
    count = len(group.members)
    if count > (limit := step.max_size(group)):
        prepare(step, group, "over_capacity", f"{count} members, {limit}")
    elif missed := _missed_change(step, group):
        prepare(step, group, "topic_changed", missed)


def _missed_change(step: Step, group: Group) -> str:
    """What changed of a group's topics since its generation formed, and was not told to the group.

    Its members would find out by themselves, but only minutes later.
    """
    if not step.config.rebalance_on_topic_change:
        return ""
    changed = group.changed_topic(step.table.topics)
    return " ".join(changed) if changed is not None else ""


def _recovered(group: Group) -> GroupRecovered:
    members = tuple(group.members)
    return GroupRecovered(
        group=group.id,
        state=group.state.value,
        generation=group.row.generation,
        members=members,
        away=tuple(sorted(group.away)),
        assigned=group.ledger.by_member(members) if group.row.protocol_type == CONSUMER else None,
    )


def _empty(step: Step, group: Group) -> None:
    """Empty a group whose members were all new when the node stopped, and so are not stored."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING):
        group.enter(GroupState.PREPARING, step.date_ms)
    if group.state is GroupState.PREPARING:
        group.row = replace(group.row, protocol_name=None)
        group.enter(GroupState.EMPTY, step.date_ms)
