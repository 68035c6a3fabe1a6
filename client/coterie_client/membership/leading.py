"""What a leader does: read what everybody wants, have the assignor decide, write it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie_assignors import Adjustment, Assignor, Cluster, MemberInfo, lead
from coterie_client.membership.events import SubscriptionUnreadable
from coterie_client.membership.post import Post
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    decode_subscription,
    encode_assignment,
)
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages.join_group import JoinGroupResponseMember
from coterie_protocol.messages.sync_group import SyncGroupRequestAssignment

__all__ = ["Decision", "decide", "read_members", "topics_of"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Who is to own what, ready to send."""

    assignments: tuple[SyncGroupRequestAssignment, ...]
    partitions: int
    withheld: int


def read_members(members: Sequence[JoinGroupResponseMember], post: Post) -> dict[str, MemberInfo]:
    """Read the members' subscriptions; one that can't be read wants nothing."""
    return {member.member_id: _read(member, post) for member in members}


def topics_of(members: Mapping[str, MemberInfo]) -> frozenset[str]:
    """All topics that anybody wants."""
    return frozenset(topic for member in members.values() for topic in member.topics)


def decide(assignor: Assignor, cluster: Cluster, members: Mapping[str, MemberInfo]) -> Decision:
    """Share out the partitions."""
    adjustment = lead(assignor, cluster, members)
    code = NEEDS_REJOIN if adjustment.needs_rejoin else 0
    assignments = tuple(
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(
                Assignment(assigned_partitions=partitions, error_code=code)
            ),
        )
        for member_id, partitions in adjustment.assignment.items()
    )
    return Decision(assignments, *_counts(adjustment))


def _counts(adjustment: Adjustment) -> tuple[int, int]:
    given, withheld = (
        sum(len(entry.partitions) for partitions in each.values() for entry in partitions)
        for each in (adjustment.assignment, adjustment.withheld)
    )
    return given, withheld


def _read(member: JoinGroupResponseMember, post: Post) -> MemberInfo:
    name, instance = member.member_id, member.group_instance_id
    try:
        subscription = decode_subscription(member.metadata)
    except ProtocolError as error:
        post.report(SubscriptionUnreadable(member_id=name, reason=str(error)))
        return MemberInfo(member_id=name, instance_id=instance, topics=())
    return MemberInfo(
        member_id=name,
        instance_id=instance,
        topics=subscription.topics,
        owned=subscription.owned_partitions,
        generation=subscription.generation_id,
        rack=subscription.rack_id,
        refused=subscription.refused_partitions,
        user_data=subscription.user_data,
    )
