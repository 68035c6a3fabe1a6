"""Large groups: the work grows with what there is to share out, not with its square."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from coterie_assignors import Cluster, CooperativeStickyAssignor, MemberInfo, Weights
from coterie_protocol.consumer import flatten
from coterie_protocol.loads import Load, LoadReport
from tests.assignors.world import having, loads, member

TOPICS = [f"t{n:02}" for n in range(40)]


def lines_run(
    cluster: Cluster, members: dict[str, MemberInfo], weights: Weights | None = None
) -> int:
    """How many lines of Python one assignment runs: a measure that no busy machine disturbs."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # the stub wants a recursive type
    try:
        CooperativeStickyAssignor(weights).assign(cluster, members)
    finally:
        sys.settrace(before)
    return count


def big(size: int, *, equal: bool) -> tuple[dict[str, int], dict[str, MemberInfo]]:
    """A group of `size` members with ten partitions each, where three have just left."""
    topics = dict.fromkeys(TOPICS, size // 4)
    members = {
        f"m{n:04}": member(
            f"m{n:04}", [t for i, t in enumerate(TOPICS) if equal or (n * 7 + i * 3) % 5 > 1]
        )
        for n in range(size)
    }
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    for gone in ("m0003", "m0017", "m0030"):
        del settled[gone]
    return topics, settled


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])
def test_work_grows_linearly_with_the_group(*, equal: bool) -> None:
    groups = (big(size, equal=equal) for size in (80, 320))
    small, large = (lines_run(Cluster(topics), members) for topics, members in groups)
    assert large < 6 * small


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])
def test_work_grows_linearly_with_the_group_that_balances_loads(*, equal: bool) -> None:
    def telling(info: MemberInfo) -> MemberInfo:
        told = {pair: Load(1.0 + pair[1] * 7 % 11, 10**7) for pair in flatten(info.owned)}
        return replace(info, loads=LoadReport(told))

    counts = []
    for size in (80, 320):
        topics, members = big(size, equal=equal)
        uneven = {name: telling(info) for name, info in members.items()}
        uneven["new"] = member("new", TOPICS)
        counts.append(lines_run(Cluster(topics), uneven, Weights()))
    assert counts[1] < 6 * counts[0]


def with_racks(
    topics: dict[str, int], members: dict[str, MemberInfo], replicas: int
) -> tuple[Cluster, dict[str, MemberInfo]]:
    """The same group, in three racks that it has not looked at before."""
    where = [frozenset({f"r{(n + step) % 3}" for step in range(replicas)}) for n in range(3)]
    racks = {topic: [where[n % 3] for n in range(count)] for topic, count in topics.items()}
    return Cluster(topics, racks), {
        name: replace(info, rack=f"r{place % 3}")
        for place, (name, info) in enumerate(members.items())
    }


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])
def test_work_grows_linearly_with_the_group_in_racks(*, equal: bool) -> None:
    groups = (with_racks(*big(size, equal=equal), replicas=1) for size in (80, 320))
    small, large = (lines_run(*each) for each in groups)
    assert large < 8 * small


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])
def test_racks_that_make_no_difference_take_hardly_any_work(*, equal: bool) -> None:
    topics, members = big(160, equal=equal)
    plain = lines_run(Cluster(topics), members)
    assert lines_run(*with_racks(topics, members, replicas=3)) < 1.1 * plain


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "differing"])
def test_hundred_thousand_partitions_are_assigned_evenly(*, equal: bool) -> None:
    topics = dict.fromkeys(TOPICS, 2500)
    members = {
        f"m{n:03}": member(f"m{n:03}", TOPICS if equal or n else TOPICS[:1]) for n in range(500)
    }
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert set(loads(given).values()) == {200}
