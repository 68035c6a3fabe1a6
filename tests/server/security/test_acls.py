"""What a filter finds, and which ACLs are refused."""

from __future__ import annotations

from typing import Any

import pytest

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

READ_ORDERS = Acl(
    ResourceType.GROUP,
    "orders",
    PatternType.LITERAL,
    "User:ann",
    "*",
    Operation.READ,
    Permission.ALLOW,
)


def acl(**fields: Any) -> Acl:
    """An ACL that differs from `READ_ORDERS`."""
    return READ_ORDERS._replace(**fields)


PREFIX = acl(name="ord", pattern=PatternType.PREFIXED)
WILDCARD = acl(name="*")


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (PatternType.ANY, None, [READ_ORDERS, PREFIX, WILDCARD]),
        (PatternType.ANY, "orders", [READ_ORDERS]),
        (PatternType.ANY, "ord", [PREFIX]),
        (PatternType.LITERAL, None, [READ_ORDERS, WILDCARD]),
        (PatternType.LITERAL, "*", [WILDCARD]),
        (PatternType.PREFIXED, "orders", []),
        (PatternType.PREFIXED, None, [PREFIX]),
        (PatternType.MATCH, None, [READ_ORDERS, PREFIX, WILDCARD]),
        (PatternType.MATCH, "orders", [READ_ORDERS, PREFIX, WILDCARD]),
        (PatternType.MATCH, "ordinary", [PREFIX, WILDCARD]),
        (PatternType.MATCH, "or", [WILDCARD]),
    ],
)
def test_a_filter_finds_patterns(pattern: PatternType, name: str | None, found: list[Acl]) -> None:
    wanted = AclFilter(pattern=pattern, name=name)
    assert [each for each in (READ_ORDERS, PREFIX, WILDCARD) if wanted.matches(each)] == found


@pytest.mark.parametrize(
    "other",
    [
        {"resource_type": ResourceType.TOPIC},
        {"principal": "User:bob"},
        {"host": "10.0.0.1"},
        {"operation": Operation.ALL},
        {"permission": Permission.DENY},
    ],
)
def test_a_filter_compares_each_field(other: dict[str, Any]) -> None:
    wanted = AclFilter(
        READ_ORDERS.resource_type,
        READ_ORDERS.name,
        PatternType.LITERAL,
        READ_ORDERS.principal,
        READ_ORDERS.host,
        READ_ORDERS.operation,
        READ_ORDERS.permission,
    )
    assert wanted.matches(READ_ORDERS)
    assert not wanted.matches(acl(**other))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType(77)}, "Invalid resourceType UNKNOWN"),
        ({"pattern": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": Operation(-1)}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"principal": "ann"}, "Invalid principal 'ann'"),
        ({"principal": "User:"}, "Invalid principal 'User:'"),
        ({"host": ""}, "Invalid host ''"),
        ({"host": "10.0.*"}, "Invalid host '10.0.*'"),
        ({"host": "10.0.0.0/8"}, "Invalid host '10.0.0.0/8'"),
        ({"host": "worker-1.example"}, "Invalid host 'worker-1.example'"),
        ({"host": " 10.0.0.1"}, "Invalid host ' 10.0.0.1'"),
        ({"host": "[::1]"}, "Invalid host '[::1]'"),
        ({"host": "fe80::1%eth0"}, "Invalid host 'fe80::1%eth0'"),
        ({"name": "n" * 1025}, "can't be longer than 1024 bytes"),
        (
            {"resource_type": ResourceType.CLUSTER, "name": "mine"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_an_acl_that_makes_no_sense_is_refused(fields: dict[str, Any], problem: str) -> None:
    assert problem in str(check_acl(acl(**fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"host": "10.0.0.1", "principal": "User:CN=ann,OU=ops:x"},
        {"host": "/10.0.0.1"},
        {"host": "::1"},
        {"host": "::ffff:10.0.0.1"},
        {"resource_type": ResourceType.CLUSTER, "name": "kafka-cluster"},
        {"operation": Operation.ALL, "pattern": PatternType.PREFIXED},
    ],
)
def test_an_acl_that_makes_sense_is_taken(fields: dict[str, Any]) -> None:
    assert check_acl(acl(**fields)) is None


def test_a_filter_with_an_unknown_number_is_refused() -> None:
    assert check_filter(AclFilter()) is None
    assert check_filter(AclFilter(resource_type=ResourceType(99))) == "Unknown patternFilter."
    assert check_filter(AclFilter(operation=Operation(99))) == "Unknown entryFilter."


def test_an_acl_reads_as_a_sentence() -> None:
    assert str(READ_ORDERS) == "User:ann from * may Read Group orders"
    denied = acl(
        name="pay-",
        pattern=PatternType.PREFIXED,
        permission=Permission.DENY,
        operation=Operation.DESCRIBE_CONFIGS,
    )
    assert str(denied) == "User:ann from * may not DescribeConfigs Group pay-*"
