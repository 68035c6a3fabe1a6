"""Our client: scaling out and in, the death of a member, kill -9 of the coordinator's container."""

from __future__ import annotations

import pytest

from tests.docker.container import Container
from tests.live.coterie_life import *  # noqa: F403 - the tests
from tests.live.coterie_life import Life


@pytest.fixture(scope="module")
def backend(container: Container) -> Container:
    """Give the coordinator."""
    return container


def test_crash_of_the_container_stops_nobody(life: Life) -> None:
    """The container was killed and came back: no rebalance, and no task was stopped."""
    before, after = life.snapshots["nine"], life.snapshots["after the crash"]
    assert after.generation == before.generation
    assert after.runs == before.runs
    assert life.ended_between("nine", "after the crash") == []
