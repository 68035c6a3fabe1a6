"""JoinGroup (11): become or stay a member; the first phase of a rebalance."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.operations import Operation
from coterie_protocol.schema import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    OWN_TAGS_FROM,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
]


@struct()
class JoinGroupRequestProtocol:
    """A protocol that the member supports, and its subscription in that protocol."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@request(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Ask to be in the next generation; lists the protocols that the member supports."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, versions="1+", ignorable=True, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="5+", nullable="5+", default=None)
    protocol_type: str = field(STRING)
    protocols: tuple[JoinGroupRequestProtocol, ...] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, versions="8+", nullable="8+", ignorable=True, default=None)
    #: Coterie's own: how long this static member may be silent before its place is given up; 0 for
    #: its session, -1 for what the group has.
    registration_timeout_ms: int = field(
        INT32, versions="6+", tag=OWN_TAGS_FROM, ignorable=True, default=-1
    )
    #: Coterie's own: asks to be told which members are away, should this one lead.
    wants_absences: bool = field(
        BOOL, versions="6+", tag=OWN_TAGS_FROM + 1, ignorable=True, default=False
    )
    #: Coterie's own: asks to be told what administrators have ordered, should this one lead, and
    #: promises to follow it then.
    wants_operations: bool = field(
        BOOL, versions="6+", tag=OWN_TAGS_FROM + 2, ignorable=True, default=False
    )


@struct()
class JoinGroupResponseMember:
    """A member and its subscription, for the leader."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(
        STRING, versions="5+", nullable="5+", ignorable=True, default=None
    )
    metadata: bytes = field(BYTES)
    #: Coterie's own: what a static member was assigned last whose session is over and whose place
    #: is kept; null for a member that is there.
    away_with: bytes | None = field(
        BYTES, versions="6+", nullable="6+", tag=OWN_TAGS_FROM, ignorable=True, default=None
    )
    #: Coterie's own: what a member was assigned last, where the leader has operations to follow;
    #: null for a newcomer.
    assigned_last: bytes | None = field(
        BYTES, versions="6+", nullable="6+", tag=OWN_TAGS_FROM + 1, ignorable=True, default=None
    )


@response(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation; for the leader, also all members and their metadata."""

    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True, default=0)
    error_code: int = field(INT16, default=0)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(
        STRING, versions="7+", nullable="7+", ignorable=True, default=None
    )
    protocol_name: str | None = field(STRING, nullable="7+")
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, versions="9+", default=False)
    member_id: str = field(STRING)
    members: tuple[JoinGroupResponseMember, ...] = field(Array(JoinGroupResponseMember))
    #: Coterie's own: what administrators have ordered, for a leader that asked.
    operations: tuple[Operation, ...] = field(
        Array(Operation), versions="6+", tag=OWN_TAGS_FROM, ignorable=True, default=()
    )
