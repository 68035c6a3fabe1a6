"""DeleteTopics (20): delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
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
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]


@struct()
class DeleteTopicState:
    """A topic to delete, by name or by id."""

    name: str | None = field(STRING, nullable="0+", default=None)
    topic_id: uuid.UUID = field(UUID)


@request(ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete topics by name or, since version 6, by id."""

    topics: tuple[DeleteTopicState, ...] = field(Array(DeleteTopicState), versions="6+", default=())
    topic_names: tuple[str, ...] = field(Array(STRING), versions="0-5", ignorable=True, default=())
    timeout_ms: int = field(INT32)


@struct()
class DeletableTopicResult:
    """Whether one topic was deleted."""

    name: str | None = field(STRING, nullable="6+")
    topic_id: uuid.UUID = field(UUID, versions="6+", ignorable=True, default=NIL_UUID)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )


@response(ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """Whether each topic was deleted."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    responses: tuple[DeletableTopicResult, ...] = field(Array(DeletableTopicResult))
