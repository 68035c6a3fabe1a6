"""The same question put to the assignors of kafka-python and aiokafka."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from coterie_assignors import MemberInfo

with warnings.catch_warnings():
    # kafka-python reads its definitions with functions that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors import cooperative_sticky as kafka_cooperative
    from kafka.coordinator.assignors import range as kafka_range
    from kafka.coordinator.assignors import roundrobin as kafka_roundrobin
    from kafka.coordinator.assignors.sticky import sticky_assignor as kafka_sticky
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from aiokafka.coordinator.assignors import range as aio_range
from aiokafka.coordinator.assignors import roundrobin as aio_roundrobin
from aiokafka.coordinator.assignors.sticky import sticky_assignor as aio_sticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

__all__ = [
    "AIOKAFKA",
    "KAFKA_PYTHON",
    "Pairs",
    "StickyAssignorUserData",
    "ask_aiokafka",
    "ask_kafka_python",
    "for_aiokafka",
    "for_kafka_python",
    "kafka_python_sticky",
]

Pairs = dict[str, set[tuple[str, int]]]

KAFKA_PYTHON: Final[dict[str, Any]] = {
    "range": kafka_range.RangePartitionAssignor,
    "roundrobin": kafka_roundrobin.RoundRobinPartitionAssignor,
    "sticky": kafka_sticky.StickyPartitionAssignor,
    "cooperative-sticky": kafka_cooperative.CooperativeStickyAssignor,
}
AIOKAFKA: Final[dict[str, Any]] = {
    "range": aio_range.RangePartitionAssignor,
    "roundrobin": aio_roundrobin.RoundRobinPartitionAssignor,
    "sticky": aio_sticky.StickyPartitionAssignor,
}
kafka_python_sticky: Final[Any] = kafka_sticky.StickyPartitionAssignor


def ask_kafka_python(
    name: str, topics: Mapping[str, int], members: Mapping[str, MemberInfo]
) -> Pairs:
    """What kafka-python's assignor of this name answers."""
    answer = KAFKA_PYTHON[name]().assign(*for_kafka_python(topics, members))
    return {member: _pairs(given.assigned_partitions) for member, given in answer.items()}


def ask_aiokafka(name: str, topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> Pairs:
    """What aiokafka's assignor of this name answers; it knows no static members."""
    answer = AIOKAFKA[name].assign(*for_aiokafka(topics, members))
    return {member: _pairs(given.assignment) for member, given in answer.items()}


def for_kafka_python(
    topics: Mapping[str, int], members: Mapping[str, MemberInfo]
) -> tuple[Any, Any]:
    """What kafka-python's assignors are called with."""
    asked = [
        SimpleNamespace(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=_subscription(member),
        )
        for member in members.values()
    ]
    return _cluster(topics), asked


def for_aiokafka(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> tuple[Any, Any]:
    """What aiokafka's assignors are called with."""
    asked = {
        member.member_id: ConsumerProtocolMemberMetadata(
            0, list(member.topics), member.user_data or b""
        )
        for member in members.values()
    }
    return _cluster(topics), asked


def _subscription(member: MemberInfo) -> Any:
    entry = ConsumerProtocolSubscription.TopicPartition
    return ConsumerProtocolSubscription(
        version=2,
        topics=list(member.topics),
        user_data=member.user_data or b"",
        owned_partitions=[
            entry(topic=e.topic, partitions=list(e.partitions)) for e in member.owned
        ],
        generation_id=member.generation,
    )


def _cluster(topics: Mapping[str, int]) -> Any:
    numbers = {topic: set(range(count)) for topic, count in topics.items()}
    return SimpleNamespace(
        topics=lambda: set(numbers),
        partitions_for_topic=numbers.get,
    )


def _pairs(given: Any) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for entry in given:
        topic, numbers = entry if isinstance(entry, tuple) else (entry.topic, entry.partitions)
        found.update((topic, number) for number in numbers)
    return found
