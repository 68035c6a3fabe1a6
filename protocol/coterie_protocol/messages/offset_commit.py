"""OffsetCommit (8): store a group's offsets."""

from __future__ import annotations

from collections.abc import Sequence

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
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
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]


@struct()
class OffsetCommitRequestPartition:
    """The offset for one partition."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, versions="6+", ignorable=True, default=-1)
    commit_timestamp: int = field(INT64, versions="1", default=-1)
    committed_metadata: str | None = field(STRING, nullable="0+")


@struct()
class OffsetCommitRequestTopic:
    """The offsets for one topic."""

    name: str = field(STRING)
    #: A tuple, or `committed.CommittedPartitions`.
    partitions: Sequence[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


@request(ApiKey.OFFSET_COMMIT, versions="0-9", flexible="8+")
class OffsetCommitRequest:
    """Store offsets of a group."""

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, versions="1+", ignorable=True, default=-1)
    member_id: str = field(STRING, versions="1+", ignorable=True, default="")
    group_instance_id: str | None = field(STRING, versions="7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, versions="2-4", ignorable=True, default=-1)
    topics: tuple[OffsetCommitRequestTopic, ...] = field(Array(OffsetCommitRequestTopic))
    #: Coterie's own: grows with each commit of a member; -1 if the member does not number them.
    sequence: int = field(INT64, versions="8+", tag=OWN_TAGS_FROM, ignorable=True, default=-1)


@struct()
class OffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16, default=0)


@struct()
class OffsetCommitResponseTopic:
    """The results for one topic."""

    name: str = field(STRING)
    partitions: tuple[OffsetCommitResponsePartition, ...] = field(
        Array(OffsetCommitResponsePartition)
    )


@response(ApiKey.OFFSET_COMMIT, versions="0-9", flexible="8+")
class OffsetCommitResponse:
    """Whether each offset was stored."""

    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True, default=0)
    topics: tuple[OffsetCommitResponseTopic, ...] = field(Array(OffsetCommitResponseTopic))
