"""Range and round robin give exactly what Kafka's assignors of these names give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    Assignor,
    Cluster,
    MemberInfo,
    RangeAssignor,
    RoundRobinAssignor,
    in_kafka_order,
)
from tests.assignors.rivals import ask_aiokafka, ask_kafka_python
from tests.assignors.world import assert_valid, assigned, group, having, member

TOPICS = ["t0", "t1", "t2", "t10"]
BOTH: list[Assignor] = [RangeAssignor(), RoundRobinAssignor()]

clusters = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
subscriptions = st.lists(st.sampled_from(TOPICS), unique=True, max_size=4)
groups = st.dictionaries(
    st.sampled_from(["m1", "m10", "m2", "n", "o"]), subscriptions, min_size=1
).map(lambda wanted: {name: member(name, topics) for name, topics in wanted.items()})


def names(assignor: Assignor) -> str:
    """Name a test's case."""
    return assignor.name


both = pytest.mark.parametrize("assignor", BOTH, ids=names)


@both
@given(topics=clusters, members=groups)
def test_same_as_aiokafka(
    assignor: Assignor, topics: dict[str, int], members: dict[str, MemberInfo]
) -> None:
    assert assigned(assignor, topics, members) == ask_aiokafka(assignor.name, topics, members)


@both
@given(topics=clusters, count=st.integers(1, 7), static=st.booleans())
def test_same_as_kafka_python(
    *, assignor: Assignor, topics: dict[str, int], count: int, static: bool
) -> None:
    # kafka-python can't do differing subscriptions (round robin raises), and loses some members
    # where static and dynamic ones are mixed.
    ids = [f"m{(7 * n) % 10}" for n in range(count)]
    members = group(*(member(i, TOPICS, instance_id=i[::-1] if static else None) for i in ids))
    assert assigned(assignor, topics, members) == ask_kafka_python(assignor.name, topics, members)


@both
@given(topics=clusters, members=groups)
def test_every_partition_goes_to_one_subscriber(
    assignor: Assignor, topics: dict[str, int], members: dict[str, MemberInfo]
) -> None:
    assert_valid(topics, members, assignor.assign(Cluster(topics), members))


@both
def test_topic_without_partitions_is_passed_over(assignor: Assignor) -> None:
    members = group(member("m", ["gone", "empty", "t0"]))
    assert assigned(assignor, {"t0": 1, "empty": 0}, members) == {"m": {("t0", 0)}}


@both
def test_member_without_topics_is_in_the_answer(assignor: Assignor) -> None:
    given = assigned(assignor, {"t0": 2}, group(member("idle", []), member("m", ["t0"])))
    assert given == {"idle": set(), "m": {("t0", 0), ("t0", 1)}}


@both
def test_topic_named_twice_counts_once(assignor: Assignor) -> None:
    members = group(member("a", ["t0", "t0"]), member("b", ["t0"]))
    given = assigned(assignor, {"t0": 4}, members)
    assert [len(pairs) for pairs in given.values()] == [2, 2]


def test_range_gives_the_first_members_the_longer_runs() -> None:
    given = assigned(RangeAssignor(), {"t": 7}, group(*(member(n, ["t"]) for n in "cab")))
    runs = {name: sorted(number for _, number in pairs) for name, pairs in given.items()}
    assert runs == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_round_robin_skips_who_did_not_subscribe() -> None:
    members = group(
        member("c0", ["t0"]), member("c1", ["t0", "t1"]), member("c2", ["t0", "t1", "t2"])
    )
    given = assigned(RoundRobinAssignor(), {"t0": 1, "t1": 2, "t2": 3}, members)
    assert given == {
        "c0": {("t0", 0)},
        "c1": {("t1", 0)},
        "c2": {("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)},
    }


@both
def test_static_members_keep_their_partitions_under_new_ids(assignor: Assignor) -> None:
    before = group(*(member(f"m{n}", ["t0", "t1"], instance_id=f"i{n}") for n in range(3)))
    after = group(*(member(f"x{9 - n}", ["t0", "t1"], instance_id=f"i{n}") for n in range(3)))
    topics = {"t0": 5, "t1": 4}
    first, second = assigned(assignor, topics, before), assigned(assignor, topics, after)
    assert [first[f"m{n}"] for n in range(3)] == [second[f"x{9 - n}"] for n in range(3)]


def test_static_members_come_first() -> None:
    members = [
        member("a", []),
        member("z", [], instance_id="i1"),
        member("b", []),
        member("y", [], instance_id="i2"),
    ]
    assert [found.member_id for found in in_kafka_order(members)] == ["z", "y", "a", "b"]


def test_names_sort_as_java_sorts_them() -> None:
    """Java compares UTF-16 units, so what is beyond the basic plane comes before U+FFxx."""
    order = in_kafka_order([member("\uff5e", []), member("\U0001f600", [])])
    assert [found.member_id for found in order] == ["\U0001f600", "\uff5e"]


@both
def test_owned_partitions_do_not_matter(assignor: Assignor) -> None:
    members = group(member("a", ["t0"]), member("b", ["t0"]))
    owned = having(members, {"b": assignor.assign(Cluster({"t0": 3}), members)["a"]})
    assert assigned(assignor, {"t0": 3}, owned) == assigned(assignor, {"t0": 3}, members)
