"""What a leader makes of drains, pins and freezes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    RUNNING,
    Adjustment,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    Operations,
    Plan,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    WarmReport,
    WarmSettings,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import Pair, assert_valid, group, having, loads, member
from tests.support.cases import for_each

COOPERATIVE = (CooperativeStickyAssignor, InstanceStickyAssignor)
EAGER = (StickyAssignor, RangeAssignor, RoundRobinAssignor)
ALL = (*COOPERATIVE, *EAGER)

#: More rebalances than anything here takes.
ROUNDS_MAX = 40


def pairs(*numbers: int, topic: str = "t") -> list[Pair]:
    """Partitions of one topic."""
    return [(topic, number) for number in numbers]


def had(members: Mapping[str, MemberInfo]) -> dict[str, frozenset[Pair]]:
    """What members were assigned last."""
    return {name: flatten(info.owned) for name, info in members.items()}


def joining(assignor: Assignor, members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members as they join: eager ones own nothing then."""
    if any(type(assignor) is each for each in COOPERATIVE):
        return dict(members)
    return {name: replace(info, owned=()) for name, info in members.items()}


def step(
    assignor: Assignor,
    topics: Mapping[str, int],
    members: Mapping[str, MemberInfo],
    operations: Operations,
    settings: WarmSettings | None = None,
    plan: Plan | None = None,
) -> Adjustment:
    """One rebalance."""
    told = replace(operations, had=had(members))
    answer = lead(assignor, Cluster(topics), joining(assignor, members), settings, told, plan)
    promised = {n: each + answer.withheld.get(n, ()) for n, each in answer.assignment.items()}
    assert_valid(topics, members, promised)
    return answer


def settle(
    assignor: Assignor,
    topics: Mapping[str, int],
    members: Mapping[str, MemberInfo],
    operations: Operations,
) -> tuple[list[dict[str, frozenset[Pair]]], dict[str, MemberInfo]]:
    """Rebalance as long as that is called for: each assignment, and the members in the end."""
    rounds: list[dict[str, frozenset[Pair]]] = []
    plan: Plan | None = None
    for number in range(ROUNDS_MAX):
        answer = step(assignor, topics, members, operations, plan=plan)
        plan = answer.plan
        rounds.append({name: flatten(each) for name, each in answer.assignment.items()})
        members = having(members, answer.assignment, 10 + number)
        if not answer.needs_rejoin:
            return rounds, members
    raise AssertionError(f"still not settled: {rounds[-2:]}")


def three() -> dict[str, MemberInfo]:
    """Three members with four partitions each."""
    return group(
        member("a", ["t"], pairs(0, 1, 2, 3), 4),
        member("b", ["t"], pairs(4, 5, 6, 7), 4),
        member("c", ["t"], pairs(8, 9, 10, 11), 4),
    )


TWELVE = {"t": 12}


# -- drains ------------------------------------------------------------------------------------


@for_each("assignor", ALL)
def test_a_drained_member_has_nothing_in_the_end(assignor: type[Assignor]) -> None:
    _, members = settle(assignor(), TWELVE, three(), Operations(drained={"a": 1}))
    assert sorted(len(pairs) for pairs in had(members).values()) == [0, 6, 6]
    assert not had(members)["a"]


@for_each("assignor", COOPERATIVE)
def test_it_gives_up_a_few_at_a_time(assignor: type[Assignor]) -> None:
    rounds, _ = settle(assignor(), TWELVE, three(), Operations(drained={"a": 2}))
    assert [len(each["a"]) for each in rounds] == [2, 0, 0]
    idle = [12 - sum(len(pairs) for pairs in each.values()) for each in rounds]
    assert idle == [2, 2, 0]


@for_each("assignor", COOPERATIVE)
def test_or_all_at_once(assignor: type[Assignor]) -> None:
    rounds, _ = settle(assignor(), TWELVE, three(), Operations(drained={"a": 0}))
    assert [len(each["a"]) for each in rounds] == [0, 0]


@for_each("assignor", EAGER)
def test_eager_members_stand_still_in_each_rebalance_so_there_is_only_one(
    assignor: type[Assignor],
) -> None:
    rounds, _ = settle(assignor(), TWELVE, three(), Operations(drained={"a": 1}))
    assert len(rounds) == 1


@for_each("assignor", ALL)
def test_it_gets_nothing_when_others_go_or_topics_grow(assignor: type[Assignor]) -> None:
    members = three()
    del members["c"]
    drained = Operations(drained={"a": 1})
    answer = step(assignor(), {"t": 15}, members, drained)
    assert flatten(answer.assignment["a"]) <= set(pairs(0, 1, 2, 3))


@for_each("assignor", ALL)
def test_what_none_but_a_drained_member_subscribes_to_stays_with_it(
    assignor: type[Assignor],
) -> None:
    members = group(
        member("a", ["t", "u"], [*pairs(0, 1), ("u", 0)], 4), member("b", ["t"], pairs(2, 3), 4)
    )
    _, after = settle(assignor(), {"t": 4, "u": 1}, members, Operations(drained={"a": 1}))
    assert had(after) == {"a": {("u", 0)}, "b": set(pairs(0, 1, 2, 3))}


@for_each("assignor", ALL)
def test_where_all_are_drained_work_goes_on(assignor: type[Assignor]) -> None:
    drained = Operations(drained={"a": 1, "b": 1, "c": 1})
    _, after = settle(assignor(), TWELVE, three(), drained)
    assert sum(len(pairs) for pairs in had(after).values()) == 12


@for_each("assignor", ALL)
def test_where_all_are_drained_nothing_moves(assignor: type[Assignor]) -> None:
    drained = Operations(drained={"a": 1, "b": 0, "c": 1})
    rounds, after = settle(assignor(), TWELVE, three(), drained)
    assert len(rounds) == 1
    assert had(after) == had(three())


@for_each("assignor", ALL)
def test_what_a_dead_member_had_goes_to_the_least_busy_of_the_drained(
    assignor: type[Assignor],
) -> None:
    members = three()
    members["a"] = having(members, {"a": group_by_topic(pairs(0))}, 4)["a"]
    del members["c"]
    _, after = settle(assignor(), {"t": 10}, members, Operations(drained={"a": 1, "b": 1}))
    assert had(after)["b"] >= set(pairs(4, 5, 6, 7))
    assert sorted(len(each) for each in had(after).values()) == [5, 5]


def test_what_a_drained_member_can_not_give_up_does_not_hold_up_the_rest() -> None:
    """Its first partition in order is of a topic that no other member wants."""
    members = group(
        member("a", ["a", "t"], [("a", 0), *pairs(0, 1)], 4), member("b", ["t"], pairs(2, 3), 4)
    )
    topics = {"a": 1, "t": 4}
    _, after = settle(CooperativeStickyAssignor(), topics, members, Operations(drained={"a": 1}))
    assert had(after)["a"] == {("a", 0)}


def test_a_drained_member_that_is_away_keeps_nothing() -> None:
    members = three()
    members["a"] = replace(members["a"], is_away=True)
    answer = step(CooperativeStickyAssignor(), TWELVE, members, Operations(drained={"a": 1}))
    assert loads(answer.assignment) == {"a": 0, "b": 6, "c": 6}


@for_each("assignor", ALL)
def test_but_what_none_but_it_could_have_waits_for_it(assignor: type[Assignor]) -> None:
    members = group(member("a", ["t", "u"], pairs(0, 1), 4), member("b", ["t"], pairs(2, 3), 4))
    members["a"] = replace(members["a"], is_away=True)
    answer = step(assignor(), {"t": 4, "u": 1}, members, Operations(drained={"a": 1}))
    assert flatten(answer.assignment["a"]) == {("u", 0)}


def stateful(name: str, lags: Mapping[Pair, int]) -> MemberInfo:
    """A member with state in a process of its own."""
    running = [pair for pair, lag in lags.items() if lag == RUNNING]
    report = WarmReport(uuid.uuid5(uuid.NAMESPACE_DNS, name), lags)
    return replace(member(name, ["t"], running, 4), warm=report)


def test_partitions_with_state_wait_until_their_successor_has_caught_up() -> None:
    leaving = stateful("a", dict.fromkeys(pairs(0, 1), RUNNING))
    cold = group(leaving, stateful("b", dict.fromkeys(pairs(2, 3), RUNNING)))
    settings = WarmSettings(acceptable_recovery_lag=10)
    drained = Operations(drained={"a": 1})
    waiting = step(CooperativeStickyAssignor(), {"t": 4}, cold, drained, settings)
    assert flatten(waiting.assignment["a"]) == set(pairs(0, 1))
    assert flatten(waiting.warmups["b"]) == set(pairs(0))
    assert not waiting.standbys.get("a")
    caught_up = dict.fromkeys(pairs(2, 3), RUNNING) | {("t", 0): 5}
    warm = group(leaving, stateful("b", caught_up))
    going = step(CooperativeStickyAssignor(), {"t": 4}, warm, drained, settings)
    assert flatten(going.assignment["a"]) == set(pairs(1))
    assert flatten(going.withheld["b"]) == set(pairs(0))


def test_copies_of_a_drained_member_take_nothing_from_another_drained_one() -> None:
    members = group(
        stateful("a", dict.fromkeys(pairs(0, 1), RUNNING) | {("t", 2): 0}),
        stateful("b", dict.fromkeys(pairs(2, 3), RUNNING) | {("t", 0): 0}),
    )
    drained = Operations(drained={"a": 1, "b": 1})
    answer = step(CooperativeStickyAssignor(), {"t": 4}, members, drained, WarmSettings())
    assert not answer.needs_rejoin
    assert {name: flatten(each) for name, each in answer.assignment.items()} == had(members)


def test_a_drained_member_gets_no_copies() -> None:
    members = group(
        stateful("a", {}),
        stateful("b", dict.fromkeys(pairs(0, 1), RUNNING)),
        stateful("c", dict.fromkeys(pairs(2, 3), RUNNING)),
    )
    settings = WarmSettings(num_standbys=2)
    answer = step(
        CooperativeStickyAssignor(), {"t": 4}, members, Operations(drained={"a": 1}), settings
    )
    assert answer.standbys.keys() == {"b", "c"}


@pytest.mark.parametrize("zones", ["xxyy", "xyxy"])
@pytest.mark.parametrize("lag", [5, 50_000])
def test_a_process_whose_members_are_all_drained_gets_no_copies(zones: str, lag: int) -> None:
    leaving, staying = uuid.UUID(int=1), uuid.UUID(int=2)
    places = {"a": leaving, "b": leaving, "c": staying, "d": uuid.UUID(int=3)}
    members = group(
        *(
            replace(
                member(name, ["t"], pairs(number), 4),
                warm=WarmReport(
                    process,
                    {("t", number): RUNNING, ("t", (number + 1) % 4): lag},
                    {"zone": zones[number]},
                ),
            )
            for number, (name, process) in enumerate(places.items())
        )
    )
    drained = Operations(drained={"a": 1, "b": 1})
    answer = step(
        CooperativeStickyAssignor(), {"t": 4}, members, drained, WarmSettings(num_standbys=2)
    )
    assert answer.standbys.keys() <= {"c", "d"}
    assert answer.warmups.keys() <= {"c", "d"}


# -- pins --------------------------------------------------------------------------------------


@for_each("assignor", ALL)
def test_a_pinned_partition_goes_to_its_member_and_another_one_comes_back(
    assignor: type[Assignor],
) -> None:
    _, after = settle(assignor(), TWELVE, three(), Operations(pinned={("t", 0): "c"}))
    assert ("t", 0) in had(after)["c"]
    assert {len(pairs) for pairs in had(after).values()} == {4}


@for_each("assignor", ALL)
def test_pins_may_leave_a_group_uneven_and_it_settles_all_the_same(
    assignor: type[Assignor],
) -> None:
    pinned = Operations(pinned=dict.fromkeys(pairs(*range(8)), "c"))
    _, after = settle(assignor(), TWELVE, three(), pinned)
    assert had(after)["c"] >= set(pairs(*range(8)))
    again, _ = settle(assignor(), TWELVE, after, pinned)
    assert again == [had(after)]


@for_each("assignor", ALL)
def test_a_partition_that_is_kept_from_members_is_with_another(assignor: type[Assignor]) -> None:
    kept = Operations(kept_from={("t", 0): frozenset("ab")})
    _, after = settle(assignor(), TWELVE, three(), kept)
    assert ("t", 0) in had(after)["c"]
    assert {len(pairs) for pairs in had(after).values()} == {4}


@for_each("assignor", ALL)
def test_what_is_kept_from_all_stays_where_it_is(assignor: type[Assignor]) -> None:
    kept = Operations(kept_from={("t", 0): frozenset("abc")})
    _, after = settle(assignor(), TWELVE, three(), kept)
    assert sum(len(pairs) for pairs in had(after).values()) == 12


@for_each(
    "operations",
    [
        Operations(pinned={("t", 0): "gone"}),
        Operations(pinned={("t", 0): "u"}),
        Operations(pinned={("t", 99): "b"}),
        Operations(pinned={("t", 0): "b"}, drained={"b": 0}),
    ],
)
def test_a_pin_that_can_not_be_followed_counts_for_nothing(operations: Operations) -> None:
    members = three() | group(member("u", ["u"]))
    _, after = settle(CooperativeStickyAssignor(), TWELVE, members, operations)
    assert sum(len(pairs) for pairs in had(after).values()) == 12
    assert ("t", 0) in had(after)["a"]


# -- freezes -----------------------------------------------------------------------------------

FROZEN = Operations(is_frozen=True)


@for_each("assignor", ALL)
def test_in_a_frozen_group_all_keep_what_they_have(assignor: type[Assignor]) -> None:
    members = three() | group(member("d", ["t"]))
    frozen = replace(FROZEN, newcomers=frozenset("d"))
    rounds, _ = settle(assignor(), TWELVE, members, frozen)
    assert rounds == [had(members)]


@for_each("assignor", ALL)
def test_what_the_dead_had_goes_to_the_least_busy_but_not_to_newcomers(
    assignor: type[Assignor],
) -> None:
    members = group(
        member("a", ["t"], pairs(0, 1, 2), 4),
        member("b", ["t"], pairs(3), 4),
        member("new", ["t"]),
    )
    frozen = replace(FROZEN, newcomers=frozenset({"new"}))
    ((after,), _) = settle(assignor(), {"t": 6}, members, frozen)
    assert after["a"] == set(pairs(0, 1, 2))
    assert after["b"] == set(pairs(3, 4, 5))


def test_what_a_newcomer_remembers_is_not_what_it_has() -> None:
    """An eager one that was dropped, and joins anew, still tells what it had before."""
    remembered = StickyAssignor().subscription_user_data(["t"], group_by_topic(pairs(1, 2)), 4)
    members = group(
        member("a", ["t"], pairs(0, 1), 4),
        replace(member("new", ["t"]), user_data=remembered),
    )
    frozen = replace(FROZEN, newcomers=frozenset({"new"}))
    answer = step(StickyAssignor(), {"t": 3}, members, frozen)
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1, 2))


def test_newer_memory_of_a_newcomer_does_not_undo_what_another_has() -> None:
    remembered = StickyAssignor().subscription_user_data(["t"], group_by_topic(pairs(0)), 6)
    claims = StickyAssignor().subscription_user_data(["t"], group_by_topic(pairs(0)), 5)
    members = group(
        member("a", ["t"]),
        replace(member("b", ["t"]), user_data=claims),  # as from before the coordinator knew
        replace(member("new", ["t"]), user_data=remembered),
    )
    frozen = replace(FROZEN, newcomers=frozenset({"new"}))
    answer = step(StickyAssignor(), {"t": 1}, members, frozen)
    assert flatten(answer.assignment["b"]) == set(pairs(0))


@for_each("assignor", ALL)
def test_where_there_are_only_newcomers_they_do_the_work(assignor: type[Assignor]) -> None:
    members = group(member("new", ["t"]), member("other", ["t"]))
    frozen = replace(FROZEN, newcomers=frozenset({"new", "other"}))
    answer = step(assignor(), {"t": 4}, members, frozen)
    assert loads(answer.assignment) == {"new": 2, "other": 2}


@for_each("assignor", ALL)
def test_a_drained_member_of_a_frozen_group_keeps_what_it_has_left(
    assignor: type[Assignor],
) -> None:
    members = three()
    del members["c"]
    frozen = replace(FROZEN, drained={"a": 1})
    answer = step(assignor(), TWELVE, members, frozen)
    assert loads(answer.assignment) == {"a": 4, "b": 8}


def test_what_a_member_of_a_frozen_group_can_not_work_on_goes_to_another() -> None:
    members = three()
    refused = replace(members["a"], refused=members["b"].owned[:0] or members["a"].owned)
    members["a"] = refused
    answer = step(CooperativeStickyAssignor(), TWELVE, members, FROZEN)
    assert loads(answer.assignment)["a"] == 0


def test_a_static_member_that_is_away_keeps_its_place_in_a_frozen_group() -> None:
    members = three()
    members["a"] = replace(members["a"], is_away=True)
    answer = step(CooperativeStickyAssignor(), TWELVE, members, FROZEN)
    assert loads(answer.assignment) == {"a": 4, "b": 4, "c": 4}


def test_state_of_the_dead_is_taken_over_where_there_is_a_copy_of_it() -> None:
    members = group(
        stateful("a", dict.fromkeys(pairs(0), RUNNING)),
        stateful("b", dict.fromkeys(pairs(1, 2), RUNNING) | {("t", 3): 5}),
    )
    settings = WarmSettings(acceptable_recovery_lag=10)
    answer = step(CooperativeStickyAssignor(), {"t": 4}, members, FROZEN, settings)
    assert flatten(answer.assignment["b"]) == set(pairs(1, 2, 3))
    assert not answer.targets


def test_state_of_the_dead_does_not_go_where_a_copy_is_first_and_elsewhere_later() -> None:
    """The newcomer has the disk of the dead, but is to get nothing."""
    members = group(stateful("a", dict.fromkeys(pairs(0), RUNNING)), stateful("new", {("t", 1): 0}))
    frozen = replace(FROZEN, newcomers=frozenset({"new"}))
    answer = step(CooperativeStickyAssignor(), {"t": 2}, members, frozen, WarmSettings())
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1))
    assert answer.is_final
    assert not answer.targets
    assert not answer.warmups


@for_each("assignor", COOPERATIVE)
def test_what_is_given_in_return_does_not_change_on_the_way(assignor: type[Assignor]) -> None:
    """Otherwise a partition is given back, given up for another one, and so on."""
    members = group(
        member("a", ["t"], [], 4),
        member("b", ["t"], pairs(1, 2, 5), 4),
        member("c", ["t"], pairs(0, 3, 4, 6, 7), 4),
    )
    kept_from = {("t", 3): frozenset("ab"), ("t", 7): frozenset("ac")}
    operations = Operations(pinned={("t", 1): "c"}, kept_from=kept_from)
    _, after = settle(assignor(), {"t": 8}, members, operations)
    assert set(pairs(1, 3)) <= had(after)["c"]
    assert ("t", 7) in had(after)["b"]


# -- anything ----------------------------------------------------------------------------------

names = st.sampled_from("abcd")
numbers = st.integers(min_value=0, max_value=9)


@given(
    assignor=st.sampled_from(ALL),
    owners=st.lists(names, min_size=8, max_size=8),
    uses_u=st.sets(names),
    drained=st.dictionaries(names, st.integers(min_value=0, max_value=2), max_size=3),
    pinned=st.dictionaries(numbers, names),
    kept=st.dictionaries(numbers, st.frozensets(names)),
)
def test_any_operations_settle_and_drained_members_get_nothing_new(
    assignor: type[Assignor],
    owners: list[str],
    uses_u: set[str],
    drained: dict[str, int],
    pinned: dict[int, str],
    kept: dict[int, frozenset[str]],
) -> None:
    members = group(
        *(
            member(
                name,
                ["t", "u"] if name in uses_u else ["t"],
                pairs(*(n for n, owner in enumerate(owners) if owner == name)),
                4,
            )
            for name in "abcd"
        )
    )
    operations = Operations(
        drained=drained,
        pinned={("t", number): name for number, name in pinned.items()},
        kept_from={("t", number): each for number, each in kept.items()},
    )
    rounds, after = settle(assignor(), {"t": 8, "u": 2}, members, operations)
    for name in drained:
        before = had(members)[name]
        for each in rounds:
            assert not {pair for pair in each[name] - before if pair[0] == "t"}
            before = each[name]
    for number, name in pinned.items():
        if number < 8 and name not in drained and name not in kept.get(number, ()):
            assert ("t", number) in had(after)[name]
    given = set().union(*had(after).values())
    assert given == set(Cluster({"t": 8, "u": 2 if uses_u else 0}).partitions_of("tu"))


@given(
    assignor=st.sampled_from(ALL),
    owners=st.lists(st.sampled_from("abcdx"), min_size=8, max_size=8),
    newcomers=st.frozensets(names, max_size=4),
)
def test_nothing_of_the_living_moves_in_a_frozen_group(
    assignor: type[Assignor], owners: list[str], newcomers: frozenset[str]
) -> None:
    members = group(
        *(
            member(name, ["t"], pairs(*(n for n, owner in enumerate(owners) if owner == name)), 4)
            for name in "abcd"
        )
    )
    answer = step(assignor(), {"t": 8}, members, replace(FROZEN, newcomers=newcomers))
    assert not answer.needs_rejoin
    for name, before in had(members).items():
        assert flatten(answer.assignment[name]) >= before
    if len(newcomers) < 4:
        for name in newcomers:
            assert flatten(answer.assignment[name]) == had(members)[name]
