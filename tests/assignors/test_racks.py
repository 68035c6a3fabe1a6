"""The range assignor prefers members near a replica (KIP-881), as Kafka's does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import Cluster, MemberInfo, RangeAssignor
from coterie_protocol.consumer import flatten
from tests.assignors.world import assert_valid, assigned, group, loads, member

RACKS = ["r0", "r1", "r2"]


def near(members: dict[str, MemberInfo], cluster: Cluster) -> dict[str, list[int]]:
    """What numbers of topic t each member is given."""
    given = RangeAssignor().assign(cluster, members)
    return {name: sorted(n for t, n in flatten(given[name]) if t == "t") for name in members}


def racks(*names: str) -> list[frozenset[str]]:
    """One replica per partition, in these racks."""
    return [frozenset({name}) for name in names]


def test_partition_goes_to_a_member_in_its_rack() -> None:
    members = group(member("a", ["t"], rack="r1"), member("b", ["t"], rack="r0"))
    cluster = Cluster({"t": 4}, {"t": racks("r0", "r1", "r0", "r1")})
    assert near(members, cluster) == {"a": [1, 3], "b": [0, 2]}


def test_balance_comes_before_racks() -> None:
    members = group(member("a", ["t"], rack="r0"), member("b", ["t"], rack="r1"))
    cluster = Cluster({"t": 4}, {"t": racks("r0", "r0", "r0", "r0")})
    assert near(members, cluster) == {"a": [0, 1], "b": [2, 3]}


def test_partitions_are_local_to_a_member_without_rack() -> None:
    members = group(member("a", ["t"]), member("b", ["t"], rack="r0"))
    cluster = Cluster({"t": 4}, {"t": racks("r1", "r0", "r1", "r0")})
    assert near(members, cluster) == {"a": [0, 1], "b": [2, 3]}


def test_racks_with_nothing_in_common_change_nothing() -> None:
    members = group(member("a", ["t"], rack="x"), member("b", ["t"], rack="y"))
    cluster = Cluster({"t": 3}, {"t": racks("r0", "r1", "r2")})
    assert near(members, cluster) == {"a": [0, 1], "b": [2]}


def test_topics_cut_alike_are_assigned_together_by_rack() -> None:
    members = group(member("a", ["t", "u"], rack="r1"), member("b", ["t", "u"], rack="r0"))
    where = racks("r0", "r1", "r0", "r1")
    cluster = Cluster({"t": 4, "u": 4}, {"t": where, "u": where})
    given = RangeAssignor().assign(cluster, members)
    assert {name: flatten(partitions) for name, partitions in given.items()} == {
        "a": {("t", 1), ("t", 3), ("u", 1), ("u", 3)},
        "b": {("t", 0), ("t", 2), ("u", 0), ("u", 2)},
    }


@given(data=st.data())
def test_racks_never_cost_balance(data: st.DataObject) -> None:
    topics = data.draw(st.dictionaries(st.sampled_from("tuv"), st.integers(1, 8), min_size=1))
    rack = st.none() | st.sampled_from(RACKS)
    members = group(*(member(f"m{n}", sorted(topics), rack=data.draw(rack)) for n in range(1, 5)))
    where = {
        topic: [
            frozenset(data.draw(st.sets(st.sampled_from(RACKS), max_size=3))) for _ in range(count)
        ]
        for topic, count in topics.items()
    }
    given = RangeAssignor().assign(Cluster(topics, where), members)
    assert_valid(topics, members, given)
    plain = assigned(RangeAssignor(), topics, members)
    sizes = sorted(loads(given).values())
    if len(topics) == 1:
        assert sizes == sorted(len(pairs) for pairs in plain.values())
    assert sum(sizes) == sum(topics.values())
