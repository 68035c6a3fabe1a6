"""ACLs: what is asked, what is understood of the answers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_client.admin import (
    Acl,
    AclFilter,
    Admin,
    Operation,
    Pattern,
    Permission,
    Resource,
    Timing,
)
from coterie_client.errors import BatchFailedError, ConfigurationError, UnexpectedAnswerError
from coterie_client.wire import RetryOptions
from coterie_protocol import ApiKey, Request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    SecurityDisabledError,
)
from coterie_protocol.messages import (
    AclCreationResult,
    AclDescription,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.client.wire.doubles import FakeServer, metadata_of

PROMPT = Timing(timeout_ms=60_000, retry=RetryOptions(base_ms=1, max_ms=1))
READ = Acl("User:ann", Operation.READ, Resource.GROUP, "billing")


class Server:
    """Answers each request about ACLs by what comes next, and is its own controller."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.fake = FakeServer(self._answer)

    async def _answer(self, request: Request) -> Any:
        if request.api_key is ApiKey.METADATA:
            return metadata_of(self.fake.address)
        self.asked.append(request.message)
        return self.answers.pop(0)

    async def __aenter__(self) -> Admin:
        await self.fake.__aenter__()
        self.admin = Admin(self.fake.address, timing=PROMPT)
        return self.admin

    async def __aexit__(self, *exc: object) -> None:
        await self.admin.aclose()
        await self.fake.__aexit__(*exc)


# Words


@pytest.mark.parametrize("name", ["DescribeConfigs", "describe_configs", "DESCRIBECONFIGS"])
def test_words_are_known_in_any_case(name: str) -> None:
    acl = Acl("User:ann", name, "topic", "t", "deny", pattern="prefixed")
    assert acl.operation is Operation.DESCRIBE_CONFIGS
    assert (acl.resource, acl.permission) == (Resource.TOPIC, Permission.DENY)
    assert acl.pattern is Pattern.PREFIXED


def test_acl_is_a_sentence() -> None:
    assert str(READ) == "User:ann may Read Group billing"
    acl = Acl("User:*", "All", "Topic", "t-", "Deny", "10.0.0.1", "Prefixed")
    assert str(acl) == "User:* may not All prefixed Topic t- from 10.0.0.1"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Acl("ann", "Read", "Group", "g"), "principal must be a kind and a name"),
        (lambda: Acl("User:", "Read", "Group", "g"), "principal must be a kind and a name"),
        (lambda: Acl("User:ann", "Raed", "Group", "g"), "operation must be one of All, Read"),
        (lambda: Acl("User:ann", "Any", "Group", "g"), "operation must be one of All"),
        (lambda: Acl("User:ann", 3, "Group", "g"), "operation must be one of"),  # type: ignore[arg-type]
        (lambda: Acl("User:ann", "Read", "Any", "g"), "resource must be one of Topic"),
        (lambda: Acl("User:ann", "Read", "Group", ""), "name must be a string"),
        (lambda: Acl("User:ann", "Read", "Group"), "name must be that of a Group"),
        (lambda: Acl("User:ann", "Create", "Cluster", "c"), "name must be 'kafka-cluster'"),
        (
            lambda: Acl("User:ann", "Read", "Group", "g", pattern="Match"),
            "pattern must be one of Literal, Prefixed",
        ),
        (lambda: AclFilter(host=""), "host must be a string"),
        (lambda: AclFilter(operation="Unknown"), "operation must be"),
    ],
)
def test_acl_that_makes_no_sense(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        make()


# Listing


def resource(
    *acls: AclDescription, kind: int = 3, name: str = "billing", pattern: int = 3
) -> DescribeAclsResource:
    """A resource with its ACLs."""
    return DescribeAclsResource(
        resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls
    )


def described(principal: str, operation: int = 3) -> AclDescription:
    """What allows an operation from everywhere."""
    return AclDescription(principal=principal, host="*", operation=operation, permission_type=3)


def listed(*resources: DescribeAclsResource, error: int = 0) -> DescribeAclsResponse:
    """The answer to DescribeAcls."""
    return DescribeAclsResponse(error_code=error, error_message=None, resources=resources)


@pytest.mark.asyncio
async def test_acls_are_listed_in_order() -> None:
    answer = listed(
        resource(described("User:bob"), described("User:ann")),
        resource(described("User:ann", 15), kind=2, name="orders-", pattern=4),
    )
    server = Server(answer)
    async with server as admin:
        assert await admin.acls.list() == (
            Acl("User:ann", "TwoPhaseCommit", "Topic", "orders-", pattern="Prefixed"),
            READ,
            Acl("User:bob", "Read", "Group", "billing"),
        )
    asked = server.asked[0]
    assert (asked.resource_type_filter, asked.pattern_type_filter) == (1, 1)
    assert (asked.resource_name_filter, asked.principal_filter, asked.host_filter) == (None,) * 3
    assert (asked.operation, asked.permission_type) == (1, 1)


@pytest.mark.asyncio
async def test_filter_says_what_is_asked_for() -> None:
    server = Server(listed())
    async with server as admin:
        await admin.acls.list(
            AclFilter("User:ann", "Read", "Group", "billing", "Allow", "*", "Match")
        )
    asked = server.asked[0]
    assert (asked.resource_type_filter, asked.pattern_type_filter) == (3, 2)
    assert (asked.resource_name_filter, asked.principal_filter) == ("billing", "User:ann")
    assert (asked.host_filter, asked.operation, asked.permission_type) == ("*", 3, 3)


@pytest.mark.asyncio
async def test_words_of_newer_servers_are_shown_as_unknown() -> None:
    async with Server(listed(resource(described("User:ann", 99), kind=98, name="x"))) as admin:
        (found,) = await admin.acls.list()
    assert (found.operation, found.resource) == (Operation.UNKNOWN, Resource.UNKNOWN)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.SECURITY_DISABLED, SecurityDisabledError),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ClusterAuthorizationFailedError),
    ],
)
async def test_refusal_to_list_is_raised(code: int, error: type[Exception]) -> None:
    async with Server(listed(error=code)) as admin:
        with pytest.raises(error):
            await admin.acls.list()


@pytest.mark.asyncio
async def test_another_controller_is_asked_after_it_has_changed() -> None:
    server = Server(listed(error=ErrorCode.NOT_CONTROLLER), listed(resource(described("User:a"))))
    async with server as admin:
        assert len(await admin.acls.list()) == 1
    metadata = [r for r in server.fake.received if r.api_key is ApiKey.METADATA]
    assert len(metadata) == 2


# Creating


def created(*codes: int) -> CreateAclsResponse:
    """The answer to CreateAcls."""
    results = (
        AclCreationResult(error_code=c, error_message="Invalid, says the server" if c else None)
        for c in codes
    )
    return CreateAclsResponse(results=tuple(results))


@pytest.mark.asyncio
async def test_acls_are_created() -> None:
    server = Server(created(0, 0))
    async with server as admin:
        await admin.acls.create(
            READ, Acl("User:bob", "All", "Topic", "o-", "Deny", "10.0.0.1", "Prefixed")
        )
    first, second = server.asked[0].creations
    assert (first.resource_type, first.resource_name, first.resource_pattern_type) == (
        3,
        "billing",
        3,
    )
    assert (first.principal, first.host, first.operation, first.permission_type) == (
        "User:ann",
        "*",
        3,
        3,
    )
    assert (second.resource_type, second.resource_pattern_type) == (2, 4)
    assert (second.host, second.operation, second.permission_type) == ("10.0.0.1", 2, 2)


@pytest.mark.asyncio
async def test_refused_acl_is_named() -> None:
    async with Server(created(ErrorCode.INVALID_REQUEST)) as admin:
        with pytest.raises(InvalidRequestError, match="User:ann may Read Group billing: Invalid"):
            await admin.acls.create(READ)
    other = Acl("User:bob", "Read", "Group", "billing")
    async with Server(created(0, ErrorCode.INVALID_REQUEST)) as admin:
        with pytest.raises(BatchFailedError) as caught:
            await admin.acls.create(READ, other)
    assert set(caught.value.errors) == {other}


@pytest.mark.asyncio
async def test_answer_with_too_few_results_is_no_success() -> None:
    async with Server(created()) as admin:
        with pytest.raises(UnexpectedAnswerError, match="0 results for 1"):
            await admin.acls.create(READ)


# Deleting


def matched(*codes: int, error: int = 0) -> DeleteAclsFilterResult:
    """What one filter matched."""
    return DeleteAclsFilterResult(
        error_code=error,
        error_message=None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_code=code,
                error_message=None,
                resource_type=3,
                resource_name="billing",
                principal="User:ann",
                host="*",
                operation=3,
                permission_type=3,
            )
            for code in codes
        ),
    )


@pytest.mark.asyncio
async def test_deletion_tells_what_was_deleted() -> None:
    server = Server(DeleteAclsResponse(filter_results=(matched(0),)))
    async with server as admin:
        assert await admin.acls.delete(AclFilter("User:ann")) == (READ,)
    (asked,) = server.asked[0].filters
    assert (asked.principal_filter, asked.resource_type_filter, asked.operation) == (
        "User:ann",
        1,
        1,
    )


@pytest.mark.asyncio
async def test_acl_itself_is_deleted_and_no_other() -> None:
    server = Server(DeleteAclsResponse(filter_results=(matched(),)))
    async with server as admin:
        assert await admin.acls.delete(READ) == ()
    (asked,) = server.asked[0].filters
    assert (asked.resource_type_filter, asked.resource_name_filter) == (3, "billing")
    assert (asked.pattern_type_filter, asked.principal_filter) == (3, "User:ann")
    assert (asked.host_filter, asked.operation, asked.permission_type) == ("*", 3, 3)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "result",
    [matched(error=ErrorCode.INVALID_REQUEST), matched(0, ErrorCode.INVALID_REQUEST)],
)
async def test_refused_deletion_is_raised(result: DeleteAclsFilterResult) -> None:
    async with Server(DeleteAclsResponse(filter_results=(result,))) as admin:
        with pytest.raises(InvalidRequestError):
            await admin.acls.delete(AclFilter("User:ann"))


@pytest.mark.asyncio
@pytest.mark.parametrize("which", ["User:ann", None, [READ]])
async def test_only_acls_and_filters_choose_acls(which: Any) -> None:
    async with Server() as admin:
        for call in (admin.acls.list, admin.acls.delete):
            with pytest.raises(ConfigurationError, match="which must be"):
                await call(which)
        with pytest.raises(ConfigurationError, match="each of acls must be"):
            await admin.acls.create(which)
