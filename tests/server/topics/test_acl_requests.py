"""ACLs by Kafka's requests: told, added and deleted, and there again after a restart."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
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
