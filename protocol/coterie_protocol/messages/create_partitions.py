"""CreatePartitions (37): raise the number of partitions of topics."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]


@struct()
class CreatePartitionsAssignment:
    """The nodes that are to hold one new partition."""

    broker_ids: tuple[int, ...] = field(Array(INT32))


@struct()
class CreatePartitionsTopic:
    """A topic, and how many partitions it is to have."""

    name: str = field(STRING)
    count: int = field(INT32)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = field(
        Array(CreatePartitionsAssignment), nullable="0+"
    )


@request(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Raise the number of partitions of topics, or only check that it could be done."""

    topics: tuple[CreatePartitionsTopic, ...] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@struct()
class CreatePartitionsTopicResult:
    """Whether one topic has grown."""

    name: str = field(STRING)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+", default=None)


@response(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """Whether each topic has grown."""

    throttle_time_ms: int = field(INT32, default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = field(Array(CreatePartitionsTopicResult))
