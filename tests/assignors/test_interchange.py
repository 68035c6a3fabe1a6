"""The sticky assignors move what takers have copies of, and keep everything else they promise."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    STALLED,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    StickyAssignor,
)
from coterie_protocol.consumer import flatten
from tests.assignors.warm_world import warm
from tests.assignors.world import Pair, everything, far, group, loads, moved
from tests.support.profiles import examples

COOPERATIVE = (CooperativeStickyAssignor(), InstanceStickyAssignor())


def given_to(
    name: str, topics: Mapping[str, int], members: Mapping[str, MemberInfo], assignor: Assignor
) -> set[Pair]:
    return set(flatten(assignor.assign(Cluster(topics), members)[name]))


@pytest.mark.parametrize("assignor", COOPERATIVE)
def test_a_newcomer_gets_what_it_has_copies_of(assignor: Assignor) -> None:
    topics = {"t": 6}
    copies = {("t", 1): 50, ("t", 4): 0, ("t", 5): 900}
    members = group(warm("old", topics, owned=everything(topics)), warm("new", topics, copies))
    assert given_to("new", topics, members, assignor) == set(copies)


@pytest.mark.parametrize("assignor", COOPERATIVE)
def test_the_copies_least_far_behind_come_first(assignor: Assignor) -> None:
    topics = {"t": 4}
    copies = {("t", 0): 900, ("t", 1): 50, ("t", 2): -3, ("t", 3): 0}
    members = group(warm("old", topics, owned=everything(topics)), warm("new", topics, copies))
    assert given_to("new", topics, members, assignor) == {("t", 1), ("t", 3)}


@pytest.mark.parametrize("assignor", [*COOPERATIVE, StickyAssignor()])
def test_partitions_without_owner_go_where_copies_are(assignor: Assignor) -> None:
    topics = {"t": 4}
    members = group(warm("a", topics, {("t", 2): 0, ("t", 3): 0}), warm("b", topics, {("t", 0): 0}))
    assert given_to("a", topics, members, assignor) == {("t", 2), ("t", 3)}


def test_topics_with_the_same_subscribers_stand_in_for_each_other() -> None:
    topics = {"t": 2, "u": 2}
    copies = {("u", 0): 0, ("u", 1): 0}
    members = group(warm("old", topics, owned=everything(topics)), warm("new", topics, copies))
    assert given_to("new", topics, members, CooperativeStickyAssignor()) == set(copies)


@pytest.mark.parametrize("assignor", COOPERATIVE)
@pytest.mark.parametrize("stalled", [{("t", 0)}, {("t", 1), ("t", 3)}])
def test_a_newcomer_is_not_to_get_what_it_tried_to_copy_in_vain(
    stalled: set[Pair], assignor: Assignor
) -> None:
    topics = {"t": 4}
    copies = dict.fromkeys(stalled, STALLED)
    members = group(warm("old", topics, owned=everything(topics)), warm("new", topics, copies))
    got = given_to("new", topics, members, assignor)
    assert len(got) == 2
    assert not got & stalled


@pytest.mark.parametrize("assignor", COOPERATIVE)
def test_unless_there_is_nothing_else(assignor: Assignor) -> None:
    topics = {"t": 4}
    copies = dict.fromkeys(everything(topics), STALLED)
    members = group(warm("old", topics, owned=everything(topics)), warm("new", topics, copies))
    assert len(given_to("new", topics, members, assignor)) == 2


def test_what_a_member_refused_is_not_exchanged_for() -> None:
    topics = {"t": 4}
    copies = {("t", 1): 0}
    members = group(
        warm("old", topics, owned=everything(topics)),
        warm("new", topics, copies, refused=[("t", 1)]),
    )
    plain = group(warm("old", topics, owned=everything(topics)), warm("new", topics))
    assert given_to("new", topics, members, CooperativeStickyAssignor()) == given_to(
        "new", topics, plain, CooperativeStickyAssignor()
    )


@st.composite
def groups(draw: st.DrawFn) -> tuple[Cluster, dict[str, MemberInfo]]:
    """A group with owners, copies, differing subscriptions, and racks."""
    topics = {f"t{n}": draw(st.integers(1, 6)) for n in range(draw(st.integers(1, 3)))}
    racks = {
        topic: [frozenset(draw(st.sets(st.sampled_from("xyz"), min_size=1))) for _ in range(count)]
        for topic, count in topics.items()
    }
    pairs = sorted(everything(topics))
    count = draw(st.integers(1, 5))
    owners = {pair: draw(st.integers(-1, count - 1)) for pair in pairs}
    members = [
        warm(
            f"m{n}",
            sorted(draw(st.one_of(st.just(set(topics)), st.sets(st.sampled_from(sorted(topics)))))),
            {
                pair: draw(st.integers(STALLED, 50))
                for pair in draw(st.sets(st.sampled_from(pairs)))
            },
            [pair for pair, owner in owners.items() if owner == n],
            rack=draw(st.sampled_from([None, "x", "y"])),
        )
        for n in range(count)
    ]
    return Cluster(topics, racks if draw(st.booleans()) else {}), group(*members)


@given(asked=groups())
@examples(200)
def test_loads_moves_and_racks_are_as_without_copies(
    asked: tuple[Cluster, dict[str, MemberInfo]],
) -> None:
    cluster, members = asked
    plain = {
        name: MemberInfo(
            member_id=name,
            topics=info.topics,
            owned=info.owned,
            generation=info.generation,
            rack=info.rack,
        )
        for name, info in members.items()
    }
    assignor = CooperativeStickyAssignor()
    with_copies, without = (assignor.assign(cluster, each) for each in (members, plain))
    assert loads(with_copies) == loads(without)
    assert moved(members, with_copies) <= moved(plain, without)
    if cluster.racks:
        distance = [
            far(cluster, members, {n: flatten(p) for n, p in each.items()})
            for each in (with_copies, without)
        ]
        assert distance[0] == distance[1]
