"""What members tell each other inside JoinGroup and SyncGroup, in bytes opaque to Kafka's brokers.

A member that joins offers its subscription, once for each of its assignors.  The leader reads the
subscriptions of all members, has the assignor decide, and writes an assignment for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coterie_assignors import (
    Adjustment,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Operations,
    Plan,
    RebalanceProtocol,
    WarmReport,
    WarmSettings,
    lead,
    next_probing_ms,
)
from coterie_assignors.base import Partitions
from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_client.membership.context import Outbox
from coterie_client.membership.events import (
    LeaderDecided,
    ReportUnreadable,
    SubscriptionUnreadable,
)
from coterie_client.membership.operations import read_operations
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flatten,
)
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.member_data import MemberData, join_member_data, split_member_data
from coterie_protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie_protocol.messages.sync_group import SyncGroupRequestAssignment
from coterie_protocol.streams import (
    LATEST_VERSION,
    GroupVersions,
    join_user_data,
    split_user_data,
)

__all__ = [
    "PROTOCOL_TYPE",
    "Leadership",
    "Outcome",
    "Roster",
    "common_protocol",
    "decide",
    "offers",
    "read_assignment",
    "read_members",
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
    report: bytes | None = None,
    told: MemberData | None = None,
) -> tuple[JoinGroupRequestProtocol, ...]:
    """A member's subscription in each assignor's terms, the preferred one first.

    `had` is what the member owned last, and `keeps` whether it still does; `refused` is what it
    can't work on, `report` tells of the state that it holds, if it does, and `told` is what it
    tells of itself.
    """
    return tuple(
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    topics=tuple(sorted(topics)),
                    user_data=_with_blocks(
                        assignor.subscription_user_data(topics, had.owned, had.generation),
                        report,
                        told,
                    ),
                    owned_partitions=had.owned if keeps else (),
                    generation_id=had.generation,
                    rack_id=rack,
                    refused_partitions=refused,
                )
            ),
        )
        for assignor in assignors
    )


def _with_blocks(own: bytes | None, report: bytes | None, told: MemberData | None) -> bytes | None:
    data = own if report is None else join_user_data(own, report)
    return data if told is None else join_member_data(data, told)


def read_assignment(data: bytes) -> Assignment:
    """Read what a member was assigned; no bytes at all mean that it is nothing."""
    return decode_assignment(data) if data else Assignment(assigned_partitions=())


# -- the leader ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of a generation, as its leader reads their subscriptions."""

    members: Mapping[str, MemberInfo] = field(default_factory=dict)
    #: In which version the leader writes to those that report state.
    versions: GroupVersions = field(default_factory=GroupVersions)
    #: What administrators have ordered; None if that is nothing.
    operations: Operations | None = None

    @property
    def topics(self) -> frozenset[str]:
        """All topics that any of the members subscribed to."""
        return frozenset(topic for member in self.members.values() for topic in member.topics)


def read_members(answer: JoinGroupResponse, outbox: Outbox, latest: int = LATEST_VERSION) -> Roster:
    """Read the members' subscriptions; a member whose subscription is unreadable gets nothing.

    `latest` is the latest version of reports that this leader knows.
    """
    versions: list[tuple[int, int]] = []
    found: dict[str, MemberInfo] = {}
    for member in answer.members:
        said, block = _read(member, outbox)
        info = _with_report(said, block, outbox, latest, versions)
        found[member.member_id] = _with_absence(info, member.away_with, answer.generation_id)
    return Roster(found, GroupVersions.of(versions, latest), read_operations(answer))


@dataclass(frozen=True, slots=True)
class Leadership:
    """What a leader decides by, besides the members and their topics."""

    generation: int
    #: The leader's own member id.
    leader: str
    settings: WarmSettings
    #: The time of day.
    wall_ms: int
    #: What is left to do of what it decided for the generation before, if it led that.
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a leader decided."""

    #: Each member's assignment, ready to send.
    assignments: tuple[SyncGroupRequestAssignment, ...]
    #: Whether this is what the assignor wants in the end: nothing waits until state has moved, or
    #: is where an administrator wants it.
    is_final: bool
    #: What is left to do in later generations.
    plan: Plan | None = None


def decide(
    assignor: Assignor, cluster: Cluster, roster: Roster, by: Leadership, outbox: Outbox
) -> Outcome:
    """Share out the partitions."""
    adjustment = lead(assignor, cluster, roster.members, by.settings, roster.operations, by.plan)
    code = NEEDS_REJOIN if adjustment.needs_rejoin else 0
    assignments = tuple(
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(
                Assignment(
                    assigned_partitions=partitions,
                    user_data=_orders(roster, member_id, adjustment, by),
                    error_code=code,
                )
            ),
        )
        for member_id, partitions in adjustment.assignment.items()
    )
    outbox.report(
        LeaderDecided(
            generation=by.generation,
            members=len(assignments),
            partitions=_count(adjustment.assignment),
            withheld=_count(adjustment.withheld),
            warming_up=_count(adjustment.warmups),
            standbys=_count(adjustment.standbys),
        )
    )
    # What is ordered may keep the group from what the assignor would want.
    is_final = adjustment.is_final and roster.operations is None
    return Outcome(assignments, is_final, adjustment.plan)


def _orders(roster: Roster, member_id: str, adjustment: Adjustment, by: Leadership) -> bytes | None:
    """What a member is told besides its partitions, if it has to be told anything.

    Only the leader is told when to look again: it is the one that is there for certain as long as
    this assignment stands.
    """
    member = roster.members[member_id]
    looks_again = member_id == by.leader and not adjustment.is_final
    if member.warm is None and not looks_again:
        return None
    from coterie_client.membership.warm_blocks import NO_REBALANCE, encode_orders, orders_of

    next_ms = NO_REBALANCE
    if looks_again:
        next_ms = next_probing_ms(by.wall_ms, by.settings.probing_rebalance_interval_ms)
        next_ms = min(next_ms, NO_REBALANCE)  # all that the field has room for
    orders = orders_of(member, adjustment, roster.versions, next_ms)
    active = flatten(adjustment.assignment[member_id])
    return join_user_data(None, encode_orders(orders, active, member.topics))


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


def _read(member: JoinGroupResponseMember, outbox: Outbox) -> tuple[MemberInfo, bytes | None]:
    """What a member says, and the block in which it reports its state, if it does."""
    name, instance = member.member_id, member.group_instance_id
    try:
        subscription = decode_subscription(member.metadata)
    except ProtocolError as error:
        outbox.report(SubscriptionUnreadable(member_id=name, reason=str(error)))
        return MemberInfo(member_id=name, instance_id=instance, topics=()), None
    # What members tell of themselves is not for assignors, whose own data may have to end there.
    data, _ = split_member_data(subscription.user_data)
    own, block = split_user_data(data)
    info = MemberInfo(
        member_id=name,
        instance_id=instance,
        topics=subscription.topics,
        owned=subscription.owned_partitions,
        generation=subscription.generation_id,
        rack=subscription.rack_id,
        refused=subscription.refused_partitions,
        user_data=own,
    )
    return info, block


def _with_report(
    member: MemberInfo,
    block: bytes | None,
    outbox: Outbox,
    latest: int,
    versions: list[tuple[int, int]],
) -> MemberInfo:
    """Add what a member reports, and note its versions."""
    if block is None:
        return member
    from coterie_client.membership.warm_blocks import read_report

    try:
        read = read_report(block, member.topics, latest)
    except ProtocolError as error:
        outbox.report(ReportUnreadable(member_id=member.member_id, reason=str(error)))
        return replace(member, warm=WarmReport())
    versions.append((read.version, read.latest))
    return replace(member, warm=read.report)
