"""CreateTopics (19): create topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    NIL_UUID,
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
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]


@struct()
class CreatableReplicaAssignment:
    """The nodes that are to hold one partition."""

    partition_index: int = field(INT32)
    broker_ids: tuple[int, ...] = field(Array(INT32))


@struct()
class CreatableTopicConfig:
    """A setting of a topic to create."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


@struct()
class CreatableTopic:
    """A topic to create."""

    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: tuple[CreatableReplicaAssignment, ...] = field(Array(CreatableReplicaAssignment))
    configs: tuple[CreatableTopicConfig, ...] = field(Array(CreatableTopicConfig))


@request(ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Create topics, or only check that they could be created."""

    topics: tuple[CreatableTopic, ...] = field(Array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, versions="1+", default=False)


@struct()
class CreatableTopicConfigs:
    """A setting of a created topic."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)


@struct()
class CreatableTopicResult:
    """Whether one topic was created."""

    name: str = field(STRING)
    topic_id: uuid.UUID = field(UUID, versions="7+", ignorable=True, default=NIL_UUID)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(
        STRING, versions="1+", nullable="1+", ignorable=True, default=""
    )
    topic_config_error_code: int = field(INT16, versions="5+", tag=0, ignorable=True, default=0)
    num_partitions: int = field(INT32, versions="5+", ignorable=True, default=-1)
    replication_factor: int = field(INT16, versions="5+", ignorable=True, default=-1)
    configs: tuple[CreatableTopicConfigs, ...] | None = field(
        Array(CreatableTopicConfigs), versions="5+", nullable="5+", ignorable=True, default=()
    )


@response(ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """Whether each topic was created, and how."""

    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True, default=0)
    topics: tuple[CreatableTopicResult, ...] = field(Array(CreatableTopicResult))
