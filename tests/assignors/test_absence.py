"""What a leader does about static members that are away."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    RUNNING,
    UNKNOWN,
    Adjustment,
    Assignor,
    Claim,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    Partitions,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    WarmReport,
    WarmSettings,
    among_present,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import Pair, assert_valid, group, having, loads, member
from tests.support.cases import for_each
from tests.support.profiles import examples

ASSIGNORS = (CooperativeStickyAssignor, StickyAssignor, RangeAssignor, RoundRobinAssignor)


def pairs(*numbers: int, topic: str = "t") -> list[Pair]:
    return [(topic, number) for number in numbers]


def away(member_id: str, owned: list[Pair], generation: int = 4) -> MemberInfo:
    """A member that is away, with what it was assigned last."""
    info = member(member_id, ["t"], owned, generation, instance_id=f"i-{member_id}")
    return replace(info, is_away=True)


@for_each("assignor", ASSIGNORS)
def test_it_keeps_what_it_had_and_gets_nothing_more(assignor: type[Assignor]) -> None:
    members = group(
        away("gone", pairs(2)), member("a", ["t"], pairs(0, 1), 4), member("b", ["t"], (), 4)
    )
    answer = lead(assignor(), Cluster({"t": 9}), members)
    assert flatten(answer.assignment["gone"]) == set(pairs(2))


@for_each("assignor", ASSIGNORS)
def test_the_others_share_the_rest_evenly(assignor: type[Assignor]) -> None:
    """A newcomer takes over from those that are there."""
    old = member("a", ["t"], pairs(0, 2, 4), 4)
    members = group(away("gone", pairs(1, 3, 5)), old, member("b", ["t"]))
    answer = lead(assignor(), Cluster({"t": 6}), members)
    if answer.needs_rejoin:
        answer = lead(assignor(), Cluster({"t": 6}), having(members, answer.assignment, 5))
    assert flatten(answer.assignment["gone"]) == set(pairs(1, 3, 5))
    assert sorted(loads(answer.assignment).values()) == [1, 2, 3]


def test_what_it_would_be_given_stays_with_its_owners() -> None:
    members = group(
        away("gone", []), member("a", ["t"], pairs(0, 1, 2), 4), member("b", ["t"], pairs(3, 4), 4)
    )
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 5}), members)
    assert not answer.needs_rejoin
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1, 2))


def test_what_is_free_goes_to_the_least_busy_once_the_others_have_kept_what_they_own() -> None:
    """Otherwise it goes to one that is busier, which gives it up again in the next rebalance."""
    busy, idle = pairs(*range(1, 7)), pairs(7, 8)
    members = group(away("gone", []), member("a", ["t"], busy, 4), member("b", ["t"], idle, 4))
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 9}), members)
    assert not flatten(answer.assignment["a"]) & set(pairs(0))


def test_what_no_other_member_wants_goes_to_the_absent() -> None:
    members = group(away("gone", []), member("a", ["u"]))
    answer = lead(RangeAssignor(), Cluster({"t": 2, "u": 1}), members)
    assert flatten(answer.assignment["gone"]) == set(pairs(0, 1))


def test_nothing_is_withheld_for_its_sake() -> None:
    """It would never give that back, so the group would rebalance again and again."""
    stale = [*pairs(0, 1, 2), ("forgotten", 0)]
    members = group(
        away("gone", stale), member("a", ["t"], pairs(2, 3), 4), member("b", ["t"], (), 4)
    )
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 4}), members)
    answer = lead(
        CooperativeStickyAssignor(), Cluster({"t": 4}), having(members, answer.assignment)
    )
    assert not answer.needs_rejoin


@pytest.mark.parametrize("owned", [pairs(7), [("u", 0)], []])
def test_it_keeps_nothing_that_is_no_more_or_that_it_does_not_want(owned: list[Pair]) -> None:
    answer = lead(
        RangeAssignor(), Cluster({"t": 2, "u": 1}), group(away("gone", owned), member("a", ["t"]))
    )
    assert flatten(answer.assignment["gone"]) == set()
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1))


def test_of_two_that_are_away_with_the_same_one_has_it() -> None:
    members = group(away("x", pairs(0)), away("y", pairs(0)), member("a", ["t"]))
    assert_valid({"t": 2}, members, lead(RangeAssignor(), Cluster({"t": 2}), members).assignment)


@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.sets(st.integers(0, 15)), st.booleans()), max_size=6),
    st.sampled_from(ASSIGNORS),
)
def test_every_partition_has_one_owner_and_the_group_settles(
    partitions: int, shares: list[tuple[set[int], bool]], assignor: type[Assignor]
) -> None:
    left = set(range(partitions))
    members = group(member("leader", ["t"]))
    for number, (share, is_away) in enumerate(shares):
        owned, left = pairs(*sorted(share & left)), left - share
        name = f"m{number}"
        info = away(name, owned) if is_away else member(name, ["t"], owned, 4)
        members[name] = info
    answer = lead(assignor(), Cluster({"t": partitions}), members)
    for generation in range(5, 8):
        if answer.needs_rejoin:
            members = having(members, answer.assignment, generation)
            answer = lead(assignor(), Cluster({"t": partitions}), members)
    assert not answer.needs_rejoin
    if partitions:
        assert_valid({"t": partitions}, members, answer.assignment)
    for name, info in members.items():
        if info.is_away:
            assert flatten(answer.assignment[name]) <= flatten(info.owned)
    again = lead(assignor(), Cluster({"t": partitions}), having(members, answer.assignment, 9))
    if assignor is CooperativeStickyAssignor:
        assert not again.needs_rejoin
        assert again.assignment == answer.assignment


# -- with state ------------------------------------------------------------------------------------

SETTINGS = WarmSettings(num_standbys=1)


def warm(info: MemberInfo, lags: Mapping[int, int]) -> MemberInfo:
    """A member of a process of its own, with these lags in the partitions of `t`."""
    report = WarmReport(uuid.uuid4(), {("t", number): lag for number, lag in lags.items()})
    return replace(info, warm=report)


def led(*members: MemberInfo, partitions: int = 3) -> Adjustment:
    return lead(CooperativeStickyAssignor(), Cluster({"t": partitions}), group(*members), SETTINGS)


def absent(lags: Mapping[int, int], owned: tuple[int, ...] = (2,)) -> MemberInfo:
    """A member that is away; what it reported as it last joined tells nothing any more."""
    return warm(away("gone", pairs(*owned)), lags)


def test_a_copy_that_has_caught_up_goes_on_in_place_of_the_absent() -> None:
    answer = led(
        absent({2: RUNNING}),
        warm(member("a", ["t"], pairs(0), 4), {0: RUNNING, 2: 10_000}),
        warm(member("b", ["t"], pairs(1), 4), {1: RUNNING}),
    )
    assert flatten(answer.assignment["gone"]) == set()
    assert ("t", 2) in flatten(answer.assignment["a"])
    assert not answer.needs_rejoin


@for_each("assignor", (CooperativeStickyAssignor, InstanceStickyAssignor))
def test_what_goes_on_in_place_of_the_absent_does_not_move_again(
    assignor: type[Assignor],
) -> None:
    """The one with the copy is busy, and another one needs none."""
    members = group(
        warm(member("a", ["t"], pairs(1), 4), {0: 0, 1: RUNNING}),
        member("b", ["t"], (), 4),
        away("gone", pairs(0)),
    )
    first = lead(assignor(), Cluster({"t": 2}), members, WarmSettings())
    assert first.is_final
    assert not first.needs_rejoin
    again = having(members, first.assignment, 5)
    assert lead(assignor(), Cluster({"t": 2}), again, WarmSettings()) == first


@pytest.mark.parametrize("lag", [10_001, UNKNOWN, None])
def test_without_one_the_partition_waits_and_copies_are_kept_up(lag: int | None) -> None:
    copies = {} if lag is None else {2: lag}
    answer = led(
        absent({2: RUNNING}),
        warm(member("a", ["t"], pairs(0), 4), {0: RUNNING} | copies),
        warm(member("b", ["t"], pairs(1), 4), {1: RUNNING}),
    )
    assert flatten(answer.assignment["gone"]) == set(pairs(2))
    if lag is not None:
        assert ("t", 2) in flatten(answer.standbys["a"])
    assert ("t", 2) not in answer.targets


def test_the_absent_take_no_part_of_the_budget_for_copies() -> None:
    answer = led(
        absent({}, (2, 3)), warm(member("a", ["t"], pairs(0, 1), 4), {0: -2, 1: -2}), partitions=4
    )
    assert answer.warmups == {}
    assert answer.targets == {}


@pytest.mark.parametrize("others", [1, 2, 3])
@pytest.mark.parametrize("num_standbys", [0, 1, 2])
def test_what_waits_for_the_absent_has_its_standbys(others: int, num_standbys: int) -> None:
    """They are as many as if it were there, so when it is back nothing is missing."""
    there = [warm(member(f"m{n}", ["t"], pairs(n), 4), {n: RUNNING}) for n in range(others)]
    waiting = pairs(*range(others, others + 4))
    answer = lead(
        CooperativeStickyAssignor(),
        Cluster({"t": others + 4}),
        group(warm(away("gone", waiting), {}), *there),
        WarmSettings(num_standbys=num_standbys),
    )
    assert flatten(answer.assignment["gone"]) == set(waiting)
    copies = Counter(
        pair for partitions in answer.standbys.values() for pair in flatten(partitions)
    )
    wanted = min(num_standbys, others)
    assert {pair: copies[pair] for pair in waiting} == dict.fromkeys(waiting, wanted)
    assert "gone" not in answer.standbys
    assert answer.warmups == {}


def test_a_standby_of_what_waits_takes_over_when_it_has_caught_up() -> None:
    members = group(absent({2: RUNNING}), warm(member("a", ["t"], pairs(0, 1), 4), {0: -2, 1: -2}))
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 3}), members, SETTINGS)
    assert flatten(answer.standbys["a"]) == set(pairs(2))
    members["a"] = warm(members["a"], {0: -2, 1: -2, 2: 10})
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 3}), members, SETTINGS)
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1, 2))


@pytest.mark.parametrize("copies", [{}, {2: RUNNING}])
def test_the_leader_looks_again_while_a_member_is_away_that_could_keep_standbys(
    copies: dict[int, int],
) -> None:
    """No rebalance begins by itself when it is back, or when a standby has caught up."""
    there = warm(member("a", ["t"], pairs(0, 1), 4), {0: RUNNING, 1: RUNNING} | copies)
    assert not led(absent({}), there).is_final
    assert led(replace(absent({}), is_away=False, warm=None), there).is_final


def test_the_leader_looks_for_standbys_of_what_waits_for_a_member_without_state() -> None:
    there = warm(member("a", ["t"], pairs(0, 1), 4), {0: RUNNING, 1: RUNNING})
    gone = replace(absent({}), warm=None)
    assert not led(gone, there).is_final
    assert led(gone, replace(there, owned=gone.owned, warm=None)).is_final
    assert led(replace(gone, owned=()), there, partitions=2).is_final


@for_each("assignor", ASSIGNORS)
def test_without_standbys_there_is_nothing_to_look_for(assignor: type[Assignor]) -> None:
    """An eager group stops all work for each look."""
    there = warm(member("a", ["t"], pairs(1), 4), {1: RUNNING, 0: UNKNOWN})
    members = group(absent({}, (0,)), there)
    assert lead(assignor(), Cluster({"t": 2}), members, WarmSettings()).is_final


def test_the_leader_looks_for_the_return_of_a_member_that_is_to_have_more() -> None:
    """It has fewer than its share, since what it would be given stays with the others."""
    there = warm(member("a", ["t"], pairs(0, 1, 3, 4), 4), dict.fromkeys((0, 1, 3, 4), RUNNING))
    members = group(absent({}), there)
    led_now = lead(CooperativeStickyAssignor(), Cluster({"t": 5}), members, WarmSettings())
    assert flatten(led_now.assignment["gone"]) == set(pairs(2))
    assert not led_now.is_final
    members["gone"] = replace(members["gone"], is_away=False, warm=WarmReport())
    back = lead(CooperativeStickyAssignor(), Cluster({"t": 5}), members, WarmSettings())
    assert "gone" in back.warmups


def test_a_member_that_is_away_keeps_no_copy_of_what_it_is_to_get() -> None:
    refusing = replace(member("a", ["t"], pairs(0), 4), refused=group_by_topic(pairs(0)))
    answer = led(replace(away("gone", []), warm=WarmReport()), warm(refusing, {0: RUNNING}))
    assert flatten(answer.withheld["gone"]) == set(pairs(0))
    assert answer.standbys == {}


def test_order_of_members_does_not_matter() -> None:
    """Two that are away claim the same, and the rest is shared out among two others."""
    members = group(
        away("x", pairs(0, 1), 3), away("y", pairs(1, 2)), member("a", ["t"]), member("b", ["t"])
    )
    backwards = dict(reversed(members.items()))
    assignor = RoundRobinAssignor()
    answers = [lead(assignor, Cluster({"t": 9}), each) for each in (members, backwards)]
    assert answers[0].assignment == answers[1].assignment


def test_one_process_has_a_member_that_is_away_and_one_that_is_not() -> None:
    process = uuid.uuid4()
    there = member("a", ["t"], pairs(0, 1), 4)
    members = group(
        replace(away("gone", pairs(2)), warm=WarmReport(process)),
        replace(there, warm=WarmReport(process, dict.fromkeys(pairs(0, 1, 2), 0))),
    )
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 3}), members, SETTINGS)
    assert flatten(answer.assignment["a"]) == set(pairs(0, 1, 2))


def test_a_member_without_state_does_not_go_on_in_place_of_one_that_has() -> None:
    answer = led(
        absent({2: RUNNING}),
        member("a", ["t"], pairs(0), 4),
        warm(member("b", ["t"], pairs(1), 4), {1: RUNNING}),
    )
    assert flatten(answer.assignment["gone"]) == set(pairs(2))


@given(
    st.dictionaries(st.integers(0, 9), st.sampled_from([0, 5_000, 50_000, UNKNOWN]), max_size=6),
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
)
def test_with_state_every_partition_has_one_owner(
    copies: dict[int, int], gone: set[int], own: set[int]
) -> None:
    mine = dict.fromkeys(own - gone, RUNNING)
    members = group(
        absent(dict.fromkeys(gone, RUNNING), tuple(sorted(gone))),
        warm(member("a", ["t"], pairs(*sorted(own - gone)), 4), copies | mine),
        warm(member("b", ["t"], (), 4), {}),
    )
    for generation in range(5, 9):
        answer = lead(CooperativeStickyAssignor(), Cluster({"t": 10}), members, SETTINGS)
        if not answer.needs_rejoin:
            assert_valid({"t": 10}, members, answer.assignment)
            break
        members = having(members, answer.assignment, generation)
    else:
        raise AssertionError("it does not settle")
    for number in gone:
        owner = next(n for n, p in answer.assignment.items() if ("t", number) in flatten(p))
        assert owner == "gone" or (owner == "a" and 0 <= copies.get(number, -1) <= 10_000)


@st.composite
def groups_with_absent(draw: st.DrawFn) -> tuple[Cluster, dict[str, MemberInfo]]:
    """Members that own this and that, some of which are away; some report state."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    cluster = Cluster({f"t{n}": size for n, size in enumerate(sizes)})
    every = sorted(cluster.partitions_of(cluster.topics))
    owners = [draw(st.integers(0, 5)) for _ in every]
    members = {}
    for number in range(draw(st.integers(2, 5))):
        owned = [pair for pair, owner in zip(every, owners, strict=True) if owner == number]
        lags = dict.fromkeys(draw(st.sets(st.sampled_from(every))), 0)
        info = member(f"m{number}", cluster.topics, owned, 1, instance_id=f"i{number}")
        report = WarmReport(uuid.UUID(int=draw(st.integers(1, 4))), lags)
        members[info.member_id] = replace(
            info,
            is_away=number > 0 and draw(st.booleans()),
            warm=report if draw(st.booleans()) else None,
        )
    return cluster, members


class KeepingAssignor(Assignor):
    """One of a user's own: members keep what they have, up to an even share."""

    name = "keeping"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        claims = {name: self.claim(member) for name, member in members.items()}
        return among_present(self._share_out, cluster, members, claims)

    def _share_out(
        self, cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
    ) -> dict[str, Partitions]:
        every = list(cluster.partitions_of(cluster.topics))
        least, more = divmod(len(every), len(members))
        busy_first = sorted(members, key=lambda name: (-len(flatten(claims[name].owned)), name))
        shares = {name: least + (place < more) for place, name in enumerate(busy_first)}
        held = {name: sorted(flatten(claims[name].owned))[: shares[name]] for name in members}
        free = iter(sorted(set(every) - {pair for pairs in held.values() for pair in pairs}))
        for name, pairs in held.items():
            pairs.extend(islice(free, shares[name] - len(pairs)))
        return {name: group_by_topic(pairs) for name, pairs in held.items()}


@for_each("assignor", (CooperativeStickyAssignor, InstanceStickyAssignor, KeepingAssignor))
@given(drawn=groups_with_absent())
@examples(60)
def test_groups_come_to_rest_while_members_are_away(
    assignor: type[Assignor], drawn: tuple[Cluster, dict[str, MemberInfo]]
) -> None:
    """What one gives up for another one must not go elsewhere, and that every time."""
    cluster, members = drawn
    last: dict[str, Partitions] = {}
    is_last = False
    leader, plan = assignor(), None
    for generation in range(2, 10):
        answer = lead(leader, cluster, members, WarmSettings(), plan=plan)
        plan = answer.plan
        assert answer.assignment == last or not is_last, "no member would have asked for this"
        if answer.assignment == last:
            assert not answer.needs_rejoin
            return
        last = answer.assignment
        is_last = answer.is_final and not answer.needs_rejoin
        members = having(members, last, generation)
    raise AssertionError("partitions go to and fro")


def test_what_is_given_up_for_a_member_without_state_goes_to_that_one() -> None:
    """The one that is away would be given it, and the former owner got it back every time."""
    topics = {"t": 4, "u": 4, "v": 3}
    had = {
        "a": [("t", 0), ("t", 1), ("u", 1)],
        "b": [("t", 2), ("u", 0), ("v", 1)],
        "c": [("u", 2), ("u", 3), ("v", 2)],
        "d": [("v", 0)],
    }
    members = group(
        replace(away("gone", []), topics=tuple(topics), warm=WarmReport()),
        *(member(name, topics, owned, 4) for name, owned in had.items()),
    )
    every = sorted(Cluster(topics).partitions_of(topics))
    for name in ("a", "c"):
        lags = {pair: RUNNING if pair in had[name] else 0 for pair in every}
        members[name] = replace(members[name], warm=WarmReport(lags=lags))
    for generation in range(5, 9):
        answer = lead(InstanceStickyAssignor(), Cluster(topics), members, SETTINGS)
        members = having(members, answer.assignment, generation)
    assert not lead(InstanceStickyAssignor(), Cluster(topics), members, SETTINGS).needs_rejoin


def test_racks_and_refusals_count_for_those_that_are_there() -> None:
    """Partitions have other numbers in the question to the assignor, and their own ones again."""
    near = [frozenset({"x"}), frozenset({"x"}), frozenset({"y"}), frozenset({"x"})]
    members = group(
        away("gone", pairs(1)),
        replace(member("a", ["t"], rack="x"), refused=group_by_topic(pairs(3))),
        member("b", ["t"], rack="y"),
    )
    answer = lead(CooperativeStickyAssignor(), Cluster({"t": 4}, {"t": near}), members)
    assert ("t", 2) in flatten(answer.assignment["b"])
    assert ("t", 3) in flatten(answer.assignment["b"])
    assert flatten(answer.assignment["a"]) == set(pairs(0))
