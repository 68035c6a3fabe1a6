"""The sticky assignors prefer members near a replica (KIP-881), and never pay for it in balance.

**The promise.**  Of all assignments with the most even loads, one with the most partitions near
their member, and of those one that moves the fewest.  So it is held to all assignments there are.
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
    _nearness,
)
from coterie_assignors._flow import Network
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
@examples(75)
def test_best_there_is(group: Group) -> None:
    """Against all assignments: as even as can be, then as near as can be, then the fewest moves."""
    cluster, members = group
    size = sum(cluster.topics.values())
    if len(members) ** size > 5000:
        members = dict(list(members.items())[:2])
    given = {name: set(flatten(each)) for name, each in share(cluster, members).items()}
    best = min(cost(cluster, members, held) for held in every(cluster, members))
    assert cost(cluster, members, given) == best


@given(group=groups())
def test_racks_never_cost_balance(group: Group) -> None:
    """The loads, seen together, are those of the same group without racks."""
    cluster, members = group
    plain = CooperativeStickyAssignor().assign(Cluster(cluster.topics), members)
    assert sorted(loads(share(cluster, members)).values()) == sorted(loads(plain).values())


@given(group=groups())
def test_again_changes_nothing(group: Group) -> None:
    """Members that come back with what they were given are given the same."""
    cluster, members = group
    given = share(cluster, members)
    assert share(cluster, having(members, given, 9)) == given


@given(group=groups())
def test_order_does_not_matter(group: Group) -> None:
    """Members and topics told of in another order are the same group."""
    cluster, members = group
    backwards = Cluster(
        dict(reversed(list(cluster.topics.items()))), dict(reversed(list(cluster.racks.items())))
    )
    assert share(backwards, dict(reversed(members.items()))) == share(cluster, members)


@given(group=groups())
def test_settles_in_two_rounds(group: Group) -> None:
    """Partitions that move nearer are released in one round and given in the next."""
    cluster, members = group
    assert rounds_until_settled(cluster.topics, members, cluster.racks) <= 2


@given(group=groups(), kind=st.sampled_from(["nobody tells", "one rack", "everywhere", "unknown"]))
def test_no_effect_where_racks_make_no_difference(group: Group, kind: str) -> None:
    """The answer is the one without racks if nobody tells one, or if nobody is nearer than others.

    That is so where all members are in one rack, or replicas in all racks, or in none of theirs.
    """
    cluster, members = group
    where = cluster.racks
    if kind in ("nobody tells", "one rack"):
        rack = None if kind == "nobody tells" else "a"
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
def test_eager_and_cooperative_share_out_alike(group: Group) -> None:
    """The eager assignor looks at racks in the same way."""
    cluster, members = group
    told = {}
    for name, info in members.items():
        data = StickyAssignor().subscription_user_data(info.topics, info.owned, info.generation)
        told[name] = MemberInfo(member_id=name, topics=info.topics, rack=info.rack, user_data=data)
    assert StickyAssignor().assign(cluster, told) == share(cluster, members)


@given(group=groups())
def test_too_much_to_look_through(group: Group) -> None:
    """Where looking ends early, all the rest holds: fair, and at rest when asked again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_nearness, "LOOKS_MAX", -1)
        cluster, members = group
        given = share(cluster, members)
        assert share(cluster, having(members, given, 9)) == given


def test_what_is_sent_goes_the_cheapest_way() -> None:
    """A network sends back what it sent too soon, if that makes room for something cheaper."""
    network = Network()
    source, left, right, sink = (network.node() for _ in range(4))
    network.link(source, left, 1)
    network.link(source, right, 1)
    direct = network.link(left, sink, 1)
    across = network.link(left, right, 1, 5)
    network.link(right, left, 1, 1)
    late = network.link(right, sink, 1, 9)
    assert network.fill(source, sink, looks_max=1000)
    assert [network.sent(link) for link in (direct, across, late)] == [1, 0, 1]


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
    """How many partitions are far from the members that they are given to."""
    given = share(cluster, members)
    return far(cluster, members, {name: flatten(each) for name, each in given.items()})


equal_or_not = pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])


@equal_or_not
@pytest.mark.parametrize("replicas", [2, 3])
def test_all_are_near_where_each_has_several_replicas(*, equal: bool, replicas: int) -> None:
    """Two replicas in three racks are enough for all partitions to be near, and even."""
    assert far_in(spread(replicas, RACKS), three(equal=equal)) == 0


def test_all_are_near_to_equal_members_with_one_replica() -> None:
    """With one member and a third of the partitions in each rack, all fits."""
    assert far_in(spread(1, RACKS), three()) == 0


def test_differing_members_come_as_near_as_they_can() -> None:
    """Near to the third there are 3 that it wants; it has 2 far ones, and so have the others.

    There are 2 of the second topic in its rack, and those have to go elsewhere.
    """
    assert far_in(spread(1, RACKS), three(equal=False)) == 4


@equal_or_not
def test_rack_without_replicas_gets_its_share(*, equal: bool) -> None:
    """A member with no replica near has five partitions like the others, all of them far."""
    assert far_in(spread(2, RACKS[:2]), three(equal=equal)) == 5


@equal_or_not
@pytest.mark.parametrize(
    ("where", "racks"),
    [(RACKS, [None, None, None]), (RACKS, ["d", "e", "f"]), ([], RACKS)],
    ids=["no members' racks", "other racks", "no replicas' racks"],
)
def test_racks_with_nothing_in_common(
    *, equal: bool, where: Sequence[str], racks: Sequence[str | None]
) -> None:
    """Partitions go where they go without racks."""
    members = three(equal=equal, racks=racks)
    cluster = spread(1, where) if where else Cluster(COUNTS)
    assert share(cluster, members) == share(Cluster(COUNTS), members)


def test_what_is_far_moves_near() -> None:
    """Partitions that others are nearer to are given up, and no others."""
    cluster, members = spread(1, RACKS), in_a_row(three())
    given = share(cluster, members)
    held = {name: flatten(info.owned) for name, info in members.items()}
    assert moved(members, given) == far(cluster, members, held) == 10
    assert far_in(cluster, members) == 0


def test_what_is_near_stays() -> None:
    """Nothing moves if all is near already, however it is spread."""
    members = in_a_row(three())
    assert moved(members, share(spread(3, RACKS), members)) == 0


def test_what_is_far_stays_if_nobody_is_nearer() -> None:
    """Two change places to be near; four that are near to nobody stay where they are.

    Kafka's assignor deals such partitions out anew each time that it is asked.
    """
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


def test_leaver_leaves_its_partitions_to_who_is_near() -> None:
    """What a member in rack a had goes to the other member there; nobody else moves."""
    topics = {"t": 12}
    where = {"t": [frozenset("ab"[n % 2]) for n in range(12)]}
    members = group(*(member(f"m{n}", ["t"], rack="ab"[n % 2]) for n in range(4)))
    cluster = Cluster(topics, where)
    rest = without(having(members, share(cluster, members)), "m0")
    given = share(cluster, rest)
    assert moved(rest, given) == 0
    # Four each: a's six are more than one member's share, so two of them are far.
    assert far(cluster, rest, {name: flatten(each) for name, each in given.items()}) == 2
