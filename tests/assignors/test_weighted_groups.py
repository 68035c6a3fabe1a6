"""What holds for every group that balances loads, whatever its members say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    StickyAssignor,
    Weights,
    lead,
)
from coterie_assignors.outlook import later
from coterie_protocol.consumer import flatten, group_by_topic
from coterie_protocol.loads import Load, LoadReport, join_load_report
from tests.assignors.world import Pair, assert_valid, everything, having, loads, member, moved
from tests.support.profiles import examples

TOPICS = ["t0", "t1", "t2"]
OLD_MS = 10**9

#: Exact in binary, so that a sum is the same in any order.
VALUES = st.one_of(st.none(), st.integers(0, 400).map(lambda eighths: eighths / 8))
#: Loads of which some are known, with the setting that goes with it.
POSITIVE = st.one_of(st.none(), st.integers(1, 400).map(lambda eighths: eighths / 8))
SOME_KNOWN = dict.fromkeys(TOPICS, 2.0)
AGES = st.sampled_from([0, 299_999, 300_000, OLD_MS])

Group = tuple[dict[str, int], dict[str, MemberInfo]]


@st.composite
def groups(
    draw: st.DrawFn,
    *,
    equal: bool = False,
    disputes: bool = True,
    ages: st.SearchStrategy[int] = AGES,
    stock: bool = True,
    refusals: bool = False,
    values: st.SearchStrategy[float | None] = VALUES,
) -> Group:
    """A group at any moment of its life, with claims and reports that need not be true."""
    topics = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 8), min_size=1))
    wanted = st.just(sorted(topics)) if equal else st.lists(st.sampled_from(TOPICS), unique=True)
    every = sorted(everything(topics))
    taken: set[Pair] = set()
    members = {}
    for number in range(draw(st.integers(1, 5))):
        claims = draw(st.sets(st.sampled_from(every)))
        mine = draw(wanted)
        if not disputes:
            claims = {pair for pair in claims - taken if pair[0] in mine}
            taken |= claims
        name = f"m{number}"
        info = member(name, mine, claims, draw(st.integers(-1, 3)))
        if refusals:
            refused = draw(st.sets(st.sampled_from(every), max_size=3))
            rack, away = draw(st.sampled_from([None, "r1", "r2"])), draw(st.integers(0, 4)) == 0
            info = replace(info, refused=group_by_topic(refused), rack=rack, is_away=away)
        if not stock or draw(st.booleans()):
            owned = {pair: Load(draw(values), draw(ages)) for pair in sorted(claims)}
            gone = draw(st.sets(st.sampled_from(every), max_size=3)) - claims
            left = {pair: Load(draw(values), draw(ages)) for pair in sorted(gone)}
            info = replace(info, loads=LoadReport(owned, left if disputes else {}))
        members[name] = info
    return topics, members


def settled(**options: Any) -> st.SearchStrategy[Group]:
    """Groups in which all partitions have rested, and every member has one."""

    def complete(drawn: Group) -> Group:
        topics, members = drawn
        owned = set().union(*(flatten(info.owned) for info in members.values()))
        for pair, name in zip(
            sorted(everything(topics) - owned), sorted(members) * 24, strict=False
        ):
            info = members[name]
            assert info.loads is not None
            told = LoadReport({**info.loads.owned, pair: Load(1.0, OLD_MS)}, {})
            both = group_by_topic({*flatten(info.owned), pair})
            members[name] = replace(info, owned=both, loads=told, generation=1)
        return topics, members

    drawn = groups(equal=True, disputes=False, stock=False, ages=st.just(OLD_MS), **options)
    return drawn.map(complete).filter(lambda each: all(m.owned for m in each[1].values()))


def user_data(info: MemberInfo) -> bytes | None:
    """What a member's assignor writes, with the loads behind it."""
    own = info.generation.to_bytes(4, signed=True)
    return None if info.loads is None else join_load_report(own, info.loads)


def assign(
    topics: Mapping[str, int], members: Mapping[str, MemberInfo], /, **settings: object
) -> dict[str, Partitions]:
    """What the cooperative assignor answers with these settings."""
    weights = Weights(**settings)  # type: ignore[arg-type]  # the settings check themselves
    return CooperativeStickyAssignor(weights).assign(Cluster(topics), members)


def known_of(members: Mapping[str, MemberInfo]) -> dict[Pair, float]:
    """The loads that the members tell."""
    return {
        pair: load.value
        for info in members.values()
        if info.loads is not None
        for pair, load in info.loads.owned.items()
        if load.value is not None
    }


def told(members: Mapping[str, MemberInfo]) -> dict[Pair, float]:
    """The loads as the members tell them, and the mean of its topic for what they don't know."""
    known, found = known_of(members), {}
    for pair in {pair for info in members.values() for pair in flatten(info.owned)}:
        like = [value for (topic, _), value in known.items() if topic == pair[0]]
        likely = like or list(known.values())
        found[pair] = known.get(pair, sum(likely) / len(likely) if likely else 1.0)
    return found


def totals(given: Mapping[str, Partitions], loads: Mapping[Pair, float]) -> dict[str, float]:
    """The load of each member."""
    return {name: sum(loads[pair] for pair in flatten(each)) for name, each in given.items()}


@given(
    group=groups(refusals=True),
    weights=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9)),
    racks=st.lists(st.sets(st.sampled_from(["r1", "r2", "r3"])).map(frozenset), max_size=8),
)
def test_every_assignment_is_valid(
    group: Group, weights: dict[str, int], racks: list[frozenset[str]]
) -> None:
    topics, members = group
    cluster = Cluster(topics, dict.fromkeys(topics, racks))
    given = CooperativeStickyAssignor(Weights(topics=weights)).assign(cluster, members)
    assert_valid(topics, members, given)


@given(group=groups())
def test_without_weights_loads_make_no_difference(group: Group) -> None:
    """What members tell is behind their user data, and the answer is that of today."""
    topics, members = group
    plain = {name: replace(info, loads=None) for name, info in members.items()}
    telling = {
        name: replace(
            info,
            loads=None,
            user_data=user_data(info),
        )
        for name, info in members.items()
    }
    expected = CooperativeStickyAssignor().assign(Cluster(topics), plain)
    assert CooperativeStickyAssignor().assign(Cluster(topics), telling) == expected
    assert CooperativeStickyAssignor().assign(Cluster(topics), members) == expected


@given(group=groups(values=st.none()))
def test_without_known_loads_the_answer_is_that_without_weights(group: Group) -> None:
    topics, members = group
    plain = {name: replace(info, loads=None) for name, info in members.items()}
    assert assign(topics, members) == CooperativeStickyAssignor().assign(Cluster(topics), plain)


@given(group=groups())
def test_loads_are_read_from_behind_the_user_data(group: Group) -> None:
    topics, members = group
    telling = {
        name: replace(info, loads=None, user_data=user_data(info)) for name, info in members.items()
    }
    assert assign(topics, telling) == assign(topics, members)


@given(group=groups())
def test_order_of_members_and_topics_does_not_matter(group: Group) -> None:
    topics, members = group
    backwards = dict(reversed(members.items()))
    assert assign(topics, members) == assign(dict(reversed(topics.items())), backwards)


@given(group=groups(), doublings=st.integers(-20, 20))
def test_unit_of_the_loads_does_not_matter(group: Group, doublings: int) -> None:
    topics, members = group

    def scaled(loads: Mapping[Pair, Load]) -> dict[Pair, Load]:
        return {
            pair: load if load.value is None else replace(load, value=load.value * 2.0**doublings)
            for pair, load in loads.items()
        }

    in_other_units = {
        name: info
        if info.loads is None
        else replace(info, loads=LoadReport(scaled(info.loads.owned), scaled(info.loads.left)))
        for name, info in members.items()
    }
    assert assign(topics, in_other_units) == assign(topics, members)


@given(group=groups(equal=True, values=POSITIVE), most=st.integers(1, 5))
def test_no_more_partitions_move_than_allowed(group: Group, most: int) -> None:
    """Where no member is without any; as long as no load is known, all go by number."""
    topics, members = group
    if all(flatten(info.owned) for info in members.values()):
        claims = [pair for info in members.values() for pair in flatten(info.owned)]
        if len(claims) == len(set(claims)):
            given = assign(topics, members, max_moves=most, topics=SOME_KNOWN)
            assert moved(members, given) <= most


@given(group=groups(equal=True, disputes=False, values=POSITIVE))
def test_what_has_not_rested_stays_unless_a_member_has_nothing(group: Group) -> None:
    topics, members = group
    if not all(info.owned for info in members.values()):
        return
    given = assign(topics, members, topics=SOME_KNOWN)
    for name, info in members.items():
        rested = info.loads.owned if info.loads is not None else {}
        stays = {
            pair
            for pair in flatten(info.owned)
            if pair not in rested or rested[pair].age_ms < 300_000
        }
        assert stays <= flatten(given[name])


@given(group=settled(), tolerance=st.sampled_from([0.1, 0.3, 1.0]))
def test_highest_load_gets_lower_or_nothing_moves(group: Group, tolerance: float) -> None:
    topics, members = group
    loads = told(members)
    before = totals({name: info.owned for name, info in members.items()}, loads)
    given = assign(topics, members, tolerance=tolerance, max_moves=99)
    after = totals(given, loads)
    mean = sum(loads.values()) / len(members)
    # Where no load was told, partitions are counted, and spread evenly.
    if known_of(members) and max(before.values()) <= mean * (1 + tolerance) - 1e-6 * mean:
        assert moved(members, given) == 0
    # What weighs nothing counts for a hundredth of the mean here, so that it is spread.
    assert max(after.values()) <= max(before.values()) + 0.01 * sum(loads.values()) + 1e-9


@given(
    eighths=st.lists(st.integers(1, 400), min_size=9, max_size=40),
    owners=st.lists(st.integers(0, 7), min_size=40, max_size=40),
    tolerance=st.sampled_from([0.1, 0.3]),
)
@examples(200)
def test_members_above_the_limit_have_nothing_to_give_that_would_help(
    eighths: list[int], owners: list[int], tolerance: float
) -> None:
    loads = {("t", number): each / 8 for number, each in enumerate(eighths)}
    held: dict[int, dict[Pair, Load]] = {owner: {} for owner in range(8)}
    for (pair, load), owner in zip(loads.items(), [*range(8), *owners], strict=False):
        held[owner][pair] = Load(load, OLD_MS)
    members = {
        f"m{owner}": replace(member(f"m{owner}", ["t"], told, 1), loads=LoadReport(told))
        for owner, told in held.items()
    }
    given = assign({"t": len(loads)}, members, tolerance=tolerance, max_moves=999)
    after = totals(given, loads)
    share, mean = 1 + tolerance, sum(loads.values()) / 8
    # What weighs very little counts for a hundredth of the mean of all partitions.
    least = 0.01 * sum(loads.values()) / len(loads)
    slack = least * len(loads)
    for giver, high in after.items():
        lightest = min(loads[pair] for pair in flatten(given[giver]))
        for taker, low in after.items():
            if taker != giver and high > max(mean, low) * share + slack:
                assert low + lightest >= high - slack


@given(group=settled(), tolerance=st.sampled_from([0.1, 0.3]))
def test_settled_members_are_assigned_the_same_again(group: Group, tolerance: float) -> None:
    topics, members = group
    given = assign(topics, members, tolerance=tolerance, max_moves=999)
    rested = later(members, given, OLD_MS)
    assert assign(topics, rested, tolerance=tolerance, max_moves=999) == given


@given(group=groups(refusals=True), eager=st.booleans())
def test_groups_come_to_rest_without_double_ownership(group: Group, *, eager: bool) -> None:
    """In three rounds: what moves is withheld, and one more for members that had nothing."""
    topics, members = group
    owned: set[Pair] = set()
    for name, info in members.items():
        mine = {pair for pair in set(flatten(info.owned)) - owned if pair[0] in info.topics}
        owned |= mine
        data = StickyAssignor().subscription_user_data((), group_by_topic(mine), 1)
        members[name] = replace(
            info,
            owned=() if eager else group_by_topic(mine),
            generation=1,
            user_data=data if eager else None,
        )
    assignor = (StickyAssignor if eager else CooperativeStickyAssignor)(Weights())
    for _ in range(4):
        led = lead(assignor, Cluster(topics), members)
        held = [pair for each in led.assignment.values() for pair in flatten(each)]
        assert len(held) == len(set(held))
        if not led.needs_rejoin:
            assert_valid(topics, members, led.assignment)
            return
        members = later(having(members, led.assignment), led.assignment, 50)
    pytest.fail("the members are told to rejoin again and again")


@given(group=settled())
def test_leader_gives_a_reason_if_and_only_if_partitions_would_move(group: Group) -> None:
    topics, members = group
    assignor = CooperativeStickyAssignor(Weights())
    would_move = moved(members, assignor.assign(Cluster(topics), members)) > 0
    reason = assignor.reason_to_rebalance(Cluster(topics), members)
    assert (reason is not None) == would_move


def test_without_any_load_uneven_numbers_are_a_reason() -> None:
    members = {}
    for name, numbers in {"m0": [0], "m1": [1, 2, 3]}.items():
        owned = {("t", number) for number in numbers}
        told = LoadReport(dict.fromkeys(owned, Load(None, OLD_MS)), {})
        members[name] = replace(member(name, ["t"]), owned=group_by_topic(owned), loads=told)
    reason = CooperativeStickyAssignor(Weights()).reason_to_rebalance(Cluster({"t": 4}), members)
    assert reason == "no load is known, 1 partition to move for even numbers"


def test_many_partitions_of_equal_load_are_about_as_even_as_by_number() -> None:
    topics = {f"t{n}": 50 for n in range(8)}
    infos = {f"m{n}": member(f"m{n}", topics) for n in range(7)}
    first = {name: replace(info, loads=LoadReport()) for name, info in infos.items()}
    known = {("t0", 0): Load(3.0, 0)}
    first["m0"] = replace(first["m0"], loads=LoadReport({}, known))
    given = assign(topics, first)
    assert max(loads(given).values()) - min(loads(given).values()) <= 1
