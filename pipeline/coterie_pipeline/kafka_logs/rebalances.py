"""What the lines about a rebalance do to a group: its beginning, its phases and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie_pipeline.kafka_logs import log_events
from coterie_pipeline.kafka_logs.membership import gone, joined
from coterie_pipeline.kafka_logs.offsets_topic import Generation, Partition
from coterie_pipeline.kafka_logs.reasons import ParsedReason, parse_reason
from coterie_pipeline.kafka_logs.state import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Group,
    Holdings,
    LogState,
    Running,
    by_topic,
    conflicts,
    follow_up,
)
from coterie_protocol.journal import (
    GroupEmptied,
    MemberPhase,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)

__all__ = ["assigned", "emptied", "preparing", "stabilized"]

#: How members went, by the cause of the rebalance that their going started.
_HOW: Final = {
    "member_left": "left",
    "member_removed": "removed",
    "session_expired": "session_expired",
    "sync_expired": "sync_expired",
}

#: The causes with which a member joins in the same moment.
_COMING: Final = frozenset(
    {
        "member_joined",
        "subscription_changed",
        "leader_rejoined",
        "topic_changed",
        "revocation_follow_up",
        "static_replaced",
    }
)


def preparing(state: LogState, line: log_events.Preparing) -> None:
    """A rebalance begins."""
    group = state.group(line.group, line.generation)
    group.generation = line.generation
    if line.generation == 0:
        group.note_state(EMPTY)
    reason = parse_reason(line.reason)
    members = tuple(group.id_of(member) for member in reason.members)
    for member in members:
        # If the assignment could not be stored, its leader is still there.
        if reason.cause in _HOW and "storing" not in line.reason:
            gone(state, group, member, _HOW[reason.cause], reason.client)
    cause = _cause(group, reason, members)
    for known in group.members.values():
        known.joined_ms = None
    if cause == "member_joined":
        for member in members:
            joined(state, group, member, instance=reason.instance, reason=reason.client)
    came = [member for member in members if cause in _COMING and member in group.members]
    for name in came:
        group.members[name].joined_ms = state.now_ms
    _start(state, group, cause, line, came)


def _start(
    state: LogState, group: Group, cause: str, line: log_events.Preparing, came: list[str]
) -> None:
    awaited = tuple(member for member in group.members if member not in came)
    timeouts = [member.info.rebalance_ms for member in group.members.values()]
    deadline = state.now_ms + max(timeouts) if timeouts and all(timeouts) else None
    from_state = STABLE if group.state == PREPARING else group.state
    state.emit(
        RebalanceStarted(
            group=group.name,
            generation=line.generation,
            from_state=from_state,
            cause=cause,
            detail=line.reason,
            awaited=awaited,
            deadline=deadline,
            follows=line.generation if cause == "revocation_follow_up" else None,
        )
    )
    group.state = PREPARING
    group.running = Running(state.now_ms, cause, awaited, len(group.departed))


def _cause(group: Group, reason: ParsedReason, members: tuple[str, ...]) -> str:
    """The cause, as far as the reason and what went before tell."""
    if reason.cause is None:
        return _nearest(group)
    if reason.cause == "member_left" and any(group.departed.get(m) == "removed" for m in members):
        return "member_removed"
    if reason.cause in ("subscription_changed", "leader_rejoined"):
        if group.follow_up.intersection(members):
            return "revocation_follow_up"
        if reason.may_be_leader and group.leader in members:
            return "leader_rejoined"
    return reason.cause


def _nearest(group: Group) -> str:
    """The likeliest cause of a rebalance whose reason is not known: what happened last."""
    if group.departed:
        how = list(group.departed.values())[-1]
        return next((cause for cause, known in _HOW.items() if known == how), "session_expired")
    return "member_joined" if group.pending or not group.members else "subscription_changed"


def stabilized(state: LogState, line: log_events.Stabilized) -> None:
    """The members have joined."""
    group = state.group(line.group)
    stored = state.dump.generation(line.group, line.generation, state.now_ms)
    if stored is None:
        _take_in(state, group, line.count)
    else:
        _follow(state, group, stored)
    count = line.count if stored is None else len(stored.members)
    last = group.last_to_join(is_whole=count == len(group.members))
    group.generation, group.state = line.generation, COMPLETING
    if len(group.members) == line.count == 1:
        group.leader = next(iter(group.members))
    group.pending.clear()
    group.departed.clear()
    if group.running is not None:  # otherwise the log begins in the middle of it
        group.running.joined_ms, group.running.stored = state.now_ms, stored
        _emit_phase(state, group, group.running, last)


def _emit_phase(state: LogState, group: Group, running: Running, last: str | None) -> None:
    took_ms = state.now_ms - running.started_ms
    state.emit(
        PhaseJoined(
            group=group.name,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader,
            members=tuple(_phase(group, name, running, took_ms) for name in group.members),
            dropped=tuple(running.dropped),
            last=last,
            cause=running.cause,
            took_ms=took_ms,
        )
    )


def _take_in(state: LogState, group: Group, count: int | None) -> None:
    """Take in the clients that were given ids and must have joined."""
    started_ms = group.running.started_ms if group.running else 0
    for name in group.confirm(count):
        joined(state, group, name, at_ms=max(group.pending[name], started_ms))


def _follow(state: LogState, group: Group, stored: Generation) -> None:
    """Take over the stored members, and emit those that came or went without a line in the log."""
    names = {group.id_of(name): member for name, member in stored.members.items()}
    for name in [name for name in group.members if name not in names]:
        gone(state, group, name, "rebalance_expired")
        if group.running is not None:
            group.running.dropped.append(name)
    for name, member in names.items():
        if name not in group.members:
            at_ms = group.pending.get(name)
            joined(state, group, name, instance=member.info.instance, at_ms=at_ms)
            if at_ms is None:  # its time is not known
                group.members[name].joined_ms = None
        group.members[name].info = member.info
    group.protocol_type, group.protocol = stored.protocol_type, stored.protocol
    group.leader = group.id_of(stored.leader)


def _phase(group: Group, name: str, running: Running, took_ms: int) -> MemberPhase:
    member = group.members[name]
    known = running.stored.members.get(name) if running.stored else None
    if member.joined_ms is not None:
        after_ms: int | None = max(member.joined_ms - running.started_ms, 0)
    else:
        # It joined by the end of the phase, unless that had to end without it.
        is_here = member.info.instance is None or took_ms < group.phase_limit_ms()
        after_ms = took_ms if is_here else None
    return MemberPhase(
        member=name,
        instance=member.info.instance,
        host=member.info.host,
        joined_after_ms=after_ms,
        topics=member.info.topics,
        owned=None if known is None or known.owned is None else by_topic(known.owned),
    )


def assigned(state: LogState, line: log_events.Assigned) -> None:
    """The leader's assignment came."""
    group = state.group(line.group)
    if line.leader is not None:
        group.leader = group.id_of(line.leader)
    group.generation, group.state = line.generation, STABLE
    running, group.running = group.running, None
    if running is None or running.joined_ms is None:  # the log begins in the middle of it
        stored = state.dump.generation(line.group, line.generation, state.now_ms)
        group.holdings = Holdings(_given(stored))
        return
    given = _given(running.stored)
    moved, revoked = group.holdings.changes(given)
    if running.stored is not None:
        _emit_conflicts(state, group, running.stored)
    state.emit(
        RebalanceCompleted(
            group=group.name,
            generation=line.generation,
            cause=running.cause,
            assigned=None if given is None else {m: by_topic(p) for m, p in given.items()},
            moved=moved,
            revoked=revoked,
            needs_rejoin=False,
            took_ms=state.now_ms - running.joined_ms,
            total_ms=state.now_ms - running.started_ms,
        )
    )
    group.follow_up = follow_up(running.stored) if running.stored else frozenset()
    group.holdings = group.holdings.followed_by(given, is_whole=not group.follow_up)


def _given(stored: Generation | None) -> Mapping[str, frozenset[Partition]] | None:
    return None if stored is None or stored.protocol_type != "consumer" else stored.given


def _emit_conflicts(state: LogState, group: Group, stored: Generation) -> None:
    for conflict in conflicts(stored):
        topic, number = conflict.partition
        state.emit(
            OwnershipConflict(
                group=group.name,
                generation=stored.number,
                topic=topic,
                partition=number,
                holder=conflict.holder,
                given_to=conflict.given_to,
                withheld=False,
            )
        )


def emptied(state: LogState, line: log_events.Emptied) -> None:
    """The last member is gone."""
    group = state.group(line.group)
    group.empty(line.generation)
    state.emit(GroupEmptied(group=group.name, generation=line.generation))
