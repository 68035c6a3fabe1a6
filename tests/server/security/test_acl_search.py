"""Many filters at once find what each of them matches by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security.acl_search import find_all
from coterie_server.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie_server.security.authorizer import Acls
from coterie_server.turns import Unfinished, begin
from tests.support.turns import finished

_KINDS: Final = (ResourceType.TOPIC, ResourceType.GROUP)
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_NAMES: Final = ("a", "ab", "abc", "b", "*")
_PRINCIPALS: Final = ("User:ann", "User:bob")
_HOSTS: Final = ("*", "10.0.0.1")
_OPERATIONS: Final = (Operation.ALL, Operation.READ)
_PERMISSIONS: Final = (Permission.ALLOW, Permission.DENY)

_ONE: Final = Acl(
    ResourceType.GROUP,
    "g",
    PatternType.LITERAL,
    "User:ann",
    "*",
    Operation.READ,
    Permission.ALLOW,
)

acls: Final = st.builds(
    Acl,
    st.sampled_from(_KINDS),
    st.sampled_from(_NAMES),
    st.sampled_from(_PATTERNS),
    st.sampled_from(_PRINCIPALS),
    st.sampled_from(_HOSTS),
    st.sampled_from(_OPERATIONS),
    st.sampled_from(_PERMISSIONS),
)
filters: Final = st.builds(
    AclFilter,
    st.sampled_from((ResourceType.ANY, *_KINDS)),
    st.sampled_from((None, "", "abcd", *_NAMES)),
    st.sampled_from((PatternType.ANY, PatternType.MATCH, *_PATTERNS)),
    st.sampled_from((None, *_PRINCIPALS)),
    st.sampled_from((None, *_HOSTS)),
    st.sampled_from((Operation.ANY, *_OPERATIONS)),
    st.sampled_from((Permission.ANY, *_PERMISSIONS)),
)


@given(st.lists(acls), st.lists(filters))
def test_each_filter_finds_what_it_matches(there: list[Acl], wanted: list[AclFilter]) -> None:
    known = Acls(there)
    found = finished(begin(find_all(known, wanted, 1_000_000)))
    assert [set(each) for each in found] == [set(known.find(each)) for each in wanted]
    assert all(len(each) == len(set(each)) for each in found)


def test_what_is_found_of_all_is_bounded() -> None:
    known = Acls(_ONE._replace(name=f"g{number}") for number in range(10))
    twice = [AclFilter(), AclFilter()]
    assert finished(begin(find_all(known, twice, 19))) is None
    assert [len(each) for each in finished(begin(find_all(known, twice, 20)))] == [10, 10]


def test_very_many_take_turns_and_few_comparisons() -> None:
    """Each of them with each would be a hundred million."""
    known = Acls(_ONE._replace(name=f"g{number}") for number in range(10_000))
    wanted = [replace(AclFilter(), name=f"x{n}", principal=f"User:u{n}") for n in range(10_000)]
    making = begin(find_all(known, wanted, 10))
    assert isinstance(making, Unfinished)
    assert 40 < 1 + sum(1 for _ in making.making) < 100
