"""SyncGroup (14): distribute the assignment; the second phase of a rebalance."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    BYTES,
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
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]


@struct()
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@request(ApiKey.SYNC_GROUP, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """The leader sends all assignments; the other members ask for theirs."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )
    protocol_name: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )
    assignments: tuple[SyncGroupRequestAssignment, ...] = field(Array(SyncGroupRequestAssignment))
    #: Coterie's own: asks for a fencing token.
    wants_token: bool = field(BOOL, versions="4+", tag=OWN_TAGS_FROM, ignorable=True, default=False)


@response(ApiKey.SYNC_GROUP, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, default=0)
    protocol_type: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )
    protocol_name: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )
    assignment: bytes = field(BYTES)
    #: Coterie's own: the fencing token of the partitions that the member takes over; -1 if none.
    fencing_token: int = field(INT64, versions="4+", tag=OWN_TAGS_FROM, ignorable=True, default=-1)
