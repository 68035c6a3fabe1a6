"""How a rebalance begins, how its phases end, and why it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie_pipeline.kafka_logs import said
from coterie_pipeline.kafka_logs.group import COMPLETING, EMPTY, PREPARING, STABLE, Group, Running
from coterie_pipeline.kafka_logs.holdings import Holdings, by_topic, conflicts, follow_up
from coterie_pipeline.kafka_logs.membership import gone, joined
from coterie_pipeline.kafka_logs.reasons import Why, why
from coterie_pipeline.kafka_logs.scene import Scene
from coterie_pipeline.kafka_logs.stored import Generation, Partition
from coterie_protocol.journal import (
    GroupEmptied,
    MemberPhase,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)

__all__ = ["assigned", "emptied", "preparing", "stabilized"]

#: How those went whose going starts a rebalance, by its cause.
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


def preparing(scene: Scene, line: said.Preparing) -> None:
    """A rebalance begins."""
    group = scene.group(line.group, line.generation)
    group.generation = line.generation
    if line.generation == 0:
        group.hear_state(EMPTY)
    reason = why(line.reason)
    members = tuple(group.id_of(member) for member in reason.members)
    for member in members:
        # Not so if the assignment could not be stored: its leader is still there.
        if reason.cause in _HOW and "storing" not in line.reason:
            gone(scene, group, member, _HOW[reason.cause], reason.client)
    cause = _cause(group, reason, members)
    for known in group.members.values():
        known.joined_ms = None
    if cause == "member_joined":
        for member in members:
            joined(scene, group, member, instance=reason.instance, reason=reason.client)
    came = [member for member in members if cause in _COMING and member in group.members]
    for name in came:
        group.members[name].joined_ms = scene.now_ms
    _start(scene, group, cause, line, came)


def _start(scene: Scene, group: Group, cause: str, line: said.Preparing, came: list[str]) -> None:
    awaited = tuple(member for member in group.members if member not in came)
    timeouts = [member.card.rebalance_ms for member in group.members.values()]
    deadline = scene.now_ms + max(timeouts) if timeouts and all(timeouts) else None
    from_state = STABLE if group.state == PREPARING else group.state
    scene.tell(
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
    group.running = Running(scene.now_ms, cause, awaited, len(group.departed))


def _cause(group: Group, reason: Why, members: tuple[str, ...]) -> str:
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


def stabilized(scene: Scene, line: said.Stabilized) -> None:
    """The members have joined."""
    group = scene.group(line.group)
    stored = scene.dump.generation(line.group, line.generation, scene.now_ms)
    if stored is None:
        _take_in(scene, group, line.count)
    else:
        _follow(scene, group, stored)
    count = line.count if stored is None else len(stored.members)
    last = group.last_to_join(is_whole=count == len(group.members))
    group.generation, group.state = line.generation, COMPLETING
    if len(group.members) == line.count == 1:
        group.leader = next(iter(group.members))
    group.pending.clear()
    group.departed.clear()
    if group.running is not None:  # otherwise the log begins in the middle of it
        group.running.joined_ms, group.running.stored = scene.now_ms, stored
        _tell_phase(scene, group, group.running, last)


def _tell_phase(scene: Scene, group: Group, running: Running, last: str | None) -> None:
    took_ms = scene.now_ms - running.started_ms
    scene.tell(
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


def _take_in(scene: Scene, group: Group, count: int | None) -> None:
    """Take those in that were told their ids and must have joined."""
    started_ms = group.running.started_ms if group.running else 0
    for name in group.confirm(count):
        joined(scene, group, name, at_ms=max(group.pending[name], started_ms))


def _follow(scene: Scene, group: Group, stored: Generation) -> None:
    """Have the members that are stored, and tell of those of whom the log is silent."""
    names = {group.id_of(name): member for name, member in stored.members.items()}
    for name in [name for name in group.members if name not in names]:
        gone(scene, group, name, "rebalance_expired")
        if group.running is not None:
            group.running.dropped.append(name)
    for name, member in names.items():
        if name not in group.members:
            at_ms = group.pending.get(name)
            joined(scene, group, name, instance=member.card.instance, at_ms=at_ms)
            if at_ms is None:  # nobody knows when
                group.members[name].joined_ms = None
        group.members[name].card = member.card
    group.protocol_type, group.protocol = stored.protocol_type, stored.protocol
    group.leader = group.id_of(stored.leader)


def _phase(group: Group, name: str, running: Running, took_ms: int) -> MemberPhase:
    member = group.members[name]
    known = running.stored.members.get(name) if running.stored else None
    if member.joined_ms is not None:
        after_ms: int | None = max(member.joined_ms - running.started_ms, 0)
    else:
        # It joined by the end of the phase, unless that had to end without it.
        is_here = member.card.instance is None or took_ms < group.phase_limit_ms()
        after_ms = took_ms if is_here else None
    return MemberPhase(
        member=name,
        instance=member.card.instance,
        host=member.card.host,
        joined_after_ms=after_ms,
        topics=member.card.topics,
        owned=None if known is None or known.owned is None else by_topic(known.owned),
    )


def assigned(scene: Scene, line: said.Assigned) -> None:
    """The leader's assignment came."""
    group = scene.group(line.group)
    if line.leader is not None:
        group.leader = group.id_of(line.leader)
    group.generation, group.state = line.generation, STABLE
    running, group.running = group.running, None
    if running is None or running.joined_ms is None:  # the log begins in the middle of it
        stored = scene.dump.generation(line.group, line.generation, scene.now_ms)
        group.holdings = Holdings(_given(stored))
        return
    given = _given(running.stored)
    moved, revoked = group.holdings.changes(given)
    if running.stored is not None:
        _tell_conflicts(scene, group, running.stored)
    scene.tell(
        RebalanceCompleted(
            group=group.name,
            generation=line.generation,
            cause=running.cause,
            assigned=None if given is None else {m: by_topic(p) for m, p in given.items()},
            moved=moved,
            revoked=revoked,
            needs_rejoin=False,
            took_ms=scene.now_ms - running.joined_ms,
            total_ms=scene.now_ms - running.started_ms,
        )
    )
    group.follow_up = follow_up(running.stored) if running.stored else frozenset()
    group.holdings = group.holdings.followed_by(given, is_whole=not group.follow_up)


def _given(stored: Generation | None) -> Mapping[str, frozenset[Partition]] | None:
    return None if stored is None or stored.protocol_type != "consumer" else stored.given


def _tell_conflicts(scene: Scene, group: Group, stored: Generation) -> None:
    for conflict in conflicts(stored):
        topic, number = conflict.partition
        scene.tell(
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


def emptied(scene: Scene, line: said.Emptied) -> None:
    """The last member is gone."""
    group = scene.group(line.group)
    group.empty(line.generation)
    scene.tell(GroupEmptied(group=group.name, generation=line.generation))
