"""ListGroups (16): the groups that a node coordinates."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, INT32, STRING, Array, field, request, response, struct

__all__ = [
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
]


@request(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Ask for all groups, or for those of given states or types."""

    states_filter: tuple[str, ...] = field(Array(STRING), versions="4+", default=())
    types_filter: tuple[str, ...] = field(Array(STRING), versions="5+", default=())


@struct()
class ListedGroup:
    """The summary of a group."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, versions="4+", ignorable=True, default="")
    group_type: str = field(STRING, versions="5+", ignorable=True, default="")


@response(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups of a node."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, default=0)
    groups: tuple[ListedGroup, ...] = field(Array(ListedGroup))
