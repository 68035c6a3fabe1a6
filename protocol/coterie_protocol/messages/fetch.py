"""Fetch (1): records of partitions.  Coterie has none, but consumers ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    NIL_UUID,
    RECORDS,
    STRING,
    UUID,
    Array,
    field,
    request,
    response,
    struct,
)

if TYPE_CHECKING:
    import uuid

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
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]

_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF


@struct()
class FetchPartition:
    """What to fetch of one partition."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, versions="9+", ignorable=True, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, versions="12+", default=-1)
    log_start_offset: int = field(INT64, versions="5+", ignorable=True, default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: uuid.UUID = field(
        UUID, versions="17+", tag=0, ignorable=True, default=NIL_UUID
    )
    high_watermark: int = field(INT64, versions="18+", tag=1, ignorable=True, default=_INT64_MAX)


@struct()
class FetchTopic:
    """What to fetch of one topic, by name or, since version 13, by id."""

    topic: str = field(STRING, versions="0-12", ignorable=True, default="")
    topic_id: uuid.UUID = field(UUID, versions="13+", ignorable=True, default=NIL_UUID)
    partitions: tuple[FetchPartition, ...] = field(Array(FetchPartition))


@struct()
class ForgottenTopic:
    """Partitions that the fetch session is to drop."""

    topic: str = field(STRING, versions="0-12", ignorable=True, default="")
    topic_id: uuid.UUID = field(UUID, versions="13+", ignorable=True, default=NIL_UUID)
    partitions: tuple[int, ...] = field(Array(INT32))


@struct()
class ReplicaState:
    """The broker that fetches, if it is a broker."""

    replica_id: int = field(INT32, default=-1)
    replica_epoch: int = field(INT64, default=-1)


@request(ApiKey.FETCH, versions="0-18", flexible="12+")
class FetchRequest:
    """Ask for records from given offsets on, and wait until there are some."""

    cluster_id: str | None = field(
        STRING, versions="12+", nullable="12+", tag=0, ignorable=True, default=None
    )
    replica_id: int = field(INT32, versions="0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, versions="15+", tag=1, default=ReplicaState())
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
    """The place from which a follower's log differs from its leader's."""

    epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@struct()
class LeaderIdAndEpoch:
    """The current leader of a partition."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@struct()
class SnapshotId:
    """A snapshot to fetch instead."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@struct()
class AbortedTransaction:
    """A transaction whose records are to be skipped."""

    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@struct()
class PartitionData:
    """The records of one partition."""

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
    """The records of one topic, by name or, since version 13, by id."""

    topic: str = field(STRING, versions="0-12", ignorable=True, default="")
    topic_id: uuid.UUID = field(UUID, versions="13+", ignorable=True, default=NIL_UUID)
    partitions: tuple[PartitionData, ...] = field(Array(PartitionData))


@struct()
class NodeEndpoint:
    """The address of a broker that leads partitions."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


@response(ApiKey.FETCH, versions="0-18", flexible="12+")
class FetchResponse:
    """Records, if there are any yet."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, versions="7+", ignorable=True, default=0)
    session_id: int = field(INT32, versions="7+", default=0)
    responses: tuple[FetchableTopicResponse, ...] = field(Array(FetchableTopicResponse))
    node_endpoints: tuple[NodeEndpoint, ...] = field(
        Array(NodeEndpoint), versions="16+", tag=0, default=()
    )
