"""DeleteAcls (31): delete the ACLs that match filters."""

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
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
]


@struct()
class DeleteAclsFilter:
    """Which ACLs to delete; a name, principal or host of None matches any."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, versions="1+", default=3)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@request(ApiKey.DELETE_ACLS, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """Delete all ACLs that match any of the filters."""

    filters: tuple[DeleteAclsFilter, ...] = field(Array(DeleteAclsFilter))


@struct()
class DeleteAclsMatchingAcl:
    """An ACL that matched, and whether it was deleted."""

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, versions="1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct()
class DeleteAclsFilterResult:
    """What one filter matched."""

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = field(Array(DeleteAclsMatchingAcl))


@response(ApiKey.DELETE_ACLS, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """What each filter matched, in the order of the request."""

    throttle_time_ms: int = field(INT32, default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = field(Array(DeleteAclsFilterResult))
