"""OffsetFetch (9): read a group's offsets."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


@struct()
class OffsetFetchRequestTopic:
    """The partitions of one topic, up to version 7."""

    name: str = field(STRING)
    partition_indexes: tuple[int, ...] = field(Array(INT32))


@struct()
class OffsetFetchRequestTopics:
    """The partitions of one topic, since version 8."""

    name: str = field(STRING)
    partition_indexes: tuple[int, ...] = field(Array(INT32))


@struct()
class OffsetFetchRequestGroup:
    """One group asked for, since version 8."""

    group_id: str = field(STRING)
    member_id: str | None = field(
        STRING, versions="9+", nullable="9+", ignorable=True, default=None
    )
    member_epoch: int = field(INT32, versions="9+", ignorable=True, default=-1)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = field(
        Array(OffsetFetchRequestTopics), nullable="0+"
    )


@request(ApiKey.OFFSET_FETCH, versions="0-9", flexible="6+")
class OffsetFetchRequest:
    """Ask for some or all (null) offsets of a group or, since version 8, of many groups."""

    group_id: str = field(STRING, versions="0-7", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = field(
        Array(OffsetFetchRequestTopic), versions="0-7", nullable="2-7", default=()
    )
    groups: tuple[OffsetFetchRequestGroup, ...] = field(
        Array(OffsetFetchRequestGroup), versions="8+", default=()
    )
    require_stable: bool = field(BOOL, versions="7+", default=False)


@struct()
class OffsetFetchResponsePartition:
    """The offset for one partition, up to version 7."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, versions="5-7", ignorable=True, default=-1)
    metadata: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16, default=0)


@struct()
class OffsetFetchResponseTopic:
    """The offsets for one topic, up to version 7."""

    name: str = field(STRING)
    partitions: tuple[OffsetFetchResponsePartition, ...] = field(
        Array(OffsetFetchResponsePartition)
    )


@struct()
class OffsetFetchResponsePartitions:
    """The offset for one partition, since version 8."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, default=-1)
    metadata: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16, default=0)


@struct()
class OffsetFetchResponseTopics:
    """The offsets for one topic, since version 8."""

    name: str = field(STRING)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = field(
        Array(OffsetFetchResponsePartitions)
    )


@struct()
class OffsetFetchResponseGroup:
    """The offsets of one group, since version 8."""

    group_id: str = field(STRING)
    topics: tuple[OffsetFetchResponseTopics, ...] = field(Array(OffsetFetchResponseTopics))
    error_code: int = field(INT16, default=0)


@response(ApiKey.OFFSET_FETCH, versions="0-9", flexible="6+")
class OffsetFetchResponse:
    """The offsets; -1 where none is stored."""

    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True, default=0)
    topics: tuple[OffsetFetchResponseTopic, ...] = field(
        Array(OffsetFetchResponseTopic), versions="0-7", default=()
    )
    error_code: int = field(INT16, versions="2-7", ignorable=True, default=0)
    groups: tuple[OffsetFetchResponseGroup, ...] = field(
        Array(OffsetFetchResponseGroup), versions="8+", default=()
    )
