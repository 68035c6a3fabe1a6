"""What members with state tell each other, in Kafka Streams' formats: reports, and orders.

A member that joins reports the state that it holds; the leader orders what it is to keep up to date
beside what it works on.  Both travel behind an assignor's own user data (`streams.envelope`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coterie_assignors import RUNNING, STALLED, UNKNOWN, Adjustment, MemberInfo, WarmReport
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.consumer import flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.streams import (
    LATEST_OFFSET,
    LATEST_VERSION,
    NAMED_TOPOLOGY_VERSION,
    NO_REBALANCE,
    UNKNOWN_OFFSET_SUM,
    AssignmentInfo,
    GroupVersions,
    SubscriptionInfo,
    TaskId,
    TopicTasks,
    UnknownVersionError,
    decode_assignment_info,
    decode_subscription_info,
    encode_assignment_info,
    encode_subscription_info,
)

__all__ = [
    "NO_REBALANCE",
    "Orders",
    "ReadReport",
    "encode_orders",
    "encode_report",
    "orders_of",
    "read_orders",
    "read_report",
]

Partitions: TypeAlias = frozenset[TopicPartition]

# A report's own sentinels are Kafka's; nothing has to be translated.  `STALLED` is no sentinel of
# Kafka's: whoever does not know it takes the lag for unknown.
assert (RUNNING, UNKNOWN) == (LATEST_OFFSET, UNKNOWN_OFFSET_SUM)


# -- reports ---------------------------------------------------------------------------------------


def encode_report(
    report: WarmReport, topics: Iterable[str], version: int, latest: int = LATEST_VERSION
) -> bytes:
    """Write the report of a member that subscribes to these topics, and knows versions to `latest`.

    It must name the member's process, and no other topics.
    """
    assert report.process is not None
    tasks = TopicTasks(topics)
    return encode_subscription_info(
        SubscriptionInfo(
            process_id=report.process,
            task_offset_sums={
                tasks.task_of(topic, number, version): lag
                for (topic, number), lag in sorted(report.lags.items())
            },
            client_tags=report.tags,
            version=version,
            latest_supported_version=latest,
        )
    )


@dataclass(frozen=True, slots=True)
class ReadReport:
    """A report as the leader reads it."""

    report: WarmReport
    #: The version in which it was written, and the latest that its member knows.
    version: int
    latest: int


def read_report(data: bytes, topics: Iterable[str], latest: int = LATEST_VERSION) -> ReadReport:
    """Read the report of a member that subscribes to these topics.

    What a report of a version beyond `latest` says is not known, so its member counts as one that
    holds state and is ready for nothing.  Raises `ProtocolError` if no member can have written it.
    """
    try:
        info = decode_subscription_info(data, latest)
    except UnknownVersionError as error:
        return ReadReport(WarmReport(), error.version, error.latest_supported)
    tasks = TopicTasks(topics)
    lags = {
        partition: lag if lag >= 0 or lag in (RUNNING, STALLED) else UNKNOWN
        for task, lag in info.task_offset_sums.items()
        if (partition := tasks.partition_of(task)) is not None
    }
    report = WarmReport(info.process_id, lags, info.client_tags)
    return ReadReport(report, info.version, info.latest_supported_version)


# -- orders ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Orders:
    """What a leader tells a member besides what it is to work on."""

    #: What it is to keep up to date, warm-ups included.
    standbys: Partitions = frozenset()
    warm_ups: Partitions = frozenset()
    #: By partition the member that is to work on it in the end, where another one does now.
    targets: Mapping[TopicPartition, str] = field(default_factory=dict)
    #: The time of day at which the member is to have the group rebalance.
    next_rebalance_ms: int = NO_REBALANCE
    #: The version in which they are written, and the latest that all members know.
    version: int = LATEST_VERSION
    commonly_supported: int = LATEST_VERSION

    @property
    def is_to_look_again(self) -> bool:
        """Whether the member is to have the group rebalance at that time."""
        return self.next_rebalance_ms != NO_REBALANCE


def orders_of(
    member: MemberInfo, adjustment: Adjustment, versions: GroupVersions, next_rebalance_ms: int
) -> Orders:
    """What a leader has decided for a member; of targets, those of what it has or is to have."""
    name = member.member_id
    warm_ups = flatten(adjustment.warmups.get(name, ()))
    owned = flatten(member.owned) | flatten(adjustment.assignment.get(name, ()))
    return Orders(
        standbys=flatten(adjustment.standbys.get(name, ())) | warm_ups,
        warm_ups=warm_ups,
        targets={
            partition: target
            for partition, target in adjustment.targets.items()
            if partition in owned or target == name
        },
        next_rebalance_ms=next_rebalance_ms,
        version=versions.used,
        commonly_supported=versions.commonly_supported,
    )


def encode_orders(orders: Orders, active: Partitions, topics: Iterable[str]) -> bytes:
    """Write orders for a member that subscribes to these topics, and is to work on `active`.

    Versions that know topics by their places can't name others; those are left out.
    """
    version, known = orders.version, frozenset(topics)
    tasks = TopicTasks(known)

    def named(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        has_names = version >= NAMED_TOPOLOGY_VERSION
        return sorted(each for each in partitions if has_names or each[0] in known)

    return encode_assignment_info(
        AssignmentInfo(
            active_tasks=tuple(tasks.task_of(*each, version) for each in named(active)),
            standby_tasks={
                tasks.task_of(*each, version): (each,) for each in named(orders.standbys)
            },
            next_rebalance_ms=orders.next_rebalance_ms,
            version=version,
            commonly_supported_version=orders.commonly_supported,
            warmups=frozenset(tasks.task_of(*each, version) for each in named(orders.warm_ups)),
            targets={
                tasks.task_of(*each, version): orders.targets[each]
                for each in named(orders.targets)
            },
        )
    )


def read_orders(
    data: bytes | None, topics: Iterable[str], latest: int = LATEST_VERSION
) -> Orders | None:
    """Read the orders for a member that subscribes to these topics; None if it can't, or none came.

    A leader writes what all members can read, so bytes that this one can't read are not meant for
    it.
    """
    if data is None:
        return None
    try:
        info = decode_assignment_info(data, latest)
    except ProtocolError:
        return None
    tasks = TopicTasks(topics)

    def partitions_of(found: Iterable[TaskId]) -> Partitions:
        pairs = (tasks.partition_of(each) for each in found)
        return frozenset(each for each in pairs if each is not None)

    return Orders(
        standbys=partitions_of(info.standby_tasks),
        warm_ups=partitions_of(info.warmups),
        targets={
            partition: member_id
            for task, member_id in info.targets.items()
            if (partition := tasks.partition_of(task)) is not None
        },
        next_rebalance_ms=info.next_rebalance_ms,
        version=info.version,
        commonly_supported=info.commonly_supported_version,
    )
