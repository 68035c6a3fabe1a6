"""CreateAcls (30): add ACLs."""

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
    "AclCreation",
    "AclCreationResult",
    "CreateAclsRequest",
    "CreateAclsResponse",
]


@struct()
class AclCreation:
    """An ACL to add."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, versions="1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@request(ApiKey.CREATE_ACLS, versions="0-3", flexible="2+")
class CreateAclsRequest:
    """Add ACLs."""

    creations: tuple[AclCreation, ...] = field(Array(AclCreation))


@struct()
class AclCreationResult:
    """Whether one ACL was added."""

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")


@response(ApiKey.CREATE_ACLS, versions="0-3", flexible="2+")
class CreateAclsResponse:
    """Whether each ACL was added, in the order of the request."""

    throttle_time_ms: int = field(INT32, default=0)
    results: tuple[AclCreationResult, ...] = field(Array(AclCreationResult))
