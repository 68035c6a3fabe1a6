"""Fetch (1): records of partitions.  Coterie has none, but consumers ask."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "PartitionData",
    "SnapshotId",
]


@struct()
class FetchPartition:
    """What to fetch of one partition."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, versions="9+", ignorable=True, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, versions="12+", default=-1)
    log_start_offset: int = field(INT64, versions="5+", ignorable=True, default=-1)
    partition_max_bytes: int = field(INT32)


@struct()
class FetchTopic:
    """What to fetch of one topic."""

    topic: str = field(STRING)
    partitions: tuple[FetchPartition, ...] = field(Array(FetchPartition))


@struct()
class ForgottenTopic:
    """Partitions that the fetch session is to drop."""

    topic: str = field(STRING)
    partitions: tuple[int, ...] = field(Array(INT32))


@request(ApiKey.FETCH, versions="0-12", flexible="12+")
class FetchRequest:
    """Ask for records from given offsets on, and wait for them."""

    cluster_id: str | None = field(
        STRING, versions="12+", nullable="12+", tag=0, ignorable=True, default=None
    )
    replica_id: int = field(INT32, default=-1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, versions="3+", ignorable=True, default=0x7FFFFFFF)
    isolation_level: int = field(INT8, versions="4+", ignorable=True, default=0)
    session_id: int = field(INT32, versions="7+", ignorable=True, default=0)
    session_epoch: int = field(INT32, versions="7+", ignorable=True, default=-1)
    topics: tuple[FetchTopic, ...] = field(Array(FetchTopic))
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field(
        Array(ForgottenTopic), versions="7+", default=()
    )
    rack_id: str = field(STRING, versions="11+", ignorable=True, default="")


@struct()
class EpochEndOffset:
    """Where the log of a follower differs from its leader's."""

    epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@struct()
class LeaderIdAndEpoch:
    """Who leads a partition now."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@struct()
class SnapshotId:
    """A snapshot to be fetched instead."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@struct()
class AbortedTransaction:
    """A transaction whose records do not count."""

    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@struct()
class PartitionData:
    """What there is of one partition."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16, default=0)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, versions="4+", ignorable=True, default=-1)
    log_start_offset: int = field(INT64, versions="5+", ignorable=True, default=-1)
    diverging_epoch: EpochEndOffset = field(
        EpochEndOffset, versions="12+", tag=0, default=EpochEndOffset()
    )
    current_leader: LeaderIdAndEpoch = field(
        LeaderIdAndEpoch, versions="12+", tag=1, default=LeaderIdAndEpoch()
    )
    snapshot_id: SnapshotId = field(SnapshotId, versions="12+", tag=2, default=SnapshotId())
    aborted_transactions: tuple[AbortedTransaction, ...] | None = field(
        Array(AbortedTransaction), versions="4+", nullable="4+", ignorable=True, default=()
    )
    preferred_read_replica: int = field(INT32, versions="11+", default=-1)
    records: bytes | None = field(RECORDS, nullable="0+")


@struct()
class FetchableTopicResponse:
    """What there is of one topic."""

    topic: str = field(STRING)
    partitions: tuple[PartitionData, ...] = field(Array(PartitionData))


@response(ApiKey.FETCH, versions="0-12", flexible="12+")
class FetchResponse:
    """Records, or that there are none yet."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, versions="7+", ignorable=True, default=0)
    session_id: int = field(INT32, versions="7+", default=0)
    responses: tuple[FetchableTopicResponse, ...] = field(Array(FetchableTopicResponse))
