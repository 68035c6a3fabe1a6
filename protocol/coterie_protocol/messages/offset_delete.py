"""OffsetDelete (47): delete offsets of a group."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, INT32, STRING, Array, field, request, response, struct

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]


@struct()
class OffsetDeleteRequestPartition:
    """A partition whose offset is to be deleted."""

    partition_index: int = field(INT32)


@struct()
class OffsetDeleteRequestTopic:
    """The offsets for one topic."""

    name: str = field(STRING)
    partitions: tuple[OffsetDeleteRequestPartition, ...] = field(
        Array(OffsetDeleteRequestPartition)
    )


@request(ApiKey.OFFSET_DELETE, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Delete offsets of topics that the group is not subscribed to."""

    group_id: str = field(STRING)
    topics: tuple[OffsetDeleteRequestTopic, ...] = field(Array(OffsetDeleteRequestTopic))


@struct()
class OffsetDeleteResponsePartition:
    """The result for one partition."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16, default=0)


@struct()
class OffsetDeleteResponseTopic:
    """The results for one topic."""

    name: str = field(STRING)
    partitions: tuple[OffsetDeleteResponsePartition, ...] = field(
        Array(OffsetDeleteResponsePartition)
    )


@response(ApiKey.OFFSET_DELETE, versions="0", flexible="none")
class OffsetDeleteResponse:
    """Whether each offset was deleted."""

    error_code: int = field(INT16, default=0)
    throttle_time_ms: int = field(INT32, default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = field(Array(OffsetDeleteResponseTopic))
