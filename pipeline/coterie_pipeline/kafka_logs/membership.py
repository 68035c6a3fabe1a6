"""Who comes into a group and who goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coterie_pipeline.kafka_logs.group import PREPARING, Group, Member, name_before_id
from coterie_pipeline.kafka_logs.said import Card
from coterie_pipeline.kafka_logs.scene import Scene
from coterie_protocol.journal import MemberGone, MemberJoined, MemberReplaced

__all__ = ["gone", "joined", "replaced"]

#: How long Kafka lets the join of a new member be parked: its client has given up by then.
_JOIN_PARKED_MS: Final = 300_000
_SLACK_MS: Final = 1_000


def joined(
    scene: Scene,
    group: Group,
    member: str,
    *,
    instance: str | None = None,
    reason: str = "",
    at_ms: int | None = None,
) -> None:
    """A member is in; one that was has joined again."""
    name = group.id_of(member)
    group.pending.pop(name, None)
    group.departed.pop(name, None)
    known = group.members.get(name)
    when_ms = scene.now_ms if at_ms is None else at_ms
    if known is not None:
        known.joined_ms = when_ms
        return
    card = _card(scene, group, name, instance)
    if not group.members and group.holdings.is_empty:
        group.leader = name  # the first one into an empty group
    group.members[name] = Member(card, when_ms)
    scene.settle(group, card.instance)
    scene.tell(
        MemberJoined(
            group=group.name,
            member=name,
            instance=card.instance,
            client_id=card.client_id,
            host=card.host,
            session_timeout_ms=card.session_ms,
            rebalance_timeout_ms=card.rebalance_ms,
            protocols=card.protocols,
            topics=card.topics,
            reason=reason,
        )
    )


def gone(scene: Scene, group: Group, member: str, how: str, reason: str = "") -> None:
    """A member is out; if two lines say so, the first counts."""
    name = group.id_of(member)
    if name in group.departed:
        return
    known = group.members.pop(name, None)
    card = _card(scene, group, name) if known is None else known.card
    if how == "session_expired" and known is not None and _was_parked(scene, group, known):
        how = "join_expired"
    group.pending.pop(name, None)
    group.departed[name] = how
    if group.leader == name:
        group.leader = ""  # who comes next is up to the order of a hash table
    scene.tell(
        MemberGone(
            group=group.name,
            member=name,
            instance=card.instance,
            host=card.host,
            how=how,
            silent_ms=card.session_ms if how == "session_expired" else 0,
            session_timeout_ms=card.session_ms,
            reason=reason,
            owned=group.holdings.forget(name),
        )
    )


def replaced(scene: Scene, group: Group, instance: str, former: str, member: str | None) -> None:
    """A static member came back; without its new id, one is looked up, or made up."""
    former = group.id_of(former)
    known = group.members.pop(former, None)
    old = _card(scene, group, former, instance) if known is None else known.card
    heir = None if member else scene.dump.heir(group.name, instance, former, scene.now_ms)
    group.made_up.pop(instance, None)
    if member is None:
        member = heir.member if heir else f"{instance}-{scene.now_ms}"
    if heir is None and name_before_id(member) != instance:
        group.made_up[instance] = member
    card = heir or scene.dump.card(group.name, member) or replace(old, host="")
    group.members[member] = Member(replace(card, member=member, instance=instance), scene.now_ms)
    group.holdings.rename(former, member)
    scene.settle(group, instance)
    if group.leader == former:
        group.leader = member
    scene.tell(
        MemberReplaced(
            group=group.name,
            instance=instance,
            member=member,
            host=card.host,
            former_member=former,
            former_host=old.host,
            silent_ms=0,
        )
    )


def _card(scene: Scene, group: Group, member: str, instance: str | None = None) -> Card:
    """What is known of a member: what was stored, or else what its id tells."""
    stored = scene.dump.card(group.name, member)
    if stored is not None:
        return stored
    return Card(member, instance, "" if instance else name_before_id(member))


def _was_parked(scene: Scene, group: Group, member: Member) -> bool:
    """Whether a new member's join was parked all the time that Kafka allows."""
    if group.state != PREPARING or member.joined_ms is None:
        return False
    return scene.now_ms - member.joined_ms >= _JOIN_PARKED_MS - _SLACK_MS
