"""What ACLs come to, against a reading of Kafka's rules that looks at every ACL each time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coterie_server.security import ANONYMOUS, Principal
from coterie_server.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coterie_server.security.authorizer import OPERATIONS, AccessConfig, Acls, Authorizer
from coterie_server.security.principal import NODE_KIND
from tests.support.profiles import examples

ANN: Final = Principal("User", "ann")
BOB: Final = Principal("User", "bob")
HERE: Final = "/10.0.0.1"

_KINDS: Final = (ResourceType.TOPIC, ResourceType.GROUP)
#: Few, so that ACLs often concern what is asked; every operation is asked about below.
_OPERATIONS: Final = (Operation.ALL, Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS)
_ASKED: Final = (
    Operation.READ,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_NAMES: Final = st.sampled_from(("a", "ab", "abc", "b", "*"))

acls: Final = st.builds(
    Acl,
    resource_type=st.sampled_from(_KINDS),
    name=_NAMES,
    pattern=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    principal=st.sampled_from(("User:ann", "User:*", "User:bob")),
    host=st.sampled_from(("*", "10.0.0.1", "10.0.0.2")),
    operation=st.sampled_from(_OPERATIONS),
    permission=st.sampled_from((Permission.ALLOW, Permission.DENY)),
)


def naively(
    rules: Iterable[Acl], operation: Operation, kind: ResourceType, name: str, *, default: bool
) -> bool:
    """What Ann may do from here."""
    about = [rule for rule in rules if rule.resource_type is kind and _covers(rule, name)]
    mine = [
        rule
        for rule in about
        if rule.principal in ("User:ann", "User:*") and rule.host in ("*", "10.0.0.1")
    ]
    denied = {rule.operation for rule in mine if rule.permission is Permission.DENY}
    allowed = {rule.operation for rule in mine if rule.permission is Permission.ALLOW}
    if operation in denied or Operation.ALL in denied:
        return False
    enough = {operation, Operation.ALL}
    if operation is Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return bool(enough & allowed) or (default and not about)


def _covers(rule: Acl, name: str) -> bool:
    if rule.pattern is PatternType.PREFIXED:
        return name.startswith(rule.name)
    return rule.name in (name, "*")


def authorizer_with(*rules: Acl, **config: Any) -> Authorizer:
    """An authorizer that goes by some ACLs."""
    made = Authorizer(AccessConfig(**config))
    made.go_by(Acls(rules))
    return made


def acl(operation: Operation, name: str = "g", **fields: Any) -> Acl:
    """That Ann may do something with a group."""
    usual = Acl(
        ResourceType.GROUP,
        name,
        PatternType.LITERAL,
        "User:ann",
        "*",
        operation,
        Permission.ALLOW,
    )
    return usual._replace(**fields)


@examples(500)
@given(
    rules=st.lists(acls, max_size=8),
    operation=st.sampled_from(_ASKED),
    kind=st.sampled_from(_KINDS),
    name=_NAMES,
    default=st.booleans(),
)
def test_decisions_are_those_of_the_naive_reading(
    rules: list[Acl], operation: Operation, kind: ResourceType, name: str, *, default: bool
) -> None:
    authorizer = authorizer_with(*rules, allow_if_no_acl=default)
    expected = naively(rules, operation, kind, name, default=default)
    assert authorizer.allows(ANN, HERE, operation, kind, name) is expected


class Changing(RuleBasedStateMachine):
    """ACLs come and go, and what was decided before is not remembered for longer than it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.authorizer = authorizer_with()
        self.present: dict[Acl, None] = {}

    @rule(added=acls)
    def add(self, added: Acl) -> None:
        """One more."""
        self.authorizer.add(added)
        self.present[added] = None

    @rule(gone=acls)
    def discard(self, gone: Acl) -> None:
        """One that may never have been there."""
        self.authorizer.discard(gone)
        self.present.pop(gone, None)

    @rule(data=st.data())
    def discard_one(self, data: st.DataObject) -> None:
        """One that is there."""
        if self.present:
            self.discard(data.draw(st.sampled_from(list(self.present))))

    @invariant()
    def decides_by_what_is_there(self) -> None:
        """Of two names that patterns often match."""
        assert list(self.authorizer.acls) == list(self.present)
        for name in ("a", "ab"):
            expected = naively(self.present, Operation.READ, _KINDS[0], name, default=False)
            found = self.authorizer.allows(ANN, HERE, Operation.READ, _KINDS[0], name)
            assert found is expected


Changing.TestCase.settings = examples(30, stateful_step_count=12)
TestChanging = Changing.TestCase


def test_to_deny_an_operation_does_not_deny_what_it_would_imply() -> None:
    authorizer = authorizer_with(
        acl(Operation.READ, permission=Permission.DENY), acl(Operation.DESCRIBE)
    )
    assert authorizer.allows(ANN, HERE, Operation.DESCRIBE, ResourceType.GROUP, "g")
    assert not authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, "g")


def test_a_wildcard_that_denies_wins_over_the_very_name() -> None:
    denied = acl(Operation.ALL, "*", principal="User:*", permission=Permission.DENY)
    authorizer = authorizer_with(acl(Operation.READ), denied)
    assert not authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, "g")


@pytest.mark.parametrize("name", ["g", "gr", "group"])
def test_a_prefix_that_denies_wins_over_the_very_name(name: str) -> None:
    denied = acl(Operation.READ, "g", pattern=PatternType.PREFIXED, permission=Permission.DENY)
    authorizer = authorizer_with(acl(Operation.READ, name), denied)
    assert not authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, name)


@pytest.mark.parametrize(
    ("granted", "implied"),
    [
        (Operation.READ, Operation.DESCRIBE),
        (Operation.WRITE, Operation.DESCRIBE),
        (Operation.DELETE, Operation.DESCRIBE),
        (Operation.ALTER, Operation.DESCRIBE),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
        (Operation.ALL, Operation.DELETE),
    ],
)
def test_an_operation_implies_no_more_than_it_does_in_kafka(
    granted: Operation, implied: Operation
) -> None:
    authorizer = authorizer_with(acl(granted))
    allowed = {
        each
        for each in OPERATIONS[ResourceType.TOPIC]
        if authorizer.allows(ANN, HERE, each, ResourceType.GROUP, "g")
    }
    assert implied in allowed
    assert granted is Operation.ALL or allowed == {granted, implied}


def test_another_principals_acl_is_enough_to_end_the_default() -> None:
    authorizer = authorizer_with(acl(Operation.READ), allow_if_no_acl=True)
    assert not authorizer.allows(BOB, HERE, Operation.READ, ResourceType.GROUP, "g")
    assert authorizer.allows(BOB, HERE, Operation.READ, ResourceType.GROUP, "h")
    assert authorizer.allows(BOB, HERE, Operation.READ, ResourceType.TOPIC, "g")


def test_super_users_and_nodes_are_denied_nothing() -> None:
    denied = acl(Operation.ALL, principal="User:*", permission=Permission.DENY)
    authorizer = authorizer_with(denied, super_users=frozenset({"User:bob"}))
    for principal, expected in ((ANN, False), (BOB, True), (Principal(NODE_KIND, "2"), True)):
        found = authorizer.allows(principal, HERE, Operation.READ, ResourceType.GROUP, "g")
        assert found is expected


def test_anonymous_clients_are_users_like_others() -> None:
    authorizer = authorizer_with(acl(Operation.READ, principal="User:ANONYMOUS"))
    assert authorizer.allows(ANONYMOUS, HERE, Operation.READ, ResourceType.GROUP, "g")
    assert not authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, "g")


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1", "/fe80:0:0:0:0:0:0:1%eth0"),
        ("0:0:0:0:0:0:0:1", "/0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", HERE),
        ("10.0.0.1", HERE),
    ],
)
def test_an_address_may_be_written_in_any_way(written: str, host: str) -> None:
    authorizer = authorizer_with(acl(Operation.READ, host=written))
    assert authorizer.allows(ANN, host, Operation.READ, ResourceType.GROUP, "g")
    assert not authorizer.allows(ANN, "/10.0.0.9", Operation.READ, ResourceType.GROUP, "g")


def test_acls_for_one_address_in_different_words_are_deleted_one_by_one() -> None:
    written = ("10.0.0.1", "::ffff:10.0.0.1")
    authorizer = authorizer_with(*(acl(Operation.READ, host=each) for each in written))
    for each, is_left in zip(written, (True, False), strict=True):
        authorizer.discard(acl(Operation.READ, host=each))
        assert authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, "g") is is_left
    assert len(authorizer.acls) == 0


def test_all_operations_make_the_fields_that_kafka_tells_without_an_authorizer() -> None:
    authorizer = authorizer_with(allow_if_no_acl=True)
    fields = {kind: authorizer.operations(ANN, HERE, kind, "x") for kind in OPERATIONS}
    assert fields == {
        ResourceType.TOPIC: 3576,
        ResourceType.GROUP: 3400,
        ResourceType.CLUSTER: 8096,
    }


def test_a_field_has_a_bit_for_each_operation_that_is_allowed() -> None:
    authorizer = authorizer_with(acl(Operation.READ))
    field = authorizer.operations(ANN, HERE, ResourceType.GROUP, "g")
    assert field == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert authorizer.operations(BOB, HERE, ResourceType.GROUP, "g") == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie_server.security.authorizer._REMEMBERED_MAX", 10)
    authorizer = authorizer_with(acl(Operation.READ, "*"))
    for number in range(100):
        assert authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, f"g{number}")
        assert authorizer.remembered <= 10
    authorizer.go_by(Acls())
    authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, "g" * 1000)
    assert authorizer.remembered == 0


def test_thousands_of_acls_cost_no_more_than_a_few() -> None:
    few, many = (
        authorizer_with(
            *(acl(Operation.READ, f"g{n}", principal=f"User:u{n}") for n in range(count)),
            *(
                acl(Operation.READ, f"team{n:05}-", pattern=PatternType.PREFIXED)
                for n in range(count)
            ),
        )
        for count in (5, 5_000)
    )

    def cost(authorizer: Authorizer) -> int:
        """How many lines are executed: the same however busy the machine is."""
        lines = 0

        def trace(_frame: FrameType, event: str, _value: object) -> Callable[..., Any]:
            nonlocal lines
            lines += event == "line"
            return trace

        former = sys.gettrace()
        sys.settrace(trace)
        for number in range(500):
            authorizer.allows(ANN, HERE, Operation.READ, ResourceType.GROUP, f"team00001-{number}")
        authorizer.discard(acl(Operation.READ, "not there"))
        sys.settrace(former)
        return lines

    assert cost(many) < 2 * cost(few)
