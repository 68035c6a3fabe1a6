"""What members tell each other inside JoinGroup and SyncGroup, in bytes opaque to Kafka's brokers.

A member that joins offers its subscription, once for each of its assignors.  The leader reads the
subscriptions of all members, has the assignor decide, and writes an assignment for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from coterie_assignors import (
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    RebalanceProtocol,
    lead,
)
from coterie_assignors.base import Partitions
from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_client.membership.context import Outbox
from coterie_client.membership.events import LeaderDecided, SubscriptionUnreadable
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie_protocol.messages.sync_group import SyncGroupRequestAssignment

__all__ = [
    "PROTOCOL_TYPE",
    "common_protocol",
    "decide",
    "offers",
    "read_assignment",
    "read_members",
    "topics_of",
]

#: The `protocol_type` of groups whose members write such bytes.
PROTOCOL_TYPE: Final = "consumer"


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest rebalance protocol that all of a member's assignors support.

    So a group goes over from eager to cooperative in two rolling restarts: in the first, members
    list both kinds and stay eager; in the second, they drop the eager one.
    """
    if not assignors:
        checks.must_be("assignors", "a list of assignors, at least one", assignors)
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.protocols)
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ConfigurationError(
            f"assignors must have a rebalance protocol in common, and these have none: {names}"
        )
    return max(common, key=lambda protocol: protocol.value)


def offers(
    assignors: Sequence[Assignor],
    topics: Collection[str],
    had: Claim,
    *,
    keeps: bool,
    refused: Partitions = (),
    rack: str | None,
) -> tuple[JoinGroupRequestProtocol, ...]:
    """A member's subscription in each assignor's terms, the preferred one first.

    `had` is what the member owned last, and `keeps` whether it still does; `refused` is what it
    can't work on.
    """
    return tuple(
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    topics=tuple(sorted(topics)),
                    user_data=assignor.subscription_user_data(topics, had.owned, had.generation),
                    owned_partitions=had.owned if keeps else (),
                    generation_id=had.generation,
                    rack_id=rack,
                    refused_partitions=refused,
                )
            ),
        )
        for assignor in assignors
    )


def read_assignment(data: bytes) -> Assignment:
    """Read what a member was assigned; no bytes at all mean that it is nothing."""
    return decode_assignment(data) if data else Assignment(assigned_partitions=())


# -- the leader ------------------------------------------------------------------------------------


def read_members(answer: JoinGroupResponse, outbox: Outbox) -> dict[str, MemberInfo]:
    """Read the members' subscriptions; a member whose subscription is unreadable gets nothing."""
    return {
        member.member_id: _with_absence(
            _read(member, outbox), member.away_with, answer.generation_id
        )
        for member in answer.members
    }


def topics_of(members: Mapping[str, MemberInfo]) -> frozenset[str]:
    """All topics that any of the members subscribed to."""
    return frozenset(topic for member in members.values() for topic in member.topics)


def decide(
    assignor: Assignor,
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    generation: int,
    outbox: Outbox,
) -> tuple[SyncGroupRequestAssignment, ...]:
    """Share out the partitions: each member's assignment, ready to send."""
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
    outbox.report(
        LeaderDecided(
            generation=generation,
            members=len(assignments),
            partitions=_count(adjustment.assignment),
            withheld=_count(adjustment.withheld),
        )
    )
    return assignments


def _count(shares: Mapping[str, Partitions]) -> int:
    return sum(len(entry.partitions) for partitions in shares.values() for entry in partitions)


def _with_absence(info: MemberInfo, away_with: bytes | None, generation: int) -> MemberInfo:
    """What is known of a member that may be away, by what it was assigned last."""
    if away_with is None:
        return info
    try:
        had = read_assignment(away_with).assigned_partitions
    except ProtocolError:
        had = ()
    # That is no older than what the others say, who had theirs in a former generation.
    return replace(info, is_away=True, owned=had, generation=generation - 1)


def _read(member: JoinGroupResponseMember, outbox: Outbox) -> MemberInfo:
    name, instance = member.member_id, member.group_instance_id
    try:
        subscription = decode_subscription(member.metadata)
    except ProtocolError as error:
        outbox.report(SubscriptionUnreadable(member_id=name, reason=str(error)))
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
