"""Taking up groups where their stored rows leave off.

The rows go through the same `Group.apply` as when they were made.  What is not stored, the parked
requests and the time that ran, starts anew: every member gets a fresh session to come back in, a
rebalance that was going on gets its full time again.  The generation stays, so that nobody who
comes back in time has to rebalance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_protocol.journal import GroupRecovered
from coterie_server.group.checks import keeps_ledger
from coterie_server.group.group import Group, Rebalance
from coterie_server.group.offsets import END_OF_TIME_MS, forget_topic
from coterie_server.group.rebalancing import prepare
from coterie_server.group.records import FloorRow, GroupRow
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.group.records import StoredRow
    from coterie_server.group.turn import Turn

__all__ = ["recover"]


def recover(turn: Turn, rows: Iterable[StoredRow], generations_lost: int) -> None:
    """Apply stored rows, groups before their members, and set the groups going again."""
    shard = turn.shard
    for row in rows:
        if isinstance(row, FloorRow):
            shard.floor = row
            continue
        if isinstance(row, GroupRow) and row.state == GroupState.DEAD.value:
            shard.tombstones[row.group_id] = row
            continue
        group = shard.groups.get(row.group_id)
        if group is None:
            group = shard.groups[row.group_id] = Group(row.group_id)
        group.apply(row)
    by_age = sorted(shard.tombstones.values(), key=lambda tombstone: tombstone.changed_at_ms)
    shard.tombstones = {tombstone.group_id: tombstone for tombstone in by_age}
    if generations_lost:
        _skip_generations(turn, generations_lost)
    for group_id in list(shard.groups):
        group = turn.group(group_id)
        if group is not None:
            _forget_deleted_topics(turn, group)
            _resume(turn, group)


def _skip_generations(turn: Turn, lost: int) -> None:
    """No number comes twice, though nobody knows which ones have been used.

    Whoever is in one of the generations that are missing learns at its next heartbeat that it is
    over, and joins anew.
    """
    shard = turn.shard
    shard.floor = replace(shard.floor, generation=shard.floor.generation + lost)
    turn.record(shard.floor)
    for name, tombstone in shard.tombstones.items():
        shard.tombstones[name] = replace(tombstone, generation=tombstone.generation + lost)
        turn.record(shard.tombstones[name])
    for group_id in list(shard.groups):
        group = turn.group(group_id)
        if group is not None:
            group.row = replace(group.row, generation=group.generation + lost)


def _forget_deleted_topics(turn: Turn, group: Group) -> None:
    """A node may have stopped when a topic was gone, and before its groups had forgotten it."""
    for topic in {topic for topic, _ in group.offsets} - turn.shard.topics.keys():
        forget_topic(turn, group, topic, END_OF_TIME_MS)


def _resume(turn: Turn, group: Group) -> None:
    if group.leader not in group.members:
        # Whoever led was new when the node stopped, and is not stored.
        group.row = replace(group.row, leader=next(iter(group.members), None))
    group.note_topics()
    if not group.members:
        _empty(turn, group)
        if group.row.protocol_type is not None:
            # The journal may tell of members or a generation that were gone, or come, in the last
            # moment of the life before: this line is the truth from now on.
            turn.event(_recovered(group))
        return
    for member in group.members.values():
        member.last_seen_ms = turn.now_ms
        turn.keep_alive(group, member)
    if keeps_ledger(group):
        group.ledger.recover(group.members.values(), group.row.assigned_in, turn.now_ms)
    if group.is_in(GroupState.PREPARING, GroupState.COMPLETING):
        group.rebalance = Rebalance(group.row.cause, "", turn.now_ms, joined_at_ms=turn.now_ms)
    if group.is_in(GroupState.PREPARING):
        turn.arm(group, "join", group.rebalance_timeout_ms)
    elif group.is_in(GroupState.COMPLETING):
        group.pending_syncs.update(m.id for m in group.members.values() if not m.row.is_away)
        turn.arm(group, "sync", group.rebalance_timeout_ms)
    turn.event(_recovered(group))
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING):
        _rebalance_if_needed(turn, group)


def _rebalance_if_needed(turn: Turn, group: Group) -> None:
    """Nobody rebalances because of a restart, but what was due by then is due still."""
    count = len(group.members)
    if count > turn.config.max_size:
        prepare(turn, group, "over_capacity", f"{count} members, {turn.config.max_size}")
    elif missed := _missed_change(turn, group):
        prepare(turn, group, "topic_changed", missed)


def _missed_change(turn: Turn, group: Group) -> str:
    """What changed of a group's topics before the node stopped, and the group had not heard of.

    Its members would find out by themselves, but only minutes later.
    """
    if not turn.config.rebalance_on_topic_change:
        return ""
    shard = turn.shard
    for topic in sorted(group.topics() or ()):
        if shard.topic_changed_at(topic) >= group.row.changed_at_ms > 0:
            return f"{topic} changed"
    return ""


def _recovered(group: Group) -> GroupRecovered:
    members = tuple(group.members)
    return GroupRecovered(
        group=group.id,
        state=group.state.value,
        generation=group.generation,
        members=members,
        assigned=group.ledger.by_member(members) if keeps_ledger(group) else None,
    )


def _empty(turn: Turn, group: Group) -> None:
    """A group whose members were all new when the node stopped has nobody to go on with."""
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING):
        turn.enter(group, GroupState.PREPARING)
    if group.is_in(GroupState.PREPARING):
        group.row = replace(group.row, protocol_name=None)
        turn.enter(group, GroupState.EMPTY)
