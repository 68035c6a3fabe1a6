"""Balanced over processes and topics, with few moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Cluster,
    InstanceStickyAssignor,
    MemberInfo,
    Partitions,
    WarmSettings,
)
from coterie_protocol.consumer import flatten
from tests.assignors.warm_world import process, warm
from tests.assignors.world import (
    Pair,
    assert_valid,
    everything,
    group,
    having,
    loads,
    member,
    moved,
    without,
)
from tests.support.profiles import examples


def assign(
    topics: Mapping[str, int], members: Mapping[str, MemberInfo], factor: int = 1
) -> dict[str, Partitions]:
    settings = WarmSettings(balance_factor=factor)
    return InstanceStickyAssignor().assign_warm(Cluster(topics), members, settings)


def by_process(
    members: Mapping[str, MemberInfo], assignment: Mapping[str, Partitions]
) -> dict[object, set[Pair]]:
    held: dict[object, set[Pair]] = {}
    for name, partitions in assignment.items():
        report = members[name].warm
        key = report.process if report and report.process else name
        held.setdefault(key, set()).update(flatten(partitions))
    return held


def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)


topic_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(
    lambda sizes: {f"t{n}": size for n, size in enumerate(sizes)}
)
processes = st.lists(st.integers(1, 3), min_size=1, max_size=5)


def members_of(topics: Mapping[str, int], sizes: list[int]) -> dict[str, MemberInfo]:
    """That many members in each process."""
    return group(
        *(
            warm(f"p{number}-{n}", topics, process=process(number))
            for number, size in enumerate(sizes, 1)
            for n in range(size)
        )
    )


def assert_even(
    topics: Mapping[str, int],
    members: Mapping[str, MemberInfo],
    given: Mapping[str, Partitions],
    factor: int = 1,
) -> None:
    assert_valid(topics, members, given)
    held = by_process(members, given)
    assert spread([len(pairs) for pairs in held.values()]) <= factor
    for topic in topics:
        counts = [sum(pair[0] == topic for pair in pairs) for pairs in held.values()]
        assert spread(counts) <= factor
    for key in held:
        theirs = [
            loads(given)[name]
            for name, info in members.items()
            if info.warm and info.warm.process == key
        ]
        assert spread(theirs) <= 1


@given(topics=topic_sizes, sizes=processes)
@examples(80)
def test_processes_topics_and_members_are_even(topics: dict[str, int], sizes: list[int]) -> None:
    members = members_of(topics, sizes)
    assert_even(topics, members, assign(topics, members))


@given(topics=topic_sizes, sizes=processes, more=st.integers(1, 3), factor=st.integers(1, 3))
@examples(80)
def test_it_stays_even_as_processes_come_and_go(
    topics: dict[str, int], sizes: list[int], more: int, factor: int
) -> None:
    members = members_of(topics, sizes)
    given = assign(topics, members, factor)
    for change in (members_of(topics, [*sizes, more]), members_of(topics, [*sizes, more][1:])):
        members = {
            name: having(group(info), given)[name] if name in given else info
            for name, info in change.items()
        }
        given = assign(topics, members, factor)
        assert_even(topics, members, given, factor)
        again = having(members, given)
        assert moved(again, assign(topics, again, factor)) == 0


def test_a_newcomer_gets_its_share_and_no_more_moves() -> None:
    topics = {"t": 12}
    members = members_of(topics, [1, 2])
    given = assign(topics, members)
    joined = having(members, given) | members_of(topics, [1, 2, 1])
    joined = {name: having(members, given).get(name, info) for name, info in joined.items()}
    assert moved(joined, assign(topics, joined)) == 4


def test_what_left_is_taken_over_without_other_moves() -> None:
    topics = {"t": 12, "u": 6}
    members = members_of(topics, [1, 1, 1])
    left = without(having(members, assign(topics, members)), "p2-0")
    assert moved(left, assign(topics, left)) == 0


@pytest.mark.parametrize(("factor", "expected"), [(1, 2), (2, 2), (3, 1), (4, 1), (5, 0)])
def test_nothing_moves_within_the_balance_factor(factor: int, expected: int) -> None:
    """Five to none: two moves make 3 and 2, one makes 4 and 1."""
    topics = {"t": 5}
    members = group(
        warm("a", topics, owned=everything(topics)),
        warm("b", topics),
    )
    assert moved(members, assign(topics, members, factor)) == expected


def test_partitions_without_owner_go_to_processes_with_copies() -> None:
    topics = {"t": 2, "u": 2}
    members = group(
        warm("a", topics, {("t", 1): 0, ("u", 1): 7}), warm("b", topics, {("t", 0): 9, ("u", 0): 0})
    )
    given = assign(topics, members)
    assert set(flatten(given["a"])) == {("t", 1), ("u", 1)}


def test_members_keep_what_they_have_within_a_process() -> None:
    topics = {"t": 4}
    members = group(
        warm("a1", topics, owned=[("t", 3)], process=process(1)),
        warm("a2", topics, owned=[("t", 0)], process=process(1)),
        warm("b", topics, owned=[("t", 1), ("t", 2)], process=process(2)),
    )
    assert moved(members, assign(topics, members)) == 0


def test_members_get_only_topics_that_they_subscribe_to() -> None:
    topics = {"t": 3, "u": 5}
    members = group(
        warm("a1", ["t"], process=process(1)),
        warm("a2", ["u"], process=process(1)),
        warm("b", ["u"], process=process(2)),
        MemberInfo(member_id="stock", topics=("u",)),
    )
    given = assign(topics, members)
    assert_valid(topics, members, given)
    assert loads(given) == {"a1": 3, "a2": 0, "b": 3, "stock": 2}


def test_without_members_or_partitions_there_is_nothing_to_assign() -> None:
    assert InstanceStickyAssignor().assign(Cluster({"t": 2}), {}) == {}
    assert InstanceStickyAssignor().assign(Cluster({}), group(warm("a", ["t"]))) == {"a": ()}


def test_what_is_free_goes_first_to_those_that_can_have_little_else() -> None:
    """Or `both` gets it, and has no room for what only `busy` and it can have."""
    members = group(
        member("only-t", ["t"], [("t", 0)], 4),
        member("both", ["t", "u"], [("u", 0)], 4),
        member("busy", ["u"], [("u", 1), ("u", 2), ("u", 3)], 4),
    )
    given = InstanceStickyAssignor().assign(Cluster({"t": 2, "u": 4}), members)
    assert loads(given) == {"only-t": 2, "both": 2, "busy": 2}
