"""examples/custom_assignors.py runs, and its assignors do what they say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie_client.assignors import Cluster, MemberInfo, lead
from coterie_protocol.consumer import flatten

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_assignors.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """What the example defines."""
    return runpy.run_path(str(EXAMPLE))


def members(*names: str) -> dict[str, MemberInfo]:
    """Static members that want one topic."""
    return {n: MemberInfo(member_id=n, instance_id=n, topics=["jobs"]) for n in names}


def test_canary_gets_one(example: dict[str, Any]) -> None:
    """The others share the rest evenly."""
    group = members("canary-1", "worker-1", "worker-2")
    led = lead(example["CanaryAssignor"](), Cluster({"jobs": 9}), group)
    counts = {name: len(flatten(partitions)) for name, partitions in led.assignment.items()}
    assert counts == {"canary-1": 1, "worker-1": 4, "worker-2": 4}


def test_canaries_alone_do_all_the_work(example: dict[str, Any]) -> None:
    """There is nobody else."""
    led = lead(example["CanaryAssignor"](), Cluster({"jobs": 4}), members("canary-1", "canary-2"))
    assert sum(len(flatten(partitions)) for partitions in led.assignment.values()) == 4


def test_lag_comes_out_even(example: dict[str, Any]) -> None:
    """Whoever has the worst partition has nothing else."""
    lag = {("jobs", number): 10**number for number in range(4)}
    assignor = example["LeastLagAssignor"](lag)
    led = lead(assignor, Cluster({"jobs": 4}), members("a", "b"))
    assert {flatten(partitions) for partitions in led.assignment.values()} == {
        frozenset({("jobs", 3)}),
        frozenset({("jobs", 0), ("jobs", 1), ("jobs", 2)}),
    }


def test_it_runs() -> None:
    """And shows what both decide."""
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert "canary:\n  canary-1   0\n" in done.stdout
    assert "least-lag:" in done.stdout
