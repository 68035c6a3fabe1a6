"""examples/custom_assignors.py runs, and its assignors do what they say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie_assignors import Cluster as Topics
from coterie_assignors import MemberInfo, lead
from coterie_client import Group
from coterie_protocol.consumer import flatten
from coterie_testing.kit import Cluster
from examples.custom_assignors import CanaryAssignor, LeastLagAssignor

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_assignors.py"


def members(*names: str) -> dict[str, MemberInfo]:
    """Static members that want one topic."""
    return {n: MemberInfo(member_id=n, instance_id=n, topics=["jobs"]) for n in names}


def test_canary_gets_one() -> None:
    group = members("canary-1", "worker-1", "worker-2")
    led = lead(CanaryAssignor(), Topics({"jobs": 9}), group)
    counts = {name: len(flatten(partitions)) for name, partitions in led.assignment.items()}
    assert counts == {"canary-1": 1, "worker-1": 4, "worker-2": 4}


def test_canaries_without_others_get_everything() -> None:
    led = lead(CanaryAssignor(), Topics({"jobs": 4}), members("canary-1", "canary-2"))
    assert sum(len(flatten(partitions)) for partitions in led.assignment.values()) == 4


def test_worst_partition_is_alone_with_its_member() -> None:
    lag = {("jobs", number): 10**number for number in range(4)}
    assignor = LeastLagAssignor(lag)
    led = lead(assignor, Topics({"jobs": 4}), members("a", "b"))
    assert {flatten(partitions) for partitions in led.assignment.values()} == {
        frozenset({("jobs", 3)}),
        frozenset({("jobs", 0), ("jobs", 1), ("jobs", 2)}),
    }


def test_members_tell_the_leader_their_lag(coterie_cluster: Callable[..., Cluster]) -> None:
    cluster = coterie_cluster({"jobs": 4})
    lags: dict[str, dict[tuple[str, int], int]] = {"a": {}, "b": {}}
    groups: dict[str, Group] = {}

    async def member(name: str) -> None:
        assignors = [LeastLagAssignor(lags[name])]
        async with Group(cluster.bootstrap, "g", topics=["jobs"], assignors=assignors) as group:
            groups[name] = group
            await group.run(lambda _: asyncio.sleep(float("inf")))

    def shares() -> list[list[int]]:
        return sorted(sorted(each.number for each in group.owned) for group in groups.values())

    for name in lags:
        cluster.start(name, member(name))
    cluster.run_until(lambda: [len(share) for share in shares()] == [2, 2])
    for name, group in groups.items():
        lags[name] |= {each.key: 10**each.number for each in group.owned}

    groups["b"].rejoin("the lags differ")
    cluster.run_until(lambda: shares() == [[0, 1, 2], [3]])


def test_program_prints_both_assignments() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert "canary:\n  canary-1   0\n" in done.stdout
    assert "least-lag:" in done.stdout
