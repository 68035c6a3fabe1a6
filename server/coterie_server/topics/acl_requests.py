"""DescribeAcls, CreateAcls and DeleteAcls: who may do what is told and changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    check_filter,
)
from coterie_server.security.records import AclRecord
from coterie_server.turns import Piece, begin, each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.step import Request
    from coterie_server.topics.step import Step
    from coterie_server.turns import Making, Unfinished

__all__ = ["create_acls", "delete_acls", "describe_acls"]

#: Version 0 knows literal patterns alone, "*" among them.
_PATTERNS_FROM: Final = 1
#: How many ACLs one request may create or delete, as in Kafka.
_CHANGES_MAX: Final = 10_000

_NO_AUTHORIZER: Final = "No Authorizer is configured."


# -- describing --------------------------------------------------------------------------------


def describe_acls(step: Step, request: Request) -> m.DescribeAclsResponse | Unfinished:
    """Tell the ACLs that match a filter, by resource pattern."""
    message: m.DescribeAclsRequest = request.message
    if not step.config.has_authorizer:
        return _not_described(
            ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
        )
    wanted = _filter_of(message, request.version)
    if (problem := check_filter(wanted)) is not None:
        return _not_described(ErrorCode.INVALID_REQUEST, problem)
    return begin(_describe(step.rights.acls.find(wanted)))


def _not_described(error: ErrorCode, text: str) -> m.DescribeAclsResponse:
    return m.DescribeAclsResponse(error_code=error, error_message=text, resources=())


def _describe(found: Iterable[Acl]) -> Making[m.DescribeAclsResponse]:
    by_pattern: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for acl in found:
        by_pattern.setdefault(acl[:3], []).append(acl)
    piece = Piece()
    resources = []
    for (kind, name, pattern), acls in by_pattern.items():
        described = yield from each(acls, _describe_one, piece)
        resources.append(
            m.DescribeAclsResource(
                resource_type=kind, resource_name=name, pattern_type=pattern, acls=described
            )
        )
    return m.DescribeAclsResponse(error_message="", resources=tuple(resources))


def _describe_one(acl: Acl) -> m.AclDescription:
    return m.AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter_of(asked: m.DescribeAclsRequest | m.DeleteAclsFilter, version: int) -> AclFilter:
    pattern = PatternType(asked.pattern_type_filter)
    return AclFilter(
        ResourceType(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.LITERAL if version < _PATTERNS_FROM else pattern,
        asked.principal_filter,
        asked.host_filter,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )


# -- creating ----------------------------------------------------------------------------------


def create_acls(step: Step, request: Request) -> m.CreateAclsResponse:
    """Add ACLs, each for itself; those that are there already are fine."""
    message: m.CreateAclsRequest = request.message
    return m.CreateAclsResponse(results=tuple(map(partial(_create, step), message.creations)))


def _create(step: Step, creation: m.AclCreation) -> m.AclCreationResult:
    if not step.config.has_authorizer:
        return _not_created(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
    acl = Acl(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )
    if (problem := check_acl(acl)) is not None:
        return _not_created(ErrorCode.INVALID_REQUEST, problem)
    acls, limit = step.rights.acls, step.config.max_acls
    if acl not in acls:
        if len(acls) >= limit:
            step.hit_limit("max.acls", limit, str(acl))
            text = f"There are {limit} ACLs, and can't be more; max.acls is the limit."
            return _not_created(ErrorCode.POLICY_VIOLATION, text)
        step.change_rights(AclRecord(acl))
    return m.AclCreationResult(error_message="")


def _not_created(error: ErrorCode, text: str) -> m.AclCreationResult:
    return m.AclCreationResult(error_code=error, error_message=text)


# -- deleting ----------------------------------------------------------------------------------


def delete_acls(step: Step, request: Request) -> m.DeleteAclsResponse:
    """Delete the ACLs that match filters; what matches two is told of both."""
    message: m.DeleteAclsRequest = request.message
    version = request.version
    found = [_find(step, _filter_of(asked, version)) for asked in message.filters]
    doomed = {acl for acls in found if isinstance(acls, list) for acl in acls}
    for acl in doomed:
        step.change_rights(AclRecord(acl, is_there=False))
    return m.DeleteAclsResponse(filter_results=tuple(map(_result_of, found)))


def _find(step: Step, wanted: AclFilter) -> list[Acl] | tuple[ErrorCode, str]:
    """What a filter matches, or why that can't be said."""
    if not step.config.has_authorizer:
        return ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER
    if (problem := check_filter(wanted)) is not None:
        return ErrorCode.INVALID_REQUEST, problem
    found = step.rights.acls.find(wanted)
    if len(found) > _CHANGES_MAX:
        text = f"Cannot remove more than {_CHANGES_MAX} acls in a single delete operation."
        return ErrorCode.POLICY_VIOLATION, text
    return found


def _result_of(found: list[Acl] | tuple[ErrorCode, str]) -> m.DeleteAclsFilterResult:
    if isinstance(found, tuple):
        error, text = found
        return m.DeleteAclsFilterResult(error_code=error, error_message=text, matching_acls=())
    return m.DeleteAclsFilterResult(error_message=None, matching_acls=tuple(map(_deleted, found)))


def _deleted(acl: Acl) -> m.DeleteAclsMatchingAcl:
    words: dict[str, Any] = {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
    return m.DeleteAclsMatchingAcl(error_message=None, **words)
