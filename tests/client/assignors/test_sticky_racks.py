"""The sticky assignors prefer members near a replica (KIP-881), and never pay for it in balance.

**The promise.**  Of all assignments with the most even loads, one with the most partitions near
their member, and of those one that moves the fewest.  So it is held to all assignments there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie_client.assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    StickyAssignor,
    _nearness,
)
from coterie_client.assignors._flow import Network
from coterie_protocol.consumer import flatten
from tests.client.assignors.world import (
    Pair,
    assert_fair,
    everything,
    far,
    group,
    having,
    loads,
    member,
    moved,
    rounds_until_settled,
    without,
)

RACKS = ["a", "b", "c"]
TOPICS = ["t0", "t1", "t2"]

Group = tuple[Cluster, dict[str, MemberInfo]]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False, sizes: int = 6) -> Group:
    """A group at any moment of its life; some members and partitions are in no known rack."""
    topics = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, sizes), min_size=1))
    replicas = st.frozensets(st.sampled_from([*RACKS, "far away"]), max_size=3)
    where = {topic: [draw(replicas) for _ in range(count)] for topic, count in topics.items()}
    wanted = st.just(sorted(topics)) if equal else st.lists(st.sampled_from(TOPICS), unique=True)
    rack = st.none() | st.sampled_from(RACKS)
    members = {}
    left = sorted(everything(topics))
    for number in range(draw(st.integers(1, 5))):
        interests = draw(wanted)
        candidates = [pair for pair in left if pair[0] in interests]
        owned = draw(st.sets(st.sampled_from(candidates))) if candidates else set()
        left = [pair for pair in left if pair not in owned]
        members[f"m{number}"] = member(f"m{number}", interests, owned, 1, rack=draw(rack))
    return Cluster(topics, where), members


def share(cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
    """Share out, and check what always has to hold."""
    given = CooperativeStickyAssignor().assign(cluster, members)
    assert_fair(cluster.topics, members, given)
    return given


def every(cluster: Cluster, members: Mapping[str, MemberInfo]) -> Iterator[dict[str, set[Pair]]]:
    """All assignments there are."""
    pairs = [
        (pair, [name for name, info in members.items() if pair[0] in info.topics])
        for pair in sorted(everything(cluster.topics))
    ]
    pairs = [(pair, takers) for pair, takers in pairs if takers]
    for owners in product(*(takers for _, takers in pairs)):
        held: dict[str, set[Pair]] = {name: set() for name in members}
        for (pair, _), owner in zip(pairs, owners, strict=True):
            held[owner].add(pair)
        yield held


def cost(
    cluster: Cluster, members: Mapping[str, MemberInfo], held: Mapping[str, set[Pair]]
) -> tuple[list[int], int, int]:
    """What counts: the loads, highest first; how many are far; how many move."""
    taken = sum(len(flatten(info.owned) - held[name]) for name, info in members.items())
    return sorted(map(len, held.values()), reverse=True), far(cluster, members, held), taken


@given(group=groups(sizes=3))
@settings(max_examples=150)
def test_best_there_is(group: Group) -> None:
    """Against all assignments: as even as can be, then as near as can be, then the fewest moves."""
    cluster, members = group
    size = sum(cluster.topics.values())
    if len(members) ** size > 5000:
        members = dict(list(members.items())[:2])
    given = {name: set(flatten(each)) for name, each in share(cluster, members).items()}
    best = min(cost(cluster, members, held) for held in every(cluster, members))
    assert cost(cluster, members, given) == best
