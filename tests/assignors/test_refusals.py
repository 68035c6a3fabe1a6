"""A partition that a member refuses goes to another one that can take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    RangeAssignor,
    lead,
)
from coterie_assignors.leader import reassign_refused
from coterie_protocol.consumer import flatten, group_by_topic

Owned = Mapping[str, set[int]]


def members(
    owned: Owned, refused: Owned, topics: tuple[str, ...] = ("t",)
) -> dict[str, MemberInfo]:
    """Members that own and refuse partitions of topic t."""
    return {
        name: MemberInfo(
            member_id=name,
            topics=topics,
            owned=group_by_topic(("t", n) for n in numbers),
            generation=3,
            refused=group_by_topic(("t", n) for n in refused.get(name, ())),
        )
        for name, numbers in owned.items()
    }


def led(owned: Owned, refused: Owned, partitions: int) -> dict[str, set[int]]:
    """What each member is meant to get, withheld or not."""
    adjustment = lead(
        CooperativeStickyAssignor(), Cluster({"t": partitions}), members(owned, refused)
    )
    return {
        name: {
            number
            for part in (adjustment.assignment[name], adjustment.withheld.get(name, ()))
            for _, number in flatten(part)
        }
        for name in owned
    }


def test_refused_partition_goes_to_another_member() -> None:
    assert 0 not in led({"a": {1, 2}, "b": {3, 4, 5}}, {"a": {0}}, 6)["a"]


def test_refuser_gets_another_partition_in_return() -> None:
    meant = led({"a": {1, 2}, "b": {3, 4, 5}}, {"a": {0}}, 6)
    assert sorted(len(numbers) for numbers in meant.values()) == [3, 3]


def test_only_one_partition_is_given_in_return() -> None:
    meant = led({"a": {1, 2}, "b": {3, 4, 5}}, {"a": {0}}, 6)
    assert {1, 2} < meant["a"]
    assert len(meant["b"] & {3, 4, 5}) == 2


def test_partition_that_all_refuse_is_assigned_all_the_same() -> None:
    meant = led({"a": {1}, "b": {2}}, {"a": {0}, "b": {0}}, 3)
    assert sum(0 in numbers for numbers in meant.values()) == 1


def test_only_member_keeps_what_it_refuses() -> None:
    assert led({"a": {1}}, {"a": {0}}, 2)["a"] == {0, 1}


def test_refused_partition_does_not_go_to_a_member_without_subscription() -> None:
    group = members({"a": set(), "b": set()}, {"a": {0}})
    group["b"] = replace(group["b"], topics=("other",))
    assignment = lead(RangeAssignor(), Cluster({"t": 1, "other": 1}), group).assignment
    assert flatten(assignment["a"]) == {("t", 0)}


def test_taker_is_preferably_one_with_something_to_return() -> None:
    group = members({"m0": {3}, "m1": {0}, "m4": set()}, {"m4": {1, 3}})
    target = {
        name: group_by_topic([("t", number)]) for name, number in (("m0", 3), ("m1", 0), ("m4", 1))
    }
    spared = {name: flatten(given) for name, given in reassign_refused(target, group).items()}
    assert spared == {"m0": {("t", 3)}, "m1": {("t", 1)}, "m4": {("t", 0)}}


def test_of_equal_takers_the_one_with_the_fewest_of_the_topic_gets_it() -> None:
    """An assignor that spreads each topic would move it on from the other one."""
    infos = members({"a": set(), "b": set(), "c": set()}, {"c": {0}}, ("t", "u"))
    target = {
        "a": group_by_topic([("t", 1)]),
        "b": group_by_topic([("u", 0)]),
        "c": group_by_topic([("t", 0), ("u", 1)]),
    }
    assert ("t", 0) in flatten(reassign_refused(target, infos)["b"])


def test_target_is_returned_as_it_is_without_refusals() -> None:
    group = members({"a": {0}, "b": {1}}, {})
    target: dict[str, Partitions] = {}
    assert reassign_refused(target, group) is target


@given(st.integers(1, 12), st.integers(1, 5), st.data())
def test_every_partition_keeps_exactly_one_owner_with_any_refusals(
    partitions: int, size: int, data: st.DataObject
) -> None:
    names = [f"m{number}" for number in range(size)]
    numbers = st.sets(st.integers(0, partitions - 1), max_size=3)
    refused = {name: data.draw(numbers) for name in names}
    meant = led({name: set() for name in names}, refused, partitions)
    given_out = [number for each in meant.values() for number in each]
    assert sorted(given_out) == list(range(partitions))
    for name, refusals in refused.items():
        for number in meant[name] & refusals:
            assert all(number in refused[other] for other in names)


@given(st.integers(1, 10), st.integers(1, 4), st.data())
def test_refusals_settle_with_racks(partitions: int, size: int, data: st.DataObject) -> None:
    names = [f"m{number}" for number in range(size)]
    racks = st.sampled_from(["a", "b"])
    numbers = st.sets(st.integers(0, partitions - 1), max_size=2)
    group = members({name: set() for name in names}, {name: data.draw(numbers) for name in names})
    group = {name: replace(each, rack=data.draw(racks)) for name, each in group.items()}
    where = [frozenset({data.draw(racks)}) for _ in range(partitions)]
    cluster = Cluster({"t": partitions}, {"t": where})
    for _ in range(10):
        adjustment = lead(CooperativeStickyAssignor(), cluster, group)
        before, group = (
            group,
            {
                name: replace(each, owned=adjustment.assignment[name])
                for name, each in group.items()
            },
        )
        if before == group:
            return
    raise AssertionError("does not settle")
