"""ListOffsets (2): where a partition begins and ends."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    OWN_TAGS_FROM,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]


@struct()
class ListOffsetsPartition:
    """The time to look up in one partition."""

    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, versions="4+", ignorable=True, default=-1)
    timestamp: int = field(INT64)
    max_num_offsets: int = field(INT32, versions="0", default=1)


@struct()
class ListOffsetsTopic:
    """The times to look up in one topic."""

    name: str = field(STRING)
    partitions: tuple[ListOffsetsPartition, ...] = field(Array(ListOffsetsPartition))


@request(ApiKey.LIST_OFFSETS, versions="0-8", flexible="6+")
class ListOffsetsRequest:
    """Ask for offsets by time: -1 is the end, -2 the beginning."""

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, versions="2+", default=0)
    topics: tuple[ListOffsetsTopic, ...] = field(Array(ListOffsetsTopic))
    #: Coterie's own: asked by a node of another one, for what that knows by itself.
    by_itself: bool = field(BOOL, versions="6+", tag=OWN_TAGS_FROM, ignorable=True, default=False)


@struct()
class ListOffsetsPartitionResponse:
    """The offset in one partition."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16, default=0)
    old_style_offsets: tuple[int, ...] = field(Array(INT64), versions="0", default=())
    timestamp: int = field(INT64, versions="1+", default=-1)
    offset: int = field(INT64, versions="1+", default=-1)
    leader_epoch: int = field(INT32, versions="4+", default=-1)


@struct()
class ListOffsetsTopicResponse:
    """The offsets in one topic."""

    name: str = field(STRING)
    partitions: tuple[ListOffsetsPartitionResponse, ...] = field(
        Array(ListOffsetsPartitionResponse)
    )


@response(ApiKey.LIST_OFFSETS, versions="0-8", flexible="6+")
class ListOffsetsResponse:
    """The offsets asked for."""

    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True, default=0)
    topics: tuple[ListOffsetsTopicResponse, ...] = field(Array(ListOffsetsTopicResponse))
