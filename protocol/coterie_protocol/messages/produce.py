"""Produce (0): append records.  Coterie stores none and always refuses."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
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
    "BatchIndexAndErrorMessage",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


@struct()
class PartitionProduceData:
    """Records for one partition."""

    index: int = field(INT32)
    records: bytes | None = field(RECORDS, nullable="0+")


@struct()
class TopicProduceData:
    """Records for one topic."""

    name: str = field(STRING)
    partition_data: tuple[PartitionProduceData, ...] = field(Array(PartitionProduceData))


@request(ApiKey.PRODUCE, versions="0-9", flexible="9+")
class ProduceRequest:
    """Append records to partitions."""

    transactional_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: tuple[TopicProduceData, ...] = field(Array(TopicProduceData))


@struct()
class BatchIndexAndErrorMessage:
    """A batch that was refused."""

    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable="0+", default=None)


@struct()
class PartitionProduceResponse:
    """The result for one partition."""

    index: int = field(INT32)
    error_code: int = field(INT16, default=0)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, versions="2+", ignorable=True, default=-1)
    log_start_offset: int = field(INT64, versions="5+", ignorable=True, default=-1)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = field(
        Array(BatchIndexAndErrorMessage), versions="8+", ignorable=True, default=()
    )
    error_message: str | None = field(
        STRING, versions="8+", nullable="8+", ignorable=True, default=None
    )


@struct()
class TopicProduceResponse:
    """The results for one topic."""

    name: str = field(STRING)
    partition_responses: tuple[PartitionProduceResponse, ...] = field(
        Array(PartitionProduceResponse)
    )


@response(ApiKey.PRODUCE, versions="0-9", flexible="9+")
class ProduceResponse:
    """The errors, since nothing is appended."""

    responses: tuple[TopicProduceResponse, ...] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
