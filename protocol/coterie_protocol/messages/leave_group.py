"""LeaveGroup (13): members leave, or an administrator removes them."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, INT32, STRING, Array, field, request, response, struct

__all__ = [
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "MemberIdentity",
    "MemberResponse",
]


@struct()
class MemberIdentity:
    """A member that leaves: its member id, or its instance id and an empty member id."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable="0+", default=None)
    reason: str | None = field(STRING, versions="5+", nullable="5+", ignorable=True, default=None)


@request(ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Leave or, since version 3, make several members leave."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, versions="0-2", default="")
    members: tuple[MemberIdentity, ...] = field(Array(MemberIdentity), versions="3+", default=())


@struct()
class MemberResponse:
    """Whether one member has left."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16, default=0)


@response(ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """Whether each member has left."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, default=0)
    members: tuple[MemberResponse, ...] = field(Array(MemberResponse), versions="3+", default=())
