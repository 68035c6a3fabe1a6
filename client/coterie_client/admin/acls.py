"""ACLs: list, create and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from coterie_client.admin import arguments
from coterie_client.admin.acl_models import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import Result, Results, error_of
from coterie_client.errors import ConfigurationError, UnexpectedAnswerError
from coterie_protocol.messages import (
    AclCreation,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["Acls"]

_EVERY = AclFilter()


class Acls:
    """Operations on ACLs; use `Admin.acls`.

    A server without an authorizer raises `SecurityDisabledError`.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, which: AclFilter = _EVERY) -> tuple[Acl, ...]:
        """List the ACLs that match a filter, by resource and principal."""
        request = DescribeAclsRequest(**_filter_fields(_checked_filter(which)))

        async def call(deadline_s: float) -> tuple[Acl, ...]:
            answer: DescribeAclsResponse = await self._caller.to_controller(request, deadline_s)
            error = error_of(answer.error_code, "ACLs", answer.error_message)
            if error is not None:
                raise self._caller.forgetting_controller(error)
            found = (_described(each, acl) for each in answer.resources for acl in each.acls)
            return tuple(sorted(found, key=_order))

        return await self._caller.once(call)

    async def create(self, *acls: Acl) -> None:
        """Create ACLs; those that exist already stay as they are."""
        (await self.create_many(acls)).get_all()

    async def create_many(self, acls: Iterable[Acl]) -> Results[Acl, None]:
        """Create ACLs, with a result for each."""
        wanted = arguments.collection("acls", "a collection of Acl(...)", acls)
        for acl in wanted:
            if not isinstance(acl, Acl):
                raise ConfigurationError(f"each of acls must be an Acl(...), got {acl!r}")

        async def attempt(asked: Iterable[Acl], deadline_s: float) -> Mapping[Acl, Result[None]]:
            asked = tuple(asked)
            request = CreateAclsRequest(creations=tuple(map(_creation, asked)))
            answer: CreateAclsResponse = await self._caller.to_controller(request, deadline_s)
            _check_count(answer.results, asked)
            results: dict[Acl, Result[None]] = {
                acl: Result(error=error_of(r.error_code, str(acl), r.error_message))
                for acl, r in zip(asked, answer.results, strict=True)
            }
            return self._caller.noting_controller(results)

        return await self._caller.settle(wanted, attempt)

    async def delete(self, which: Acl | AclFilter) -> tuple[Acl, ...]:
        """Delete an ACL, or all that match a filter; return what was deleted."""
        return (await self.delete_many([which]))[which].get()

    async def delete_many(
        self, which: Iterable[Acl | AclFilter]
    ) -> Results[Acl | AclFilter, tuple[Acl, ...]]:
        """Delete ACLs, with a result for each filter: the ACLs that were deleted."""
        wanted = arguments.collection("which", "a collection of Acl(...) and AclFilter(...)", which)
        filters = {each: _checked_filter(each) for each in wanted}

        async def attempt(
            asked: Iterable[Acl | AclFilter], deadline_s: float
        ) -> Mapping[Acl | AclFilter, Result[tuple[Acl, ...]]]:
            asked = tuple(asked)
            request = DeleteAclsRequest(
                filters=tuple(DeleteAclsFilter(**_filter_fields(filters[each])) for each in asked)
            )
            answer: DeleteAclsResponse = await self._caller.to_controller(request, deadline_s)
            _check_count(answer.filter_results, asked)
            results = {
                each: _deleted(result)
                for each, result in zip(asked, answer.filter_results, strict=True)
            }
            return self._caller.noting_controller(results)

        return await self._caller.settle(wanted, attempt)


def _checked_filter(which: object) -> AclFilter:
    if isinstance(which, Acl):
        return AclFilter.of(which)
    if not isinstance(which, AclFilter):
        raise ConfigurationError(f"which must be an Acl(...) or an AclFilter(...), got {which!r}")
    return which


def _filter_fields(which: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": _number(which.resource),
        "resource_name_filter": which.name,
        "pattern_type_filter": _number(which.pattern),
        "principal_filter": which.principal,
        "host_filter": which.host,
        "operation": _number(which.operation),
        "permission_type": _number(which.permission),
    }


def _number(word: object) -> int:
    assert isinstance(word, IntEnum), "the constructors see to that"
    return int(word)


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=_number(acl.resource),
        resource_name=acl.name,
        resource_pattern_type=_number(acl.pattern),
        principal=acl.principal,
        host=acl.host,
        operation=_number(acl.operation),
        permission_type=_number(acl.permission),
    )


def _check_count(results: tuple[Any, ...], asked: tuple[Any, ...]) -> None:
    if len(results) != len(asked):
        raise UnexpectedAnswerError(
            f"The server's answer has {len(results)} results for {len(asked)} questions about ACLs."
        )


def _described(resource: DescribeAclsResource, acl: AclDescription) -> Acl:
    return _acl(resource.resource_type, resource.resource_name, resource.pattern_type, acl)


def _deleted(result: DeleteAclsFilterResult) -> Result[tuple[Acl, ...]]:
    error = error_of(result.error_code, "ACLs", result.error_message)
    for each in result.matching_acls:
        error = error or error_of(each.error_code, "ACLs", each.error_message)
    if error is not None:
        return Result(error=error)
    found = (
        _acl(a.resource_type, a.resource_name, a.pattern_type, a) for a in result.matching_acls
    )
    return Result(tuple(sorted(found, key=_order)))


def _acl(
    resource: int, name: str, pattern: int, rest: AclDescription | DeleteAclsMatchingAcl
) -> Acl:
    """An ACL as the server told it, which may have words that are not known here."""
    acl = object.__new__(Acl)
    values = {
        "principal": rest.principal,
        "operation": Operation(rest.operation),
        "resource": Resource(resource),
        "name": name,
        "permission": Permission(rest.permission_type),
        "host": rest.host,
        "pattern": Pattern(pattern),
    }
    for key, value in values.items():
        object.__setattr__(acl, key, value)
    return acl


def _order(acl: Acl) -> tuple[Any, ...]:
    return (acl.resource, acl.name, acl.pattern, acl.principal, acl.permission, acl.operation)
