"""DeleteGroups (42): delete groups that have no members."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, INT32, STRING, Array, field, request, response, struct

__all__ = [
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
]


@request(ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete groups and all their offsets."""

    groups_names: tuple[str, ...] = field(Array(STRING))


@struct()
class DeletableGroupResult:
    """Whether one group was deleted."""

    group_id: str = field(STRING)
    error_code: int = field(INT16, default=0)


@response(ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """Whether each group was deleted."""

    throttle_time_ms: int = field(INT32, default=0)
    results: tuple[DeletableGroupResult, ...] = field(Array(DeletableGroupResult))
