"""DescribeGroups (15): the state and the members of groups."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.operations import Operation
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
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
]


@request(ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Ask for groups by their ids."""

    groups: tuple[str, ...] = field(Array(STRING))
    include_authorized_operations: bool = field(BOOL, versions="3+", default=False)
    #: Coterie's own: asks which members are away.
    wants_absences: bool = field(
        BOOL, versions="5+", tag=OWN_TAGS_FROM, ignorable=True, default=False
    )
    #: Coterie's own: asks what administrators have ordered.
    wants_operations: bool = field(
        BOOL, versions="5+", tag=OWN_TAGS_FROM + 1, ignorable=True, default=False
    )


@struct()
class DescribedGroupMember:
    """A member with its subscription and assignment."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(
        STRING, versions="4+", nullable="4+", ignorable=True, default=None
    )
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)
    #: Coterie's own: when the session of a static member ended whose place is kept, in
    #: milliseconds since 1970; -1 for a member that is there.
    away_since_ms: int = field(INT64, versions="5+", tag=OWN_TAGS_FROM, ignorable=True, default=-1)


@struct()
class DescribedGroup:
    """A group, or an error."""

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, versions="6+", nullable="6+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: tuple[DescribedGroupMember, ...] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(INT32, versions="3+", default=-2147483648)
    #: Coterie's own: what administrators have ordered, and whether no member can follow it.
    operations: tuple[Operation, ...] = field(
        Array(Operation), versions="5+", tag=OWN_TAGS_FROM, ignorable=True, default=()
    )
    operations_not_followed: bool = field(
        BOOL, versions="5+", tag=OWN_TAGS_FROM + 1, ignorable=True, default=False
    )


@response(ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """The groups asked for; the state of one that does not exist is Dead."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    groups: tuple[DescribedGroup, ...] = field(Array(DescribedGroup))
