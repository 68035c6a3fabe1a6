"""The bytes of subscriptions and assignments of Kafka Streams, declared field by field.

`subscription` and `assignment` turn these structures into what one works with, and back.
"""

from __future__ import annotations

import uuid

from coterie_protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    field,
    struct,
)

__all__ = [
    "AssignmentInfoData",
    "ClientTagData",
    "HostPartitionsData",
    "NumberedHostPartitionsData",
    "NumberedPartitionData",
    "NumberedTopicData",
    "OffsetSumData",
    "PlainTaskData",
    "StandbyTaskData",
    "SubscriptionInfoData",
    "TargetData",
    "TaskData",
    "TaskOffsetSumData",
    "TaskReferenceData",
    "TopicPartitionData",
    "WarmData",
]

# Subscriptions


@struct()
class PlainTaskData:
    """A task as versions 1 to 6 of a subscription name it."""

    subtopology: int = field(INT32)
    partition: int = field(INT32)


@struct()
class OffsetSumData:
    """What a member holds of one partition, in versions 7 to 9."""

    partition: int = field(INT32)
    offset_sum: int = field(INT64)


@struct()
class TaskOffsetSumData:
    """What a member holds of one task; in versions 7 to 9, of all tasks of one subtopology."""

    subtopology: int = field(INT32)
    partition: int = field(INT32, versions="10+", default=0)
    offset_sum: int = field(INT64, versions="10+", default=0)
    topology: str | None = field(STRING, versions="10+", nullable="10+", default=None)
    partitions: tuple[OffsetSumData, ...] = field(Array(OffsetSumData), versions="7-9", default=())


@struct()
class ClientTagData:
    """A tag of the member's process, both parts in UTF-8."""

    key: bytes = field(BYTES)
    value: bytes = field(BYTES)


@struct(versions="1-11")
class SubscriptionInfoData:
    """Kafka's SubscriptionInfoData."""

    version: int = field(INT32)
    latest_supported_version: int = field(INT32, versions="3+", ignorable=True, default=-1)
    process_id: uuid.UUID = field(UUID)
    active_tasks: tuple[PlainTaskData, ...] = field(
        Array(PlainTaskData), versions="1-6", default=()
    )
    standby_tasks: tuple[PlainTaskData, ...] = field(
        Array(PlainTaskData), versions="1-6", default=()
    )
    user_endpoint: bytes = field(BYTES, versions="2+", ignorable=True, default=b"")
    task_offset_sums: tuple[TaskOffsetSumData, ...] = field(
        Array(TaskOffsetSumData), versions="7+", default=()
    )
    unique_field: int = field(INT8, versions="8+", ignorable=True, default=0)
    error_code: int = field(INT32, versions="9+", ignorable=True, default=0)
    client_tags: tuple[ClientTagData, ...] = field(
        Array(ClientTagData), versions="11+", ignorable=True, default=()
    )


# Assignments.  Java writes their strings as "modified UTF-8", which is UTF-8 for all but NUL and
# characters beyond U+FFFF, and the names of topologies in UTF-16, of which the count is in units.


@struct()
class TaskData:
    """A task as assignments name it."""

    subtopology: int = field(INT32)
    partition: int = field(INT32)
    topology: tuple[int, ...] = field(Array(INT16), versions="10+", default=())


@struct()
class TopicPartitionData:
    """A partition with its topic's name."""

    topic: str = field(STRING)
    partition: int = field(INT32)


@struct()
class StandbyTaskData:
    """A task whose state the member keeps up to date, and the partitions that its state is of."""

    task: TaskData = field(TaskData)
    partitions: tuple[TopicPartitionData, ...] = field(Array(TopicPartitionData))


@struct()
class HostPartitionsData:
    """The partitions at one endpoint, in versions 2 to 4."""

    host: str = field(STRING)
    port: int = field(INT32)
    partitions: tuple[TopicPartitionData, ...] = field(Array(TopicPartitionData))


@struct()
class NumberedTopicData:
    """A topic that gets a number, so that its name is written only once."""

    number: int = field(INT32)
    topic: str = field(STRING)


@struct()
class NumberedPartitionData:
    """A partition with its topic's number."""

    topic: int = field(INT32)
    partition: int = field(INT32)


@struct()
class NumberedHostPartitionsData:
    """The partitions at one endpoint, since version 5."""

    host: str = field(STRING)
    port: int = field(INT32)
    partitions: tuple[NumberedPartitionData, ...] = field(Array(NumberedPartitionData))


@struct(versions="1-11")
class AssignmentInfoData:
    """Kafka's AssignmentInfo, which Kafka declares nowhere but in code."""

    version: int = field(INT32)
    commonly_supported_version: int = field(INT32, versions="3+", ignorable=True, default=-1)
    active_tasks: tuple[TaskData, ...] = field(Array(TaskData))
    standby_tasks: tuple[StandbyTaskData, ...] = field(Array(StandbyTaskData))
    hosts: tuple[HostPartitionsData, ...] = field(
        Array(HostPartitionsData), versions="2-4", default=()
    )
    topics: tuple[NumberedTopicData, ...] = field(
        Array(NumberedTopicData), versions="5+", default=()
    )
    numbered_hosts: tuple[NumberedHostPartitionsData, ...] = field(
        Array(NumberedHostPartitionsData), versions="5+", default=()
    )
    standby_hosts: tuple[NumberedHostPartitionsData, ...] = field(
        Array(NumberedHostPartitionsData), versions="6+", default=()
    )
    error_code: int = field(INT32, versions="4+", ignorable=True, default=0)
    next_rebalance_ms: int = field(INT64, versions="7+", ignorable=True, default=2**63 - 1)


# Coterie's own


@struct()
class TaskReferenceData:
    """A task that the assignment speaks of."""

    subtopology: int = field(INT32)
    partition: int = field(INT32)
    topology: str | None = field(STRING, nullable="0+", default=None)


@struct()
class TargetData:
    """A task that is to go to another member than the one that works on it now."""

    task: TaskReferenceData = field(TaskReferenceData)
    member_id: str = field(STRING)


@struct(versions="0", flexible="0+")
class WarmData:
    """Follows the assignment of a Coterie leader while tasks are on their way."""

    warmups: tuple[TaskReferenceData, ...] = field(Array(TaskReferenceData))
    targets: tuple[TargetData, ...] = field(Array(TargetData))
