"""Balancing loads: what the settings may be, and what each of them does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from coterie_assignors import (
    UNKNOWN,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    StickyAssignor,
    WarmReport,
    Weights,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from coterie_protocol.loads import Load, LoadReport
from tests.assignors.world import Pair, group, loads, member, moved, without

OLD_MS = 10**7


def telling(
    name: str,
    owned: Mapping[int, float | None],
    *,
    age_ms: int = OLD_MS,
    left: Mapping[int, float | None] | None = None,
    left_ms: int = 1000,
    rack: str | None = None,
) -> MemberInfo:
    """A member that tells the loads of its partitions of one topic."""
    return MemberInfo(
        member_id=name,
        topics=("t",),
        owned=group_by_topic(("t", number) for number in owned),
        generation=1,
        rack=rack,
        loads=LoadReport(
            {("t", number): Load(load, age_ms) for number, load in owned.items()},
            {("t", number): Load(load, left_ms) for number, load in (left or {}).items()},
        ),
    )


def share(
    members: Mapping[str, MemberInfo], partitions: int, **settings: Any
) -> dict[str, set[int]]:
    """Who gets which partitions of the topic."""
    assignor = CooperativeStickyAssignor(Weights(**settings))
    given = assignor.assign(Cluster({"t": partitions}), members)
    return {name: numbers(partitions) for name, partitions in given.items()}


def numbers(partitions: Partitions) -> set[int]:
    """The numbers of partitions of the topic."""
    return {number for _, number in flatten(partitions)}


# Settings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tolerance": 0}, "tolerance must be a number from 0.01 to 10, got 0"),
        ({"tolerance": float("nan")}, "tolerance must be a number from 0.01 to 10, got nan"),
        ({"tolerance": True}, "tolerance must be a number from 0.01 to 10, got True"),
        ({"tolerance": "0.2"}, "tolerance must be a number from 0.01 to 10, got '0.2'"),
        ({"max_moves": 0}, "max_moves must be a whole number from 1, or None, got 0"),
        ({"max_moves": 1.0}, "max_moves must be a whole number from 1, or None, got 1.0"),
        ({"rest": 0}, "rest must be a number of seconds from 0.001 to 2147483, got 0"),
        ({"rest": None}, "rest must be a number of seconds from 0.001 to 2147483, got None"),
        ({"smoothing": -1}, "smoothing must be a number of seconds from 0.001 to 2147483, got -1"),
        ({"rebalance": 1}, "rebalance must be True or False, got 1"),
        ({"refresh": 0}, "refresh must be a number of seconds from 0.001 to 2147483, got 0"),
        ({"refresh": "x"}, "refresh must be a number of seconds from 0.001 to 2147483, got 'x'"),
        ({"topics": ["t"]}, r"topics must be a mapping from topics to weights, got \['t'\]"),
        ({"topics": {1: 1}}, r"topics must be a mapping from topics to weights, got \{1: 1\}"),
        ({"topics": {"t": 0}}, r"topics\['t'\] must be a number above 0, at most 1e\+15, got 0"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^weights: {complaint}$"):
        Weights(**settings)


def test_settings_do_not_change_with_the_mapping_that_they_were_given() -> None:
    topics = {"t": 2.0}
    weights = Weights(topics=topics)
    topics["t"] = 0.0
    assert weights.topics == {"t": 2.0}


@pytest.mark.parametrize("kind", [CooperativeStickyAssignor, StickyAssignor])
def test_assignor_refuses_what_are_no_weights(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"weights must be a Weights or None, got 0\.2"):
        kind(0.2)


# What is known


def test_without_any_load_partitions_are_shared_out_by_number() -> None:
    members = group(*(member(name, ["t"]) for name in "abc"))
    cluster = Cluster({"t": 8})
    weighted = CooperativeStickyAssignor(Weights()).assign(cluster, members)
    assert weighted == CooperativeStickyAssignor().assign(cluster, members)


def test_loads_of_zero_tell_nothing_apart() -> None:
    members = group(telling("a", dict.fromkeys(range(4), 0.0)), telling("b", {}))
    assert {len(numbers) for numbers in share(members, 4).values()} == {2}


def test_weight_of_a_topic_counts_where_no_load_is_known() -> None:
    members = group(*(member(name, ["big", "small"]) for name in "ab"))
    assignor = CooperativeStickyAssignor(Weights(topics={"big": 3}))
    given = assignor.assign(Cluster({"big": 1, "small": 3}), members)
    assert sorted(loads(given).values()) == [1, 3]


def test_load_that_is_known_counts_more_than_the_weight_of_its_topic() -> None:
    members = group(telling("a", {0: 1.0, 1: 1.0}), telling("b", {2: 1.0, 3: 1.0}))
    assert share(members, 4, topics={"t": 50}) == {"a": {0, 1}, "b": {2, 3}}


def test_unknown_load_is_taken_for_the_mean_of_its_topic() -> None:
    """A new partition of the busy topic goes to the member that has less, and one more of it."""
    busy = MemberInfo(
        member_id="a",
        topics=("busy", "calm"),
        owned=group_by_topic([("busy", 0)]),
        generation=1,
        loads=LoadReport({("busy", 0): Load(9.0, OLD_MS)}),
    )
    calm = replace(
        busy,
        member_id="b",
        owned=group_by_topic([("calm", 0)]),
        loads=LoadReport({("calm", 0): Load(1.0, OLD_MS)}),
    )
    assignor = CooperativeStickyAssignor(Weights())
    given = assignor.assign(Cluster({"busy": 2, "calm": 5}), group(busy, calm))
    assert flatten(given["b"]) >= {("busy", 1)}
    assert {t for t, _ in flatten(given["a"])} == {"busy", "calm"}


def test_load_of_a_partition_on_its_way_is_known_from_who_had_it() -> None:
    """Its next owner gets it, and not two of the others as well."""
    members = group(
        telling("a", {0: 5.0}, left={1: 5.0}),
        telling("b", {2: 1.0, 3: 1.0}),
        telling("c", {4: 3.0}),
    )
    assert share(members, 6)["b"] == {1, 2, 3}


def test_idle_partitions_are_spread_by_number_as_far_as_loads_allow() -> None:
    def idle(busy: float) -> dict[str, int]:
        members = {
            name: replace(info, topics=("t", "idle"))
            for name, info in group(telling("a", {0: 100.0}), telling("b", {1: busy})).items()
        }
        assignor = CooperativeStickyAssignor(Weights(topics={"idle": 1e-9}))
        return loads(assignor.assign(Cluster({"t": 2, "idle": 40}), members))

    assert idle(100.0) == {"a": 21, "b": 21}
    assert idle(90.0) == {"a": 21, "b": 21}
    assert idle(50.0) == {"a": 1, "b": 41}


# What moves


def test_heavy_partitions_are_dealt_out_first() -> None:
    members = group(*(member(name, ["t", "u"]) for name in "ab"))
    assignor = CooperativeStickyAssignor(Weights(topics={"u": 4}))
    given = assignor.assign(Cluster({"t": 4, "u": 1}), members)
    assert sorted(loads(given).values()) == [1, 4]


def test_nothing_moves_within_the_tolerance() -> None:
    members = group(telling("a", {0: 6.0, 1: 6.0}), telling("b", {2: 4.0, 3: 4.0}))
    assert share(members, 4, tolerance=0.2) == {"a": {0, 1}, "b": {2, 3}}


def test_beyond_the_tolerance_it_does() -> None:
    members = group(telling("a", {0: 6.0, 1: 6.0, 4: 0.5}), telling("b", {2: 4.0, 3: 4.0, 5: 0.5}))
    given = share(members, 6, tolerance=0.1)
    assert given != {"a": {0, 1, 4}, "b": {2, 3, 5}}


def test_heavy_partition_is_exchanged_for_a_lighter_one() -> None:
    members = group(telling("a", {0: 5.0, 1: 5.0}), telling("b", {2: 4.0, 3: 3.0}))
    given = share(members, 4, tolerance=0.1, max_moves=2)
    assert sorted(map(sorted, given.values())) in ([[0, 2], [1, 3]], [[0, 3], [1, 2]])
    assert share(members, 4, tolerance=0.1, max_moves=1) == {"a": {0, 1}, "b": {2, 3}}


def test_only_so_many_move_in_a_rebalance() -> None:
    owned = dict.fromkeys(range(20), 1.0)
    members = group(telling("a", owned), telling("b", {20: 1.0}))
    assert len(share(members, 21, max_moves=3)["a"]) == 17
    assert len(share(members, 21)["a"]) == 18  # a tenth


def test_partition_rests_after_it_has_moved() -> None:
    members = group(
        telling("a", dict.fromkeys(range(4), 1.0), age_ms=299_999), telling("b", {4: 1.0})
    )
    assert len(share(members, 5)["a"]) == 4
    assert len(share(members, 5, rest=299)["a"]) == 3


def test_member_that_owns_nothing_gets_its_share_whatever_rests() -> None:
    members = group(
        telling("a", dict.fromkeys(range(10), 1.0), age_ms=0),
        telling("b", dict.fromkeys(range(10, 20), 1.0), age_ms=0),
        telling("new", {}),
    )
    assert len(share(members, 20, max_moves=1)["new"]) == 6


def test_what_rests_moves_last() -> None:
    rested = telling("a", dict.fromkeys(range(4), 1.0))
    assert rested.loads is not None
    fresh = {("t", number): Load(1.0, 0) for number in (0, 1)}
    members = group(
        replace(rested, loads=LoadReport({**rested.loads.owned, **fresh})), telling("b", {})
    )
    assert share(members, 4)["b"] == {2, 3}


def test_partition_does_not_go_back_to_whom_it_left() -> None:
    members = group(
        telling("a", {0: 1.0}, left={3: 1.0}),
        telling("b", {1: 1.2}),
        telling("c", {2: 1.1, 4: 1.0}),
    )
    assert share(members, 5)["b"] == {1, 3}
    assert share(members, 5, rest=1)["a"] == {0, 3}


def test_partition_goes_back_if_no_other_can_have_it() -> None:
    members = group(telling("a", {0: 1.0}, left={1: 1.0}))
    assert share(members, 2) == {"a": {0, 1}}


def test_nothing_else_moves_while_partitions_change_hands() -> None:
    owned = dict.fromkeys(range(6), 1.0)
    handing_over = group(telling("a", owned, left={6: 1.0}), telling("b", {7: 1.0}))
    assert share(handing_over, 8) == {"a": set(range(6)), "b": {6, 7}}


def test_partitions_of_other_makes_are_not_moved_for_their_load() -> None:
    """What they do is not known, nor since when they do it."""
    stock = member("stock", ["t"], [("t", number) for number in range(6)], 1)
    members = group(stock, telling("b", {6: 1.0}), telling("c", {7: 1.0}))
    assert share(members, 8)["stock"] == set(range(6))
    members = group(stock, telling("b", {6: 1.0}), telling("c", {}))
    assert len(share(members, 7)["stock"]) < 6


def test_refused_partition_goes_elsewhere_without_anything_in_return() -> None:
    refuser = replace(telling("a", {1: 3.0}), refused=group_by_topic([("t", 0)]))
    members = group(refuser, telling("b", {2: 1.0, 3: 1.0}))
    led = lead(CooperativeStickyAssignor(Weights()), Cluster({"t": 4}), members)
    assert {name: numbers(given) for name, given in led.assignment.items()} == {
        "a": {1},
        "b": {0, 2, 3},
    }


def test_partition_that_all_refuse_stays() -> None:
    refused = group_by_topic([("t", 0)])
    members = group(
        replace(telling("a", {0: 1.0, 1: 1.0}), refused=refused),
        replace(telling("b", {2: 1.0, 3: 1.0}), refused=refused),
    )
    assert share(members, 4) == {"a": {0, 1}, "b": {2, 3}}


def test_hot_partition_does_not_make_the_group_rebalance_for_ever() -> None:
    members = group(telling("a", {0: 100.0}), telling("b", {1: 1.0}), telling("c", {2: 1.0}))
    assert share(members, 3) == {"a": {0}, "b": {1}, "c": {2}}
    assignor = CooperativeStickyAssignor(Weights())
    assert assignor.reason_to_rebalance(Cluster({"t": 3}), members) is None


def test_leader_says_who_has_too_much() -> None:
    members = group(telling("a", dict.fromkeys(range(9), 1.0)), telling("b", {9: 1.0}))
    assignor = CooperativeStickyAssignor(Weights(max_moves=3))
    reason = assignor.reason_to_rebalance(Cluster({"t": 10}), members)
    assert reason == "a has 1.80 times the mean, 3 partitions to move"
    assert CooperativeStickyAssignor().reason_to_rebalance(Cluster({"t": 10}), members) is None


# Subscriptions and racks


def test_members_share_only_what_they_subscribe_to() -> None:
    def of(name: str, topics: list[str], pairs: Iterable[Pair]) -> MemberInfo:
        told = {pair: Load(1.0, OLD_MS) for pair in pairs}
        return replace(member(name, topics, told, 1), loads=LoadReport(told))

    members = group(
        of("a", ["t"], [("t", n) for n in range(6)]),
        of("b", ["t", "u"], [("u", n) for n in range(3)]),
        of("c", ["u"], [("u", 3)]),
    )
    assignor = CooperativeStickyAssignor(Weights(tolerance=0.1, max_moves=10))
    given = assignor.assign(Cluster({"t": 6, "u": 4}), members)
    assert sorted(loads(given).values()) == [3, 3, 4]


def telling_of(name: str, topics: list[str], told: Mapping[Pair, float]) -> MemberInfo:
    """A member of a group with several topics, that tells loads."""
    loads = {pair: Load(load, OLD_MS) for pair, load in told.items()}
    return replace(member(name, topics, told, 1), loads=LoadReport(loads))


def test_mean_is_that_of_members_that_share_topics() -> None:
    members = group(
        telling_of("a", ["t"], {("t", 0): 100.0}),
        telling_of("b", ["t"], {("t", 1): 100.0}),
        telling_of("c", ["u"], {("u", n): 1.0 for n in range(5)}),
        telling_of("d", ["u"], {("u", 5): 1.0}),
    )
    given = CooperativeStickyAssignor(Weights(max_moves=9)).assign(
        Cluster({"t": 2, "u": 6}), members
    )
    assert loads(given) == {"a": 1, "b": 1, "c": 3, "d": 3}


def test_other_members_do_not_lower_the_mean() -> None:
    """Here `a` is within the tolerance of those that it shares a topic with."""
    members = group(
        telling_of("a", ["t"], {("t", n): 0.23 for n in range(5)}),
        telling_of("b", ["t"], {("t", 5): 0.95}),
        telling_of("c", ["t"], {("t", 6): 0.9}),
        telling_of("d", ["u"], {("u", 0): 0.1}),
    )
    given = CooperativeStickyAssignor(Weights()).assign(Cluster({"t": 7, "u": 1}), members)
    assert moved(members, given) == 0


def test_newcomer_takes_from_who_has_most_after_what_had_no_owner_was_placed() -> None:
    others = [
        telling_of(f"a{n}", ["t"], {("t", 4 * n + i): 1.0 for i in range(4)}) for n in range(5)
    ]
    members = group(
        *others,
        telling_of("b", ["t", "u"], {("t", n): 1.0 for n in range(20, 23)}),
        telling_of("c", ["t"], {}),
    )
    assignor = CooperativeStickyAssignor(Weights(topics={"u": 5}))
    given = assignor.assign(Cluster({"t": 23, "u": 1}), members)
    assert numbers(given["c"]) == {20, 21, 22}


def test_mean_that_is_out_of_reach_makes_nothing_move_between_equals() -> None:
    """The others are above the mean for good, as they can't give `a` anything."""
    light = {("u", n): 0.1 for n in range(3)}
    members = group(
        telling_of("a", ["t"], {("t", 0): 1.0}),
        telling_of("b", ["t", "u"], {("u", n): 1.0 for n in range(10, 20)} | light),
        telling_of("c", ["u"], {("u", n): 1.0 for n in (*range(3, 10), 20, 21, 22)}),
    )
    given = CooperativeStickyAssignor(Weights()).assign(Cluster({"t": 1, "u": 23}), members)
    assert moved(members, given) == 0


def test_partitions_are_near_their_members_where_loads_allow_it() -> None:
    racks = {"t": [frozenset({"r1"}), frozenset({"r2"})] * 4}
    members = group(telling("a", {}, rack="r1"), telling("b", {1: 1.0}, rack="r2"))
    given = CooperativeStickyAssignor(Weights()).assign(Cluster({"t": 8}, racks), members)
    assert {name: numbers(each) for name, each in given.items()} == {
        "a": {0, 2, 4, 6},
        "b": {1, 3, 5, 7},
    }


def test_racks_do_not_come_before_loads() -> None:
    racks = {"t": [frozenset({"r1"})] * 8}
    members = group(telling("a", {}, rack="r1"), telling("b", {0: 1.0}, rack="r2"))
    given = CooperativeStickyAssignor(Weights()).assign(Cluster({"t": 8}, racks), members)
    assert sorted(loads(given).values()) == [4, 4]


# Members that are away


def test_member_that_is_away_keeps_what_it_had_and_gets_nothing() -> None:
    """Otherwise the leader would see what to move again and again, and `lead` would undo it."""
    members = group(
        replace(telling("a", dict.fromkeys(range(6), 9.0)), is_away=True, instance_id="i"),
        telling("b", dict.fromkeys(range(6, 9), 1.0)),
        telling("c", dict.fromkeys(range(9, 12), 1.0)),
        replace(telling("d", {}), is_away=True, instance_id="j"),
    )
    given = share(members, 13)
    assert given["a"] == set(range(6))
    assert given["d"] == set()
    assert {len(given["b"]), len(given["c"])} == {3, 4}
    assert (
        CooperativeStickyAssignor(Weights()).reason_to_rebalance(Cluster({"t": 12}), members)
        is None
    )


def test_newcomer_does_not_take_from_a_member_that_is_away() -> None:
    members = group(
        replace(telling("a", dict.fromkeys(range(6), 9.0)), is_away=True, instance_id="i"),
        telling("b", dict.fromkeys(range(6, 12), 1.0)),
        telling("new", {}),
    )
    copying = replace(members["new"], warm=WarmReport(lags={("t", 0): 0}))
    for given in (share(members, 12), share(members | {"new": copying}, 12)):
        assert {name: len(each) for name, each in given.items()} == {"a": 6, "b": 3, "new": 3}


def test_partition_waits_where_all_subscribers_are_away() -> None:
    away = replace(telling("a", {0: 9.0}), is_away=True, instance_id="i")
    assert share(group(away), 2) == {"a": {0, 1}}


# State


def test_partition_moves_to_who_has_a_copy_of_its_state() -> None:
    """Whichever would be best: it may have been on its way there when the loads were others."""
    members = group(
        telling("a", dict.fromkeys(range(8), 1.0) | {9: 1.5}),
        telling("b", {10: 1.0, 11: 1.0}),
        telling("c", {12: 1.2, 13: 1.2}),
    )
    copying = replace(members["c"], warm=WarmReport(lags={("t", 9): 50_000}))
    assert 9 in share(members | {"c": copying}, 14, max_moves=1)["c"]
    assert 9 not in share(members, 14, max_moves=1)["c"]


def test_partition_without_owner_goes_to_who_has_a_copy_if_that_has_room() -> None:
    members = group(telling("a", {0: 1.0, 1: 1.0}), telling("b", {2: 1.0}), telling("c", {4: 2.0}))
    copying = replace(members["a"], warm=WarmReport(lags={("t", 3): 0}))
    assert 3 in share(members, 5, tolerance=2.0)["b"]
    assert 3 in share(members | {"a": copying}, 5, tolerance=2.0)["a"]
    assert 3 in share(members | {"a": copying}, 5, tolerance=0.1)["b"]


def test_what_was_given_up_goes_to_whom_it_was_given_up_for() -> None:
    """That one has a copy by now; another one may have a lower load."""
    members = group(
        telling("a", {0: 3.0}, left={1: 1.0}),
        telling("b", {2: 2.0}),
        telling("c", {3: 1.0}),
        telling("d", {4: 3.0, 5: 1.0}),
    )
    copying = replace(members["b"], warm=WarmReport(lags={("t", 1): 10}))
    former = replace(members["a"], warm=WarmReport(lags={("t", 1): 0}))
    unsure = replace(members["c"], warm=WarmReport(lags={("t", 1): UNKNOWN}))
    assert 1 in share(members, 6)["c"]
    assert 1 in share(members | {"a": former, "b": copying, "c": unsure}, 6, tolerance=0.1)["b"]


@pytest.mark.parametrize("more", [0.0, 0.01])
def test_what_is_on_its_way_goes_on_whoever_has_most_now(more: float) -> None:
    """Or copies would be begun and given up as loads go up and down a little."""
    members = group(
        telling("a", {0: 3.0, 1: 1.0}),
        telling("b", {2: 1.0}),
        telling("c", {3: 3.0 + more, 4: 1.0}),
        telling("d", {5: 2.0}),
        telling("e", {6: 2.0}),
    )
    copying = replace(members["b"], warm=WarmReport(lags={("t", 1): 500}))
    assert share(members | {"b": copying}, 7, max_moves=1)["b"] == {1, 2}


def test_newcomer_goes_on_copying_what_it_has_begun_to_copy() -> None:
    owners = {"a": dict.fromkeys(range(8), 1.0), "b": dict.fromkeys(range(8, 16), 1.25)}
    members = group(*(telling(name, owned) for name, owned in owners.items()), telling("c", {}))
    begun = {1, 2, 3, 4}
    copying = replace(members["c"], warm=WarmReport(lags={("t", n): 70_000 for n in begun}))
    assert begun <= share(members | {"c": copying}, 16)["c"]
    assert not begun & share(members, 16)["c"]


def test_exchange_that_has_begun_goes_on() -> None:
    members = group(
        telling("a", {0: 5.0, 1: 4.0}), telling("b", {2: 3.0, 3: 3.0}), telling("c", {4: 6.0})
    )
    copying = replace(members["a"], warm=WarmReport(lags={("t", 2): 900}))
    assert share(members, 5, max_moves=2)["a"] == {1, 3}
    assert share(members | {"a": copying}, 5, max_moves=2)["a"] == {1, 2}


def test_member_that_leaves_costs_the_others_nothing() -> None:
    members = group(
        telling("a", {0: 3.0, 1: 1.0}),
        telling("b", {2: 2.0, 3: 2.0}),
        telling("c", {4: 2.0, 5: 2.0}),
    )
    rest = without(members, "b")
    given = CooperativeStickyAssignor(Weights()).assign(Cluster({"t": 6}), rest)
    assert moved(rest, given) == 0
