"""What commands print as JSON, in the words of the HTTP pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie_client.admin import (
        Acl,
        GroupDescription,
        MemberDescription,
        TopicListing,
        UserDescription,
    )
    from coterie_client.wire.addresses import TopicPartition

__all__ = [
    "acl_view",
    "group_view",
    "host_text",
    "member_views",
    "operation_views",
    "topic_view",
    "user_view",
]


def host_text(host: str) -> str:
    """A member's host without the slash that Kafka puts before it."""
    return host.lstrip("/")


def group_view(group: GroupDescription) -> dict[str, Any]:
    """A group with its members."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.protocol_type or None,
        "protocol": group.protocol or None,
        "coordinator": str(group.coordinator),
        "operations": operation_views(group),
        "members": member_views(group),
    }


def operation_views(group: GroupDescription) -> list[dict[str, Any]]:
    """What administrators have ordered of a group."""
    owned = {name: each.partitions or () for each in group.members for name in _names(each)}
    return [
        {
            "operation": each.operation,
            "member": each.member_id,
            "instance": each.instance_id,
            "partitions": _by_topic(each.partitions) if each.partitions else None,
            "at_a_time": each.at_a_time if each.operation == "drain" else None,
            "left": len(owned.get(each.instance_id or each.member_id or "", ()))
            if each.operation == "drain"
            else None,
            "by": each.by,
            "reason": each.reason,
            "since_ms": each.since_ms,
            "until_ms": each.until_ms,
            "followed": each.followed,
        }
        for each in group.operations
    ]


def _names(member: MemberDescription) -> tuple[str, ...]:
    return tuple(name for name in (member.instance_id, member.member_id) if name is not None)


def member_views(group: GroupDescription) -> list[dict[str, Any]]:
    """A group's members."""
    targets: dict[str, set[TopicPartition]] = {}
    for each in group.members:
        for partition, member_id in (each.orders.targets if each.orders else {}).items():
            targets.setdefault(member_id, set()).add(partition)
    return [
        {
            "member": member.member_id,
            "instance": member.instance_id,
            "client_id": member.client_id,
            "host": host_text(member.host),
            "address": member.address,
            "labels": dict(member.labels),
            "away_since_ms": member.away_since_ms,
            "topics": member.topics,
            "owned": None if member.partitions is None else _by_topic(member.partitions),
            **_warm_view(member),
            "targets": _by_topic(targets[member.member_id]) if member.member_id in targets else {},
        }
        for member in sorted(group.members, key=lambda each: each.member_id)
    ]


def _warm_view(member: MemberDescription) -> dict[str, Any]:
    """The copies of state that a member keeps and makes, and how far behind they were."""
    lags, orders = member.lags, member.orders
    return {
        "standbys": None if orders is None else _by_topic(orders.standbys),
        "warming": None if orders is None else _by_topic(orders.warming),
        "lags": None if lags is None else _lags_by_topic(lags),
    }


def _lags_by_topic(lags: Mapping[TopicPartition, int | None]) -> dict[str, dict[str, int | None]]:
    found: dict[str, dict[str, int | None]] = {}
    for (topic, number), lag in sorted(lags.items()):
        found.setdefault(topic, {})[str(number)] = lag
    return found


def topic_view(topic: TopicListing) -> dict[str, Any]:
    """A topic."""
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else str(topic.topic_id),
        "partitions": topic.partitions,
        "internal": topic.internal,
    }


def acl_view(acl: Acl) -> dict[str, Any]:
    """An ACL, in Kafka's words."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": str(acl.permission),
        "operation": str(acl.operation),
        "resource": str(acl.resource),
        "name": acl.name,
        "pattern": str(acl.pattern),
    }


def user_view(user: UserDescription) -> dict[str, Any]:
    """A user, without anything that is secret."""
    return {"user": user.name, "mechanisms": {str(m): n for m, n in user.iterations.items()}}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return numbers
