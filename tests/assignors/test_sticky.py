"""What the sticky assignor answers as members, topics and subscriptions change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    Partitions,
)
from coterie_protocol.consumer import flatten
from tests.assignors.world import (
    Pair,
    assert_fair,
    everything,
    group,
    having,
    loads,
    member,
    moved,
    without,
)

TWO = ["t0", "t1"]


def share(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
    """Assign, and check what must always hold."""
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert_fair(topics, members, given)
    return given


def pairs(given: Mapping[str, Partitions]) -> dict[str, set[Pair]]:
    """An assignment as pairs."""
    return {name: set(flatten(partitions)) for name, partitions in given.items()}


def settled(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members when they come back with what they were given."""
    return having(members, share(topics, members))


def all_of(topic: str, count: int) -> set[Pair]:
    """All partitions of one topic."""
    return {(topic, number) for number in range(count)}


# A new group


def test_member_without_topics_gets_nothing() -> None:
    assert share({"t": 3}, group(member("a", []))) == {"a": ()}


def test_unknown_topic_is_passed_over() -> None:
    assert pairs(share({}, group(member("a", ["t"])))) == {"a": set()}


def test_group_without_members_is_assigned_nothing() -> None:
    assert share({"t": 3}, {}) == {}


def test_single_member_gets_everything() -> None:
    assert pairs(share({"t": 3}, group(member("a", ["t"])))) == {"a": all_of("t", 3)}


def test_topics_without_subscribers_are_not_assigned() -> None:
    assert pairs(share({"t": 3, "u": 3}, group(member("a", ["t"])))) == {"a": all_of("t", 3)}


def test_single_member_gets_all_of_several_topics() -> None:
    given = pairs(share({"t0": 1, "t1": 2}, group(member("a", TWO))))
    assert given == {"a": everything({"t0": 1, "t1": 2})}


def test_one_member_goes_without_if_there_are_too_few_partitions() -> None:
    assert loads(share({"t": 1}, group(member("a", ["t"]), member("b", ["t"])))) == {"a": 1, "b": 0}


def test_each_member_gets_one_of_as_many_partitions() -> None:
    assert loads(share({"t": 2}, group(member("a", ["t"]), member("b", ["t"])))) == {"a": 1, "b": 1}


def test_member_with_more_topics_leaves_the_shared_one_to_the_others() -> None:
    members = group(member("a", ["t0"]), member("b", ["t0", "t1"]), member("c", ["t0"]))
    given = pairs(share({"t0": 3, "t1": 2}, members))
    assert given["b"] == all_of("t1", 2)


def test_equal_topics_are_split_evenly() -> None:
    members = group(member("a", TWO), member("b", TWO))
    assert loads(share({"t0": 3, "t1": 3}, members)) == {"a": 3, "b": 3}


def test_each_topic_is_spread_over_the_members() -> None:
    topics = {"t0": 8, "t1": 8, "t2": 8}
    members = group(*(member(f"m{n}", topics) for n in range(4)))
    for partitions in share(topics, members).values():
        assert [len(entry.partitions) for entry in partitions] == [2, 2, 2]


def test_uneven_quota_is_filled_without_moves() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 2), ("t", 3)], 1),
        member("c", ["t"], [("t", 4), ("t", 5)], 1),
    )
    given = share({"t": 7}, members)
    assert sorted(loads(given).values()) == [2, 2, 3]
    assert moved(members, given) == 0


# Members come and go


def test_newcomer_gets_half_and_nothing_else_moves() -> None:
    members = settled({"t": 4}, group(member("a", ["t"])))
    given = share({"t": 4}, members | group(member("b", ["t"])))
    assert loads(given) == {"a": 2, "b": 2}
    assert moved(members, given) == 2


def test_newcomer_gets_one_of_three_partitions() -> None:
    members = settled({"t": 3}, group(member("a", ["t"])))
    given = share({"t": 3}, members | group(member("b", ["t"])))
    assert loads(given) == {"a": 2, "b": 1}


def test_leavers_partitions_go_to_the_remaining_member() -> None:
    members = without(settled({"t": 3}, group(member("a", ["t"]), member("b", ["t"]))), "a")
    given = share({"t": 3}, members)
    assert pairs(given) == {"b": all_of("t", 3)}


def test_only_necessary_moves_when_two_join_and_two_leave() -> None:
    topics = {"t0": 3, "t1": 3}
    members = settled(topics, group(member("a", TWO), member("b", TWO)))
    more = members | group(member("c", TWO), member("d", TWO))
    given = share(topics, more)
    # 3 + 3 becomes 2 + 2 + 1 + 1.
    assert moved(members, given) == 2
    fewer = without(having(more, given), "a", "c")
    assert moved(fewer, share(topics, fewer)) == 0


def test_nothing_moves_when_one_of_many_leaves() -> None:
    topics = {f"t{n:02}": n for n in range(1, 20)}
    members = settled(topics, group(*(member(f"m{n:02}", topics) for n in range(19))))
    rest = without(members, "m10")
    assert moved(rest, share(topics, rest)) == 0


def test_only_two_partitions_move_to_a_tenth_member() -> None:
    members = settled({"t": 20}, group(*(member(f"m{n}", ["t"]) for n in range(1, 10))))
    more = members | group(member("m0", ["t"]))
    given = share({"t": 20}, more)
    assert loads(given)["m0"] == 2
    assert moved(more, given) == 2


def test_nothing_moves_when_one_of_nine_leaves_topics_of_many_sizes() -> None:
    topics = {f"t{n:02}": n for n in range(1, 15)}
    members = settled(topics, group(*(member(f"m{n}", topics) for n in range(9))))
    rest = without(members, "m5")
    assert moved(rest, share(topics, rest)) == 0


def test_nothing_moves_when_half_of_the_members_leave() -> None:
    topics = {f"t{n:02}": 20 for n in range(40)}
    members = settled(topics, group(*(member(f"m{n:03}", topics) for n in range(100))))
    rest = without(members, *(f"m{n:03}" for n in range(0, 100, 2)))
    given = share(topics, rest)
    assert set(loads(given).values()) == {16}
    assert moved(rest, given) == 0


def test_few_move_when_many_with_different_subscriptions_leave() -> None:
    topics = {f"t{n:02}": 1 + n * 7 % 20 for n in range(40)}
    names = sorted(topics)
    members = settled(
        topics,
        group(
            *(
                member(f"m{n:03}", [t for i, t in enumerate(names) if (n * 31 + i * 17) % 3])
                for n in range(200)
            )
        ),
    )
    rest = without(members, *(f"m{n:03}" for n in range(0, 200, 4)))
    assert moved(rest, share(topics, rest)) <= 10


def test_group_of_newcomers_starts_afresh() -> None:
    topics = {"t": 6}
    share(topics, group(member("a", ["t"])))
    assert loads(share(topics, group(member("b", ["t"]), member("c", ["t"])))) == {"b": 3, "c": 3}


def test_static_member_keeps_its_partitions_under_a_new_id() -> None:
    topics = {"t": 9}
    members = settled(topics, group(*(member(f"m{n}", ["t"]) for n in range(3))))
    had = members["m1"].owned
    again = without(members, "m1") | group(member("x", ["t"], flatten(had), 1, instance_id="i"))
    assert share(topics, again)["x"] == had


# Topics come, go and grow


def test_new_topic_is_assigned_without_moves() -> None:
    before = settled({"t0": 3}, group(member("a", TWO), member("b", TWO)))
    given = share({"t0": 3, "t1": 3}, before)
    assert loads(given) == {"a": 3, "b": 3}
    assert moved(before, given) == 0


def test_deleted_topic_is_not_assigned() -> None:
    before = settled({"t0": 3, "t1": 3}, group(member("a", TWO), member("b", TWO)))
    given = share({"t1": 3}, before)
    assert sorted(loads(given).values()) == [1, 2]
    assert moved(before, given) == 0


def test_group_without_topics_left_is_assigned_nothing() -> None:
    before = settled({"t": 3}, group(member("a", ["t"])))
    assert share({}, before) == {"a": ()}


def test_hundred_members_are_even_after_a_topic_is_deleted() -> None:
    topics = {"t0": 250, "t1": 250}
    before = settled(topics, group(*(member(f"m{n:03}", TWO) for n in range(100))))
    given = share({"t1": 250}, before)
    assert set(loads(given).values()) == {2, 3}


def test_new_partitions_go_to_the_least_loaded() -> None:
    before = settled({"t": 5}, group(member("a", ["t"]), member("b", ["t"])))
    given = share({"t": 8}, before)
    assert loads(given) == {"a": 4, "b": 4}
    assert moved(before, given) == 0


def test_vanished_partitions_are_dropped() -> None:
    before = settled({"t": 8}, group(member("a", ["t"]), member("b", ["t"])))
    assert sum(loads(share({"t": 5}, before)).values()) == 5


def test_claims_of_absurd_partitions_are_ignored() -> None:
    absurd = [("t", 2**31 - 1), ("t", -1), ("u", 0), ("t", 0)]
    given = share({"t": 2}, group(member("a", ["t"], absurd, 1), member("b", ["t"])))
    assert pairs(given) == {"a": {("t", 0)}, "b": {("t", 1)}}


# Subscriptions change


def test_added_subscription_moves_nothing() -> None:
    topics = {"t0": 4, "t1": 4}
    before = settled(topics, group(member("a", TWO), member("b", ["t0"])))
    wider = before | group(member("b", TWO, flatten(before["b"].owned), 1))
    assert moved(wider, share(topics, wider)) == 0


def test_dropped_subscription_moves_that_topic_only() -> None:
    topics = {"t0": 4, "t1": 4}
    before = settled(topics, group(member("a", TWO), member("b", TWO)))
    narrower = before | group(member("b", ["t1"], flatten(before["b"].owned), 1))
    given = share(topics, narrower)
    assert pairs(given)["a"] >= all_of("t0", 4)
    assert loads(given) == {"a": 4, "b": 4}


def test_exchanged_subscriptions_leave_nothing_old() -> None:
    before = settled({"t0": 4, "t1": 4}, group(member("a", ["t0"]), member("b", ["t0"])))
    changed = {name: member(name, ["t1"], flatten(info.owned), 1) for name, info in before.items()}
    assert loads(share({"t0": 4, "t1": 4}, changed)) == {"a": 2, "b": 2}


def test_balanced_where_round_robin_is_not() -> None:
    topics = {"t0": 2, "t1": 1, "t2": 2, "t3": 1, "t4": 2}
    wanted = [["t0", "t1", "t2", "t3", "t4"], ["t0", "t2", "t4"], ["t0", "t2", "t4"], topics]
    members = group(*(member(f"m{n}", topics) for n, topics in enumerate(wanted)))
    assert set(loads(share(topics, members)).values()) == {2}


def test_uneven_claims_are_evened_out() -> None:
    owned = [("t0", 0), ("t1", 0), ("t2", 0), ("t3", 0), ("t4", 0), ("t5", 0)]
    topics = dict.fromkeys((f"t{n}" for n in range(7)), 1)
    members = group(
        member("a", ["t0", "t1"], owned[:1], 1),
        member("b", ["t0", "t1", "t2", "t3"], owned[1:3], 1),
        member("c", ["t1", "t2", "t3", "t4", "t5", "t6"], owned[3:], 1),
    )
    assert sorted(loads(share(topics, members)).values()) == [2, 2, 3]


def test_loads_are_evened_out_through_other_members() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1), ("t", 2)], 1),
        member("b", ["t", "u"], [("u", 0), ("u", 1)], 1),
        member("c", ["u"], [("u", 2)], 1),
    )
    given = share({"t": 3, "u": 3}, members)
    assert set(loads(given).values()) == {2}
    assert moved(members, given) == 2


def test_member_keeps_what_only_it_subscribes_to() -> None:
    members = group(member("a", ["big"]), member("b", ["t"]), member("c", ["t"]))
    assert loads(share({"big": 50, "t": 2}, members)) == {"a": 50, "b": 1, "c": 1}


# Stickiness


def test_nothing_moves_if_nothing_happened() -> None:
    topics = {f"t{n}": n + 1 for n in range(9)}
    members = group(
        *(member(f"m{n}", [t for t in topics if int(t[1]) % (n + 1)]) for n in range(5))
    )
    first = share(topics, members)
    assert share(topics, having(members, first)) == first


def test_order_of_members_does_not_matter() -> None:
    topics = {"t": 10, "u": 7}
    members = [member(f"m{n}", ["t", "u"][: 1 + n % 2], [("t", n)], 1) for n in range(6)]
    assert share(topics, group(*members)) == share(topics, group(*reversed(members)))


def test_only_the_difference_moves_through_three_generations() -> None:
    topics = {"t": 12}
    members = settled(topics, group(*(member(n, ["t"]) for n in "abcd")))
    fewer = having(without(members, "b"), share(topics, without(members, "b")), 2)
    back = fewer | group(member("b", ["t"]))
    given = share(topics, back)
    assert moved(back, given) == 3
    last = without(having(back, given, 3), "a")
    assert moved(last, share(topics, last)) == 0


def test_moved_partitions_come_from_all_topics() -> None:
    topics = {f"t{n:02}": 40 for n in range(10)}
    members = settled(topics, group(*(member(f"m{n}", topics) for n in range(4))))
    given = share(topics, members | group(member("new", topics)))
    assert loads(given)["new"] == 80
    assert {len(entry.partitions) for entry in given["new"]} <= {6, 7, 8, 9, 10}
    assert len(given["new"]) == 10


# Conflicting claims


def test_newer_claim_wins() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 0), ("t", 2)], 2),
    )
    given = pairs(share({"t": 4}, members))
    assert given == {"a": {("t", 1), ("t", 3)}, "b": {("t", 0), ("t", 2)}}


def test_undisputed_old_claim_counts() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 2), ("t", 3)], 5),
    )
    assert moved(members, share({"t": 4}, members)) == 0


def test_claim_without_generation_is_the_oldest() -> None:
    members = group(member("a", ["t"], [("t", 0)]), member("b", ["t"], [("t", 0)], 0))
    assert pairs(share({"t": 2}, members))["b"] == {("t", 0)}


def test_claims_of_one_generation_cancel_each_other_out() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 0), ("t", 2), ("t", 3)], 1),
    )
    given = pairs(share({"t": 4}, members))
    assert given == {"a": {("t", 0), ("t", 1)}, "b": {("t", 2), ("t", 3)}}


def test_newer_claim_decides_between_older_ones() -> None:
    members = group(
        member("a", ["t"], [("t", 0)], 1),
        member("b", ["t"], [("t", 0)], 1),
        member("c", ["t"], [("t", 0)], 2),
    )
    assert pairs(share({"t": 3}, members))["c"] == {("t", 0)}


@pytest.mark.parametrize("partitions", [3, 4, 7])
def test_claims_of_everything_by_all_count_for_nothing(partitions: int) -> None:
    claims = all_of("t", partitions)
    members = group(*(member(n, ["t"], claims, 3) for n in "abc"))
    afresh = group(*(member(n, ["t"]) for n in "abc"))
    assert share({"t": partitions}, members) == share({"t": partitions}, afresh)


def test_newest_of_three_generations_counts() -> None:
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1), ("t", 4)], 1),
        member("b", ["t"], [("t", 0), ("t", 2), ("t", 3)], 2),
        member("c", ["t"], [("t", 3), ("t", 4), ("t", 5)], 3),
    )
    given = pairs(share({"t": 6}, members))
    assert loads(share({"t": 6}, members)) == {"a": 2, "b": 2, "c": 2}
    assert given["b"] == {("t", 0), ("t", 2)}
    assert given["c"] < {("t", 3), ("t", 4), ("t", 5)}


def test_claim_does_not_outlive_the_subscription() -> None:
    members = group(member("a", ["u"], [("t", 0)], 9), member("b", ["t"]))
    assert pairs(share({"t": 1, "u": 1}, members)) == {"a": {("u", 0)}, "b": {("t", 0)}}


@pytest.mark.parametrize("generation", [1, 2])
def test_claim_without_a_subscription_takes_nothing_from_others(generation: int) -> None:
    # Whether it is newer than the claim of the one that still subscribes, or contests it.
    members = group(
        member("a", ["t"], (), 2),
        member("b", ["t"], [("t", 0)], 1),
        member("c", ["u"], [("t", 0)], generation),
    )
    for assignor in (CooperativeStickyAssignor(), InstanceStickyAssignor()):
        given = pairs(assignor.assign(Cluster({"t": 1, "u": 1}), members))
        assert given == {"a": set(), "b": {("t", 0)}, "c": {("u", 0)}}, assignor.name


def test_partition_named_twice_in_one_claim_is_not_contested() -> None:
    info = member("b", ["t"], [("t", 1)], 1)
    doubled = MemberInfo(
        member_id="b", topics=("t",), owned=(*info.owned, *info.owned), generation=1
    )
    assert pairs(share({"t": 2}, group(member("a", ["t"]), doubled)))["b"] == {("t", 1)}
