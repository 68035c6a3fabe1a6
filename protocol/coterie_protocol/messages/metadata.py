"""Metadata (3): the nodes, and the topics with their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
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
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]


@struct()
class MetadataRequestTopic:
    """A topic asked for, by name or, since version 10, by id."""

    topic_id: uuid.UUID = field(UUID, versions="10+", ignorable=True, default=NIL_UUID)
    name: str | None = field(STRING, nullable="10+")


# librdkafka asks for all topics by four zero bytes where a single one means null, so its request is
# longer than it should be (librdkafka #5049).
@request(ApiKey.METADATA, versions="0-12", flexible="9+", surplus="9+")
class MetadataRequest:
    """Ask for some topics, for all (null; in version 0 an empty list), or for none."""

    topics: tuple[MetadataRequestTopic, ...] | None = field(
        Array(MetadataRequestTopic), nullable="1+"
    )
    allow_auto_topic_creation: bool = field(BOOL, versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(BOOL, versions="8-10", default=False)
    include_topic_authorized_operations: bool = field(BOOL, versions="8+", default=False)


@struct()
class MetadataResponseBroker:
    """A node and its address."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, versions="1+", nullable="1+", ignorable=True, default=None)


@struct()
class MetadataResponsePartition:
    """A partition and the nodes that hold it."""

    error_code: int = field(INT16, default=0)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, versions="7+", ignorable=True, default=-1)
    replica_nodes: tuple[int, ...] = field(Array(INT32))
    isr_nodes: tuple[int, ...] = field(Array(INT32))
    offline_replicas: tuple[int, ...] = field(
        Array(INT32), versions="5+", ignorable=True, default=()
    )


@struct()
class MetadataResponseTopic:
    """A topic, or an error."""

    error_code: int = field(INT16, default=0)
    name: str | None = field(STRING, nullable="12+")
    topic_id: uuid.UUID = field(UUID, versions="10+", ignorable=True, default=NIL_UUID)
    is_internal: bool = field(BOOL, versions="1+", ignorable=True, default=False)
    partitions: tuple[MetadataResponsePartition, ...] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, versions="8+", default=-2147483648)


@response(ApiKey.METADATA, versions="0-12", flexible="9+")
class MetadataResponse:
    """The nodes, and the topics asked for."""

    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True, default=0)
    brokers: tuple[MetadataResponseBroker, ...] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(
        STRING, versions="2+", nullable="2+", ignorable=True, default=None
    )
    controller_id: int = field(INT32, versions="1+", ignorable=True, default=-1)
    topics: tuple[MetadataResponseTopic, ...] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, versions="8-10", default=-2147483648)
