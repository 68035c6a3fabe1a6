"""The sticky assignors prefer members in the rack of a replica (KIP-881), but balance comes first.

**The promise.**  Of all assignments with the most even loads, it is one with the most local
partitions, and of those one that moves the fewest.  So it is compared with all possible ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    StickyAssignor,
)
from coterie_assignors.sticky import racks
from coterie_assignors.sticky.min_cost_flow import Network
from coterie_protocol.consumer import flatten
from tests.assignors.world import (
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
from tests.support.profiles import examples

RACKS = ["a", "b", "c"]
TOPICS = ["t0", "t1", "t2"]

Group = tuple[Cluster, dict[str, MemberInfo]]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False, sizes: int = 6) -> Group:
    """A group in any state; some members and partitions are in no known rack."""
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
    """Assign, and check what must always hold."""
    given = CooperativeStickyAssignor().assign(cluster, members)
    assert_fair(cluster.topics, members, given)
    return given


def every(cluster: Cluster, members: Mapping[str, MemberInfo]) -> Iterator[dict[str, set[Pair]]]:
    """All possible assignments."""
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
    """In order of priority: the loads, highest first; how many are remote; how many move."""
    taken = sum(len(flatten(info.owned) - held[name]) for name, info in members.items())
    return sorted(map(len, held.values()), reverse=True), far(cluster, members, held), taken


@given(group=groups(sizes=3))
@examples(75)
def test_best_of_all_assignments(group: Group) -> None:
    cluster, members = group
    size = sum(cluster.topics.values())
    if len(members) ** size > 5000:
        members = dict(list(members.items())[:2])
    given = {name: set(flatten(each)) for name, each in share(cluster, members).items()}
    best = min(cost(cluster, members, held) for held in every(cluster, members))
    assert cost(cluster, members, given) == best


@given(group=groups())
def test_racks_never_cost_balance(group: Group) -> None:
    cluster, members = group
    plain = CooperativeStickyAssignor().assign(Cluster(cluster.topics), members)
    assert sorted(loads(share(cluster, members)).values()) == sorted(loads(plain).values())


@given(group=groups())
def test_settled_members_are_assigned_the_same_again(group: Group) -> None:
    cluster, members = group
    given = share(cluster, members)
    assert share(cluster, having(members, given, 9)) == given


@given(group=groups())
def test_order_of_members_and_topics_does_not_matter(group: Group) -> None:
    cluster, members = group
    backwards = Cluster(
        dict(reversed(list(cluster.topics.items()))), dict(reversed(list(cluster.racks.items())))
    )
    assert share(backwards, dict(reversed(members.items()))) == share(cluster, members)


@given(group=groups())
def test_settles_in_two_rounds_without_double_ownership(group: Group) -> None:
    cluster, members = group
    assert rounds_until_settled(cluster.topics, members, cluster.racks) <= 2


@given(group=groups(), kind=st.sampled_from(["no rack", "one rack", "everywhere", "unknown"]))
def test_racks_that_make_no_difference_change_nothing(group: Group, kind: str) -> None:
    cluster, members = group
    where = cluster.racks
    if kind in ("no rack", "one rack"):
        rack = None if kind == "no rack" else "a"
        members = {
            name: member(name, info.topics, flatten(info.owned), 1, rack=rack)
            for name, info in members.items()
        }
    else:
        members = {
            name: member(name, info.topics, flatten(info.owned), 1, rack=info.rack or "a")
            for name, info in members.items()
        }
        replicas = frozenset(RACKS if kind == "everywhere" else ["elsewhere"])
        where = {topic: [replicas] * count for topic, count in cluster.topics.items()}
    plain = CooperativeStickyAssignor().assign(Cluster(cluster.topics), members)
    assert share(Cluster(cluster.topics, where), members) == plain


@given(group=groups())
def test_eager_and_cooperative_assign_alike(group: Group) -> None:
    cluster, members = group
    told = {}
    for name, info in members.items():
        data = StickyAssignor().subscription_user_data(info.topics, info.owned, info.generation)
        told[name] = MemberInfo(member_id=name, topics=info.topics, rack=info.rack, user_data=data)
    assert StickyAssignor().assign(cluster, told) == share(cluster, members)


@given(group=groups())
def test_fair_and_settled_when_the_search_is_cut_short(group: Group) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(racks, "EDGE_VISITS_MAX", -1)
        cluster, members = group
        given = share(cluster, members)
        assert share(cluster, having(members, given, 9)) == given


def test_flow_is_rerouted_if_that_makes_it_cheaper() -> None:
    network = Network()
    source, left, right, sink = (network.add_node() for _ in range(4))
    network.add_edge(source, left, 1)
    network.add_edge(source, right, 1)
    direct = network.add_edge(left, sink, 1)
    across = network.add_edge(left, right, 1, 5)
    network.add_edge(right, left, 1, 1)
    late = network.add_edge(right, sink, 1, 9)
    assert network.maximize(source, sink, visits_max=1000)
    assert [network.flow(edge) for edge in (direct, across, late)] == [1, 0, 1]


# What Kafka's tests of racks go through: topics of 6, 7 and 2 partitions, three members

COUNTS = {"t1": 6, "t2": 7, "t3": 2}


def spread(replicas: int, racks: Sequence[str]) -> Cluster:
    """A cluster whose replicas go round the racks, partition by partition, topic after topic."""
    where: dict[str, list[frozenset[str]]] = {topic: [] for topic in COUNTS}
    for place, (topic, _) in enumerate(Cluster(COUNTS).partitions_of(COUNTS)):
        where[topic].append(
            frozenset(racks[(place + step) % len(racks)] for step in range(replicas))
        )
    return Cluster(COUNTS, where)


def three(*, equal: bool = True, racks: Sequence[str | None] = RACKS) -> dict[str, MemberInfo]:
    """Three members; if they are not equal, the third does without the second topic."""
    wanted = [COUNTS, COUNTS, COUNTS if equal else ["t1", "t3"]]
    return group(*(member(f"m{n}", topics, rack=racks[n]) for n, topics in enumerate(wanted)))


def in_a_row(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members, each with the next five partitions, whatever its rack."""
    pairs = list(Cluster(COUNTS).partitions_of(COUNTS))
    return {
        name: member(name, info.topics, pairs[5 * n : 5 * n + 5], 1, rack=info.rack)
        for n, (name, info) in enumerate(members.items())
    }


def far_in(cluster: Cluster, members: Mapping[str, MemberInfo]) -> int:
    """How many partitions are assigned to a member in another rack."""
    given = share(cluster, members)
    return far(cluster, members, {name: flatten(each) for name, each in given.items()})


equal_or_not = pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])


@equal_or_not
@pytest.mark.parametrize("replicas", [2, 3])
def test_all_are_local_with_several_replicas(*, equal: bool, replicas: int) -> None:
    assert far_in(spread(replicas, RACKS), three(equal=equal)) == 0


def test_all_are_local_to_equal_members_with_one_replica() -> None:
    assert far_in(spread(1, RACKS), three()) == 0


def test_as_many_as_possible_are_local_to_differing_members() -> None:
    """Rack c has 5 local partitions, 2 of them of a topic its member does not subscribe to."""
    assert far_in(spread(1, RACKS), three(equal=False)) == 4


@equal_or_not
def test_rack_without_replicas_gets_its_share(*, equal: bool) -> None:
    assert far_in(spread(2, RACKS[:2]), three(equal=equal)) == 5


@equal_or_not
@pytest.mark.parametrize(
    ("where", "racks"),
    [(RACKS, [None, None, None]), (RACKS, ["d", "e", "f"]), ([], RACKS)],
    ids=["no members' racks", "other racks", "no replicas' racks"],
)
def test_racks_with_nothing_in_common_are_ignored(
    *, equal: bool, where: Sequence[str], racks: Sequence[str | None]
) -> None:
    members = three(equal=equal, racks=racks)
    cluster = spread(1, where) if where else Cluster(COUNTS)
    assert share(cluster, members) == share(Cluster(COUNTS), members)


def test_only_remote_partitions_move() -> None:
    cluster, members = spread(1, RACKS), in_a_row(three())
    given = share(cluster, members)
    held = {name: flatten(info.owned) for name, info in members.items()}
    assert moved(members, given) == far(cluster, members, held) == 10
    assert far_in(cluster, members) == 0


def test_local_partitions_stay() -> None:
    members = in_a_row(three())
    assert moved(members, share(spread(3, RACKS), members)) == 0


def test_remote_partitions_stay_if_no_member_is_nearer() -> None:
    """Kafka's assignor deals such partitions out anew each time."""
    cluster = Cluster({"t": 6}, {"t": [frozenset(rack) for rack in "abcccc"]})
    members = group(
        member("m0", ["t"], [("t", 1), ("t", 2), ("t", 3)], 1, rack="a"),
        member("m1", ["t"], [("t", 0), ("t", 4), ("t", 5)], 1, rack="b"),
    )
    given = {
        name: {number for _, number in flatten(each)}
        for name, each in share(cluster, members).items()
    }
    assert given == {"m0": {0, 2, 3}, "m1": {1, 4, 5}}


def test_leavers_partitions_go_to_a_member_in_its_rack() -> None:
    topics = {"t": 12}
    where = {"t": [frozenset("ab"[n % 2]) for n in range(12)]}
    members = group(*(member(f"m{n}", ["t"], rack="ab"[n % 2]) for n in range(4)))
    cluster = Cluster(topics, where)
    rest = without(having(members, share(cluster, members)), "m0")
    given = share(cluster, rest)
    assert moved(rest, given) == 0
    # Four each: a's six are more than one member's share, so two of them are far.
    assert far(cluster, rest, {name: flatten(each) for name, each in given.items()}) == 2
