"""Our client: scaling out and in, the death of a member, kill -9 of the coordinator's container."""

from __future__ import annotations

import pytest

from tests.docker.container import Container
from tests.live.coterie_scaling import *  # noqa: F403 - the tests
from tests.live.coterie_scaling import ScalingRun


@pytest.fixture(scope="module")
def backend(container: Container) -> Container:
    """Give the coordinator."""
    return container


def test_crash_of_the_container_stops_no_task_and_starts_no_rebalance(scaling: ScalingRun) -> None:
    before, after = scaling.snapshots["all but the victim"], scaling.snapshots["after the crash"]
    assert after.generation == before.generation
    assert after.runs == before.runs
    assert scaling.ended_between("all but the victim", "after the crash") == []
