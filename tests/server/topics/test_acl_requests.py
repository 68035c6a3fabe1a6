"""ACLs by Kafka's requests: told, added and deleted, and there again after a restart."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
from coterie_server.topics import acl_requests
from coterie_server.topics.work import CHANGES_AT_ONCE
from tests.server.topics.harness import CatalogueHarness

ANY: Final = 1


def creation(name: str = "orders", **fields: Any) -> m.AclCreation:
    """That Ann may read a group."""
    usual: dict[str, Any] = {
        "resource_type": ResourceType.GROUP,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return m.AclCreation(**usual | fields)


def all_acls(**fields: Any) -> dict[str, Any]:
    """A filter that everything matches."""
    usual: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return usual | fields


@pytest.fixture
def harness() -> CatalogueHarness:
    """A catalogue with an authorizer."""
    return CatalogueHarness(has_authorizer=True, max_acls=3)


def create(harness: CatalogueHarness, *creations: m.AclCreation, version: int = 3) -> list[int]:
    """Add ACLs; answer the error codes."""
    answer = harness.ask(m.CreateAclsRequest(creations=creations), version)
    return [result.error_code for result in answer.results]


def names(harness: CatalogueHarness, version: int = 3, **fields: Any) -> list[tuple[str, int]]:
    """The resources that are told, each with how many ACLs it has."""
    answer = harness.ask(m.DescribeAclsRequest(**all_acls(**fields)), version)
    assert answer.error_code == 0
    return sorted((each.resource_name, len(each.acls)) for each in answer.resources)


def test_acls_are_told_by_resource_and_survive_a_restart(harness: CatalogueHarness) -> None:
    bob = creation(principal="User:bob")
    assert create(harness, creation(), bob, creation("pay")) == [0, 0, 0]
    expected = [("orders", 2), ("pay", 1)]
    assert names(harness) == expected
    harness.restart()
    assert names(harness) == expected
    assert names(harness, principal_filter="User:bob") == [("orders", 1)]


def test_an_acl_that_is_there_is_fine_and_stored_once(harness: CatalogueHarness) -> None:
    assert create(harness, creation(), creation()) == [0, 0]
    assert len(harness.stored) == 1
    assert create(harness, creation()) == [0]
    assert harness.answer.records == []


def test_each_acl_is_checked_for_itself(harness: CatalogueHarness) -> None:
    wrong = creation(operation=Operation.ANY)
    assert create(harness, wrong, creation()) == [ErrorCode.INVALID_REQUEST, 0]
    assert names(harness) == [("orders", 1)]


def test_there_is_an_end_to_them(harness: CatalogueHarness) -> None:
    found = create(harness, *(creation(f"g{number}") for number in range(5)), creation("g0"))
    assert found == [0, 0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION, 0]
    assert {hit.setting for hit in harness.answer.limit_hits} == {"max.acls"}


def test_version_0_knows_literal_patterns_alone(harness: CatalogueHarness) -> None:
    create(harness, creation("pre", resource_pattern_type=PatternType.PREFIXED))
    assert create(harness, creation("lit"), version=0) == [0]
    assert names(harness, 0, pattern_type_filter=PatternType.LITERAL) == [("lit", 1)]
    assert names(harness) == [("lit", 1), ("pre", 1)]


def test_what_matches_a_filter_is_deleted_and_told(harness: CatalogueHarness) -> None:
    create(harness, creation(), creation("pay"), creation(principal="User:bob"))
    both = m.DeleteAclsFilter(**all_acls(resource_name_filter="orders"))
    anns = m.DeleteAclsFilter(**all_acls(principal_filter="User:ann"))
    none = m.DeleteAclsFilter(**all_acls(host_filter="10.0.0.1"))
    wrong = m.DeleteAclsFilter(**all_acls(operation=99))
    answer = harness.ask(m.DeleteAclsRequest(filters=(both, anns, none, wrong)))
    found = [(each.error_code, len(each.matching_acls)) for each in answer.filter_results]
    assert found == [(0, 2), (0, 2), (0, 0), (ErrorCode.INVALID_REQUEST, 0)]
    assert names(harness) == []
    assert harness.stored == {}


def test_very_many_are_added_and_deleted_in_small_steps() -> None:
    harness = CatalogueHarness(has_authorizer=True, max_acls=20_000)
    number = 20 * CHANGES_AT_ONCE
    creations = [creation(f"g{number}") for number in range(number)]
    wrong = creation("wrong", operation=Operation.ANY)
    found = create(harness, *creations, wrong)
    assert found == [0] * number + [ErrorCode.INVALID_REQUEST]
    assert harness.steps > 20
    assert len(harness.stored) == number
    harness.restart()
    filters = [m.DeleteAclsFilter(**all_acls(resource_name_filter=f"g{n}")) for n in range(number)]
    anns = m.DeleteAclsFilter(**all_acls(principal_filter="User:ann"))
    answer = harness.ask(m.DeleteAclsRequest(filters=(*filters, anns)))
    told = [
        [each.resource_name for each in result.matching_acls] for result in answer.filter_results
    ]
    assert told[:-1] == [[f"g{n}"] for n in range(number)]
    assert len(told[-1]) == number
    assert harness.steps > 20
    assert harness.stored == {}


@pytest.mark.parametrize("asked", [1, 11])
def test_more_than_a_request_may_delete_or_be_told_of_stay(
    asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_requests, "_CHANGES_MAX", 9 if asked == 1 else 10)
    monkeypatch.setattr(acl_requests, "_TOLD_MAX", 100)
    harness = CatalogueHarness(has_authorizer=True, max_acls=10)
    create(harness, *(creation(f"g{number}") for number in range(10)))
    wanted = m.DeleteAclsFilter(**all_acls())
    answer = harness.ask(m.DeleteAclsRequest(filters=(wanted,) * asked))
    assert {each.error_code for each in answer.filter_results} == {ErrorCode.POLICY_VIOLATION}
    assert len(answer.filter_results) == asked
    assert len(harness.stored) == 10


def test_without_an_authorizer_there_are_no_acls() -> None:
    harness = CatalogueHarness()
    assert create(harness, creation()) == [ErrorCode.SECURITY_DISABLED]
    told = harness.ask(m.DescribeAclsRequest(**all_acls()))
    assert told.error_code == ErrorCode.SECURITY_DISABLED
    wanted = m.DeleteAclsFilter(**all_acls())
    (result,) = harness.ask(m.DeleteAclsRequest(filters=(wanted,))).filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


def test_a_filter_of_an_unknown_kind_is_refused(harness: CatalogueHarness) -> None:
    answer = harness.ask(m.DescribeAclsRequest(**all_acls(resource_type_filter=99)))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown patternFilter.",
    )
