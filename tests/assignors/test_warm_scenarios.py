"""What Kafka's assignor for high availability is tested with, told of groups with the refiner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from coterie_assignors import (
    UNKNOWN,
    Adjustment,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    Partitions,
    WarmSettings,
    lead,
)
from coterie_protocol.consumer import flatten
from tests.assignors.warm_world import Scripted, StatefulGroup, process, warm
from tests.assignors.world import Pair, everything, group, loads

THREE_BY_THREE = {"a": 3, "b": 3, "c": 3}
TASKS = sorted(everything(THREE_BY_THREE))


def decide(
    topics: Mapping[str, int],
    *members: MemberInfo,
    assignor: Assignor | None = None,
    acceptable_recovery_lag: int = 100,
    max_warmup_replicas: int = 2,
    num_standbys: int = 0,
) -> Adjustment:
    settings = WarmSettings(
        acceptable_recovery_lag=acceptable_recovery_lag,
        max_warmup_replicas=max_warmup_replicas,
        num_standbys=num_standbys,
    )
    return lead(assignor or CooperativeStickyAssignor(), Cluster(topics), group(*members), settings)


def had(kind: Mapping[str, Partitions], name: str) -> set[Pair]:
    return set(flatten(kind.get(name, ())))


def count(kind: Mapping[str, Partitions]) -> int:
    return sum(loads(kind).values())


def owner(
    name: str, topics: Iterable[str], owned: Iterable[Pair], lags: Mapping[Pair, int] | None = None
) -> MemberInfo:
    """A member that works on what it owns."""
    owned = list(owned)
    return warm(name, topics, {**dict.fromkeys(owned, 0), **(lags or {})}, owned)


def test_owners_and_standbys_stay_while_a_newcomer_warms_up() -> None:
    led = decide(
        THREE_BY_THREE,
        owner("one", THREE_BY_THREE, TASKS),
        warm("two", THREE_BY_THREE, dict.fromkeys(TASKS, 10)),
        warm("three", THREE_BY_THREE),
        acceptable_recovery_lag=11,
        num_standbys=1,
    )
    # What goes to the second one at once stays with the first one as a standby.
    for name in ("one", "two"):
        copies = had(led.assignment, name) | had(led.withheld, name) | had(led.standbys, name)
        assert copies == set(TASKS)
    assert not had(led.assignment, "three")
    assert len(had(led.warmups, "three")) == 2
    assert not led.is_final


def test_whoever_is_within_the_acceptable_lag_needs_no_warm_up() -> None:
    led = decide(
        THREE_BY_THREE,
        owner("one", THREE_BY_THREE, TASKS),
        warm("two", THREE_BY_THREE, dict.fromkeys(TASKS, 10**15)),
        warm("three", THREE_BY_THREE, dict.fromkeys(TASKS, 10**15)),
        acceptable_recovery_lag=10**15,
        max_warmup_replicas=1,
    )
    assert count(led.warmups) == 0
    assert led.is_final
    assert count(led.withheld) == 6


@pytest.mark.parametrize("assignor", [CooperativeStickyAssignor(), InstanceStickyAssignor()])
@pytest.mark.parametrize(
    ("members", "expected"), [(3, [3, 3, 3]), (2, [4, 5]), (10, [0] + [1] * 9)]
)
def test_if_none_is_caught_up_partitions_are_shared_evenly_at_once(
    assignor: Assignor, members: int, expected: list[int]
) -> None:
    led = decide(
        THREE_BY_THREE,
        *(warm(f"m{n}", THREE_BY_THREE, dict.fromkeys(TASKS, 10)) for n in range(members)),
        assignor=assignor,
        acceptable_recovery_lag=0,
        max_warmup_replicas=1,
    )
    assert sorted(loads(led.assignment).values()) == expected
    assert led.is_final
    assert count(led.warmups) == 0


def test_members_of_one_process_count_as_one() -> None:
    led = decide(
        THREE_BY_THREE,
        *(warm(f"a{n}", THREE_BY_THREE, process=process(1)) for n in range(6)),
        *(warm(f"b{n}", THREE_BY_THREE, process=process(2)) for n in range(3)),
        assignor=InstanceStickyAssignor(),
    )
    given = loads(led.assignment)
    assert sorted(given[f"a{n}"] for n in range(6)) in ([0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    assert sorted(
        sum(given[f"{name}{n}"] for n in range(6) if f"{name}{n}" in given) for name in "ab"
    ) == [4, 5]
    assert max(given[f"b{n}"] for n in range(3)) - min(given[f"b{n}"] for n in range(3)) <= 1


def test_newcomers_warm_up_where_one_process_has_all() -> None:
    topics = {"a": 2, "b": 2}
    led = decide(
        topics,
        owner("one", topics, everything(topics)),
        warm("two", topics),
        warm("three", topics),
    )
    assert had(led.assignment, "one") == everything(topics)
    assert len(had(led.warmups, "two")) == 1
    assert len(had(led.warmups, "three")) == 1
    assert not led.is_final


def test_who_has_warmed_up_takes_over_and_all_is_even() -> None:
    topics = {"a": 2, "b": 2}
    led = decide(
        topics,
        owner("one", topics, everything(topics)),
        warm("two", topics, {("a", 1): 0}),
        warm("three", topics, {("b", 0): 0}),
        acceptable_recovery_lag=0,
    )
    assert had(led.withheld, "two") == {("a", 1)}
    assert had(led.withheld, "three") == {("b", 0)}
    assert led.is_final


def test_a_partition_without_owner_is_assigned() -> None:
    led = decide({"a": 2}, owner("one", ["a"], [("a", 0)]))
    assert had(led.assignment, "one") == {("a", 0), ("a", 1)}
    assert led.is_final
    assert not led.standbys


def test_a_missing_standby_is_assigned() -> None:
    led = decide(
        {"a": 1},
        owner("one", ["a"], [("a", 0)]),
        warm("two", ["a"], {("a", 0): 0}),
        num_standbys=1,
    )
    assert had(led.standbys, "two") == {("a", 0)}
    assert led.is_final


def test_a_cold_owner_gives_way_to_a_member_that_is_caught_up() -> None:
    led = decide(
        {"a": 1},
        owner("one", ["a"], [("a", 0)], {("a", 0): 500}),
        warm("two", ["a"], {("a", 0): 0}),
        assignor=Scripted({("a", 0): "one"}),
    )
    assert had(led.withheld, "two") == {("a", 0)}
    assert had(led.warmups, "one") == {("a", 0)}
    assert led.targets == {("a", 0): "one"}
    assert not led.is_final


def test_if_none_is_caught_up_the_least_far_behind_gets_it() -> None:
    led = decide(
        {"a": 1},
        warm("one", ["a"]),
        warm("two", ["a"], {("a", 0): 1000}),
        warm("three", ["a"], {("a", 0): 500}),
        assignor=Scripted({("a", 0): "one"}),
        num_standbys=1,
    )
    assert had(led.assignment, "three") == {("a", 0)}
    assert had(led.standbys, "two") == {("a", 0)}
    assert had(led.warmups, "one") == {("a", 0)}
    assert not led.is_final


def test_owners_are_each_others_standbys() -> None:
    led = decide(
        {"a": 2},
        owner("one", ["a"], [("a", 0)]),
        owner("two", ["a"], [("a", 1)]),
        num_standbys=1,
    )
    assert had(led.assignment, "one") == had(led.standbys, "two") == {("a", 0)}
    assert had(led.assignment, "two") == had(led.standbys, "one") == {("a", 1)}
    assert led.is_final


def test_members_without_a_report_keep_no_copies() -> None:
    members = [MemberInfo(member_id=name, topics=("a",)) for name in ("one", "two")]
    led = decide({"a": 2}, *members, num_standbys=1)
    assert loads(led.assignment) == {"one": 1, "two": 1}
    assert led == lead(CooperativeStickyAssignor(), Cluster({"a": 2}), group(*members))


@pytest.mark.parametrize(("tasks", "most"), [(2, 2), (4, 1), (9, 3)])
def test_there_are_no_more_warm_ups_than_allowed(tasks: int, most: int) -> None:
    topics = {"a": tasks}
    led = decide(
        topics,
        owner("one", ["a"], everything(topics)),
        warm("two", ["a"]),
        max_warmup_replicas=most,
    )
    assert had(led.assignment, "one") == everything(topics)
    assert count(led.warmups) == min(most, tasks // 2)
    assert not led.is_final


def test_a_standby_serves_as_warm_up() -> None:
    topics = {"a": 4}
    led = decide(
        topics,
        owner("one", ["a"], everything(topics)),
        warm("two", ["a"]),
        num_standbys=1,
        max_warmup_replicas=1,
    )
    assert had(led.assignment, "one") == had(led.standbys, "two") == everything(topics)
    assert not led.warmups
    assert not led.is_final


def test_a_process_by_itself_has_no_standbys() -> None:
    topics = {"a": 2}
    led = decide(
        topics,
        warm("one", ["a"], process=process(1)),
        warm("two", ["a"], process=process(1)),
        num_standbys=1,
    )
    assert count(led.assignment) == 2
    assert not led.standbys
    assert led.is_final


def test_standbys_and_warm_ups_together() -> None:
    topics = {"a": 4}
    led = decide(
        topics,
        owner("one", ["a"], everything(topics)),
        warm("two", ["a"]),
        warm("three", ["a"]),
        num_standbys=1,
    )
    assert had(led.assignment, "one") == everything(topics)
    assert count(led.standbys) == 4
    assert count(led.warmups) <= 2
    assert not led.is_final


def test_a_settled_group_keeps_what_it_has() -> None:
    topics = {"a": 4}
    mine, yours = [("a", 0), ("a", 2)], [("a", 1), ("a", 3)]
    led = decide(topics, owner("one", ["a"], mine), owner("two", ["a"], yours))
    assert had(led.assignment, "one") == set(mine)
    assert had(led.assignment, "two") == set(yours)
    assert led.is_final
    assert not led.needs_rejoin


def test_caught_up_copies_everywhere_are_used_evenly() -> None:
    topics = {"a": 4, "b": 4, "c": 1}
    members = [warm(f"m{n}", topics, dict.fromkeys(everything(topics), 0)) for n in range(3)]
    led = decide(topics, *members)
    assert set(loads(led.assignment).values()) == {3}
    assert led.is_final


def test_a_stock_member_gets_its_share_at_once() -> None:
    topics = {"a": 4}
    stock = MemberInfo(member_id="stock", topics=("a",))
    led = decide(topics, owner("one", ["a"], everything(topics)), stock, num_standbys=1)
    assert count(led.withheld) == 2
    assert set(led.standbys) == {"one"}
    assert had(led.standbys, "one") == had(led.withheld, "stock")
    assert led.is_final


def test_unknown_lags_are_not_ready() -> None:
    topics = {"a": 2}
    led = decide(
        topics,
        owner("one", ["a"], everything(topics)),
        warm("two", ["a"], dict.fromkeys(everything(topics), UNKNOWN)),
        acceptable_recovery_lag=2**63 - 1,
    )
    assert had(led.assignment, "one") == everything(topics)
    assert count(led.warmups) == 1


# Convergence


def settings_of_kafkas_test() -> WarmSettings:
    return WarmSettings(acceptable_recovery_lag=100, max_warmup_replicas=2)


@pytest.mark.parametrize("assignor", [CooperativeStickyAssignor(), InstanceStickyAssignor()])
def test_13_partitions_converge_when_a_member_comes_and_when_one_of_7_goes(
    assignor: Assignor,
) -> None:
    topics = {"a": 5, "b": 5, "c": 3}
    members = StatefulGroup(topics, settings_of_kafkas_test(), assignor)
    members.join("m0")
    assert members.rounds_until_final(1) == 1
    members.join("m1")
    members.rounds_until_final(7 + 1)
    assert sorted(len(each.owned) for each in members.members.values()) == [6, 7]
    for n in range(2, 7):
        members.join(f"m{n}")
    members.rounds_until_final(20)
    members.leave("m0")
    members.rounds_until_final(7 + 2)
    assert sorted(len(each.owned) for each in members.members.values()) == [2, 2, 2, 2, 2, 3]
