"""DescribeAcls, CreateAcls and DeleteAcls: who may do what is told and changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acl_search import find_all
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
from coterie_server.topics.work import CHANGES_AT_ONCE
from coterie_server.turns import Piece, begin, each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.step import Request
    from coterie_server.topics.step import Step
    from coterie_server.turns import Making, Unfinished

__all__ = ["create_acls", "delete_acls", "describe_acls"]

#: Version 0 knows literal patterns alone, "*" among them.
_PATTERNS_FROM: Final = 1
#: How many ACLs one request may delete, as in Kafka.
_CHANGES_MAX: Final = 10_000
#: How many ACLs it may be told of, as each filter is told of all that it matches.
_TOLD_MAX: Final = 100_000

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


def create_acls(step: Step, request: Request) -> Making[m.CreateAclsResponse]:
    """Add ACLs, each for itself; those that are there already are fine."""
    message: m.CreateAclsRequest = request.message
    results = yield from each(message.creations, partial(_create, step), Piece(CHANGES_AT_ONCE))
    return m.CreateAclsResponse(results=results)


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


def delete_acls(step: Step, request: Request) -> Making[m.DeleteAclsResponse]:
    """Delete the ACLs that match filters; what matches two is told of both."""
    message: m.DeleteAclsRequest = request.message
    if not step.config.has_authorizer:
        return _none_deleted(message, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
    piece = Piece()
    wanted = yield from each(message.filters, partial(_filter_of, version=request.version), piece)
    problems = yield from each(wanted, check_filter, piece)
    sound = [each for each, problem in zip(wanted, problems, strict=True) if problem is None]
    found = yield from find_all(step.rights.acls, sound, _TOLD_MAX)
    if found is None:
        text = (
            f"The filters match more than {_TOLD_MAX} acls, those of each counted: ask for fewer."
        )
        return _none_deleted(message, ErrorCode.POLICY_VIOLATION, text)
    doomed: dict[Acl, None] = {}
    for acls in found:
        doomed.update(dict.fromkeys(acls))
        if piece.is_whole(len(acls) + 1):
            yield
    if len(doomed) > _CHANGES_MAX:
        text = f"Cannot remove more than {_CHANGES_MAX} acls in a single delete operation."
        return _none_deleted(message, ErrorCode.POLICY_VIOLATION, text)
    yield from each(doomed, partial(_delete, step), Piece(CHANGES_AT_ONCE))
    told = iter(found)
    results = []
    for problem in problems:
        matching = yield from each(next(told) if problem is None else (), _deleted, piece)
        error = ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST
        results.append(_result_of(error, problem, matching))
        if piece.is_whole():
            yield
    return m.DeleteAclsResponse(filter_results=tuple(results))


def _delete(step: Step, acl: Acl) -> None:
    step.change_rights(AclRecord(acl, is_there=False))


def _none_deleted(
    message: m.DeleteAclsRequest, error: ErrorCode, text: str
) -> m.DeleteAclsResponse:
    result = _result_of(error, text)
    return m.DeleteAclsResponse(filter_results=(result,) * len(message.filters))


def _result_of(
    error: ErrorCode, text: str | None, matching: tuple[m.DeleteAclsMatchingAcl, ...] = ()
) -> m.DeleteAclsFilterResult:
    return m.DeleteAclsFilterResult(error_code=error, error_message=text, matching_acls=matching)


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
