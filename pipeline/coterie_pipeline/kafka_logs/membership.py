"""What happens to a group when a member comes, goes or is replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coterie_pipeline.kafka_logs.log_events import MemberInfo
from coterie_pipeline.kafka_logs.state import PREPARING, Group, LogState, Member, name_before_id
from coterie_protocol.journal import MemberGone, MemberJoined, MemberReplaced

__all__ = ["gone", "joined", "replaced"]

#: How long Kafka lets the join of a new member be parked: its client has given up by then.
_JOIN_PARKED_MS: Final = 300_000
_SLACK_MS: Final = 1_000


def joined(
    state: LogState,
    group: Group,
    member: str,
    *,
    instance: str | None = None,
    reason: str = "",
    at_ms: int | None = None,
) -> None:
    """A member joined, for the first time or again."""
    name = group.id_of(member)
    group.pending.pop(name, None)
    group.departed.pop(name, None)
    known = group.members.get(name)
    when_ms = state.now_ms if at_ms is None else at_ms
    if known is not None:
        known.joined_ms = when_ms
        return
    info = _info(state, group, name, instance)
    if not group.members and group.holdings.is_empty:
        group.leader = name  # the first member of an empty group leads
    group.members[name] = Member(info, when_ms)
    state.record_instance(group, info.instance)
    state.emit(
        MemberJoined(
            group=group.name,
            member=name,
            instance=info.instance,
            client_id=info.client_id,
            host=info.host,
            session_timeout_ms=info.session_ms,
            rebalance_timeout_ms=info.rebalance_ms,
            protocols=info.protocols,
            topics=info.topics,
            reason=reason,
        )
    )


def gone(state: LogState, group: Group, member: str, how: str, reason: str = "") -> None:
    """A member is gone; if two lines say so, the first counts."""
    name = group.id_of(member)
    if name in group.departed:
        return
    known = group.members.pop(name, None)
    info = _info(state, group, name) if known is None else known.info
    if how == "session_expired" and known is not None and _was_parked(state, group, known):
        how = "join_expired"
    group.pending.pop(name, None)
    group.departed[name] = how
    if group.leader == name:
        group.leader = ""  # the next one depends on the order of a hash table
    state.emit(
        MemberGone(
            group=group.name,
            member=name,
            instance=info.instance,
            host=info.host,
            how=how,
            silent_ms=info.session_ms if how == "session_expired" else 0,
            session_timeout_ms=info.session_ms,
            reason=reason,
            owned=group.holdings.forget(name),
        )
    )


def replaced(state: LogState, group: Group, instance: str, former: str, member: str | None) -> None:
    """A static member came back; without its new id, one is looked up, or made up."""
    former = group.id_of(former)
    known = group.members.pop(former, None)
    old = _info(state, group, former, instance) if known is None else known.info
    successor = None if member else state.dump.successor(group.name, instance, former, state.now_ms)
    group.made_up.pop(instance, None)
    if member is None:
        member = successor.member if successor else f"{instance}-{state.now_ms}"
    if successor is None and name_before_id(member) != instance:
        group.made_up[instance] = member
    info = successor or state.dump.member_info(group.name, member) or replace(old, host="")
    group.members[member] = Member(replace(info, member=member, instance=instance), state.now_ms)
    group.holdings.rename(former, member)
    state.record_instance(group, instance)
    if group.leader == former:
        group.leader = member
    state.emit(
        MemberReplaced(
            group=group.name,
            instance=instance,
            member=member,
            host=info.host,
            former_member=former,
            former_host=old.host,
            silent_ms=0,
        )
    )


def _info(state: LogState, group: Group, member: str, instance: str | None = None) -> MemberInfo:
    """What is known of a member: what was stored, or else what its id tells."""
    stored = state.dump.member_info(group.name, member)
    if stored is not None:
        return stored
    return MemberInfo(member, instance, "" if instance else name_before_id(member))


def _was_parked(state: LogState, group: Group, member: Member) -> bool:
    """Whether a new member's join was parked all the time that Kafka allows."""
    if group.state != PREPARING or member.joined_ms is None:
        return False
    return state.now_ms - member.joined_ms >= _JOIN_PARKED_MS - _SLACK_MS
