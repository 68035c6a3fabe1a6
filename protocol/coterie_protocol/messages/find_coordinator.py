"""FindCoordinator (10): which node coordinates a group."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    INT8,
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
    "Coordinator",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]


@request(ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Ask for the coordinator of one key or, since version 4, of many."""

    key: str = field(STRING, versions="0-3", default="")
    key_type: int = field(INT8, versions="1+", default=0)
    coordinator_keys: tuple[str, ...] = field(Array(STRING), versions="4+", default=())


@struct()
class Coordinator:
    """The coordinator of a key, or an error."""

    key: str = field(STRING)
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")


@response(ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinators and their addresses."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, versions="0-3", default=0)
    error_message: str | None = field(
        STRING, versions="1-3", nullable="1-3", ignorable=True, default=""
    )
    node_id: int = field(INT32, versions="0-3", default=0)
    host: str = field(STRING, versions="0-3", default="")
    port: int = field(INT32, versions="0-3", default=0)
    coordinators: tuple[Coordinator, ...] = field(Array(Coordinator), versions="4+", default=())
