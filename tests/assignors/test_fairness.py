"""What holds for every group: balanced, sticky, deterministic.

**The bound.**  As few partitions move as in any assignment with loads as even, with equal
subscriptions and with differing ones.  (In groups with very many
differing subscriptions, the search ends before the last move is saved: see `sticky.cycles`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    StickyAssignor,
)
from coterie_assignors.sticky import cycles
from coterie_assignors.sticky.cycles import cancel_negative_cycles
from coterie_assignors.sticky.pools import Pool
from coterie_assignors.sticky.quotas import set_quotas
from coterie_protocol.consumer import flatten
from tests.assignors.world import (
    Pair,
    assert_fair,
    best_possible,
    everything,
    group,
    having,
    loads,
    member,
    moved,
    rounds_until_settled,
)
from tests.support.profiles import examples

TOPICS = ["t0", "t1", "t2", "t3"]

Group = tuple[dict[str, int], dict[str, MemberInfo]]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False, disputes: bool = True) -> Group:
    """A group at any moment of its life, with claims that need not be true."""
    topics = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1))
    wanted = st.just(sorted(topics)) if equal else st.lists(st.sampled_from(TOPICS), unique=True)
    count = draw(st.integers(1, 6))
    taken: set[Pair] = set()
    members = {}
    for number in range(count):
        claims = draw(st.sets(st.sampled_from(sorted(everything(topics)))))
        if not disputes:
            claims -= taken
            taken |= claims
        name = f"m{number}"
        members[name] = member(name, draw(wanted), claims, draw(st.integers(-1, 3)))
    if not disputes:
        # No member claims what it did not subscribe to.
        members = {
            name: member(name, info.topics, [p for p in flatten(info.owned) if p[0] in info.topics])
            for name, info in members.items()
        }
    return topics, members


@given(group=groups())
def test_every_assignment_is_valid_and_fair(group: Group) -> None:
    topics, members = group
    assert_fair(topics, members, CooperativeStickyAssignor().assign(Cluster(topics), members))


@given(group=groups())
@examples(30)
def test_loads_are_as_even_as_possible(group: Group) -> None:
    topics, members = group
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert sorted(loads(given).values()) == best_possible(topics, members)


@given(group=groups())
def test_settled_members_are_assigned_the_same_again(group: Group) -> None:
    topics, members = group
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert CooperativeStickyAssignor().assign(Cluster(topics), having(members, given, 9)) == given


@given(group=groups())
def test_order_of_members_and_topics_does_not_matter(group: Group) -> None:
    topics, members = group
    backwards = dict(reversed(members.items()))
    assert CooperativeStickyAssignor().assign(
        Cluster(topics), members
    ) == CooperativeStickyAssignor().assign(Cluster(dict(reversed(topics.items()))), backwards)


@given(group=groups(equal=True, disputes=False))
def test_equal_subscriptions_move_the_least_possible(group: Group) -> None:
    topics, members = group
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    total = sum(topics.values())
    floor, longer = divmod(total, len(members))
    had = sorted((len(flatten(info.owned)) for info in members.values()), reverse=True)
    # The best one can do: those who had most are the ones that may keep one more.
    least = sum(max(0, n - floor - (i < longer)) for i, n in enumerate(had))
    assert moved(members, given) == least


@given(group=groups(disputes=False), gone=st.integers(0, 5))
def test_nothing_moves_when_a_member_with_an_equal_subscription_leaves(
    group: Group, gone: int
) -> None:
    topics, members = group
    equals = {name: member(name, sorted(topics)) for name in members}
    settled = having(equals, CooperativeStickyAssignor().assign(Cluster(topics), equals))
    rest = {name: info for name, info in settled.items() if name != f"m{gone}"}
    if rest:
        given = CooperativeStickyAssignor().assign(Cluster(topics), rest)
        assert moved(rest, given) == 0


@given(group=groups())
def test_settles_in_two_rounds_without_double_ownership(group: Group) -> None:
    topics, members = group
    owned: set[Pair] = set()
    for name, info in members.items():
        # To begin with, no partition has two owners.
        mine = set(flatten(info.owned)) - owned
        owned |= mine
        members[name] = member(name, info.topics, [p for p in mine if p[0] in info.topics], 1)
    assert rounds_until_settled(topics, members) <= 2


@given(group=groups())
def test_eager_and_cooperative_assign_alike(group: Group) -> None:
    topics, members = group
    told = {}
    for name, info in members.items():
        data = StickyAssignor().subscription_user_data(info.topics, info.owned, info.generation)
        told[name] = MemberInfo(member_id=name, topics=info.topics, user_data=data)
    assert StickyAssignor().assign(Cluster(topics), told) == CooperativeStickyAssignor().assign(
        Cluster(topics), members
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[Pool], int]:
    """A few small pools with differing subscribers, and the number of members."""
    members = draw(st.integers(2, 4))
    subscribers = st.sets(st.integers(0, members - 1), min_size=1, max_size=3)
    distinct = draw(st.sets(subscribers.map(frozenset), min_size=1, max_size=3))
    found = []
    for those in sorted(distinct, key=sorted):
        size = draw(st.integers(1, 4))
        had = [0] * len(those)
        for _ in range(draw(st.integers(0, size))):
            had[draw(st.integers(0, len(those) - 1))] += 1
        found.append(Pool(sorted(those), size, had))
    return found, members


def ways(size: int, members: int) -> Iterator[tuple[int, ...]]:
    """All ways to share so many partitions among so many."""
    if members == 1:
        yield (size,)
        return
    for first in range(size + 1):
        for rest in ways(size - first, members - 1):
            yield (first, *rest)


def cost(
    pools: Sequence[Pool], shares: Sequence[Sequence[int]], members: int
) -> tuple[list[int], int]:
    """The loads, highest first, and how many partitions move."""
    load = [0] * members
    moves = 0
    for pool, share in zip(pools, shares, strict=True):
        for place, had, has in zip(pool.members, pool.owned, share, strict=True):
            load[place] += has
            moves += max(0, had - has)
    return sorted(load, reverse=True), moves


@given(drawn=pools())
@examples(30)
def test_quotas_are_the_best_of_all_there_are(drawn: tuple[list[Pool], int]) -> None:
    found, members = drawn
    every = product(*(list(ways(pool.size, len(pool.members))) for pool in found))
    loads_min, moves_min = min(cost(found, shares, members) for shares in every)
    cancel_negative_cycles(found, set_quotas(found, members))
    load, moves = cost(found, [pool.quota for pool in found], members)
    assert load == loads_min
    assert moves == moves_min


def test_moves_are_the_fewest_in_a_thousand_rings_of_three() -> None:
    """In a ring of three, where every move has a detour, each of a thousand moves the fewest.

    The groups are fixed, made by a linear congruence.
    """
    state = 7

    def pick(below: int) -> int:
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        return (state >> 8) % below

    for _ in range(1000):
        found = [
            Pool(list(those), size, [pick(size + 1), 0][:: 1 - 2 * pick(2)])
            for those in ((0, 1), (1, 2), (0, 2))
            for size in (1 + pick(5),)
        ]
        every = product(*(list(ways(pool.size, 2)) for pool in found))
        best = min(cost(found, shares, 3) for shares in every)
        cancel_negative_cycles(found, set_quotas(found, 3))
        assert cost(found, [pool.quota for pool in found], 3) == best


def test_balance_holds_when_the_search_for_fewer_moves_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycles, "EDGE_VISITS_MAX", 0)
    topics = {"t0": 4, "t1": 3, "t2": 5}
    wanted = (["t0", "t1"], ["t1", "t2"], ["t0", "t2"], ["t2"])
    members = group(*(member(f"m{n}", topics) for n, topics in enumerate(wanted)))
    members["m0"] = member("m0", ["t0", "t1"], everything({"t0": 4, "t1": 3}), 1)
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert_fair(topics, members, given)
    assert sorted(loads(given).values()) == best_possible(topics, members)


def test_group_grows_and_shrinks_without_needless_moves() -> None:
    topics = {"t": 100}
    members = group(member("m0", ["t"]))
    sizes = [*range(1, 11), *range(9, 2, -1)]
    moves = []
    for size in sizes:
        members = {f"m{n}": members.get(f"m{n}", member(f"m{n}", ["t"])) for n in range(size)}
        given = CooperativeStickyAssignor().assign(Cluster(topics), members)
        moves.append(moved(members, given))
        members = having(members, given)
    # Each newcomer takes its share, rounded down; who leaves costs the others nothing.
    assert moves == [0, *(100 // size for size in range(2, 11)), *([0] * 7)]
