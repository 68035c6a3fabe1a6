"""Our client on a live daemon: scaling out and in, the death of a member, of the daemon."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.live.conftest import SETTINGS, errors_in
from tests.live.coterie_scaling import *  # noqa: F403 - the tests
from tests.live.coterie_scaling import MOST, ScalingRun
from tests.live.daemon import Daemon
from tests.support.profiles import by_profile


class _Backend(Daemon):
    """A daemon that may be killed."""

    def crash(self) -> None:
        """Kill it, and start it again with the same data."""
        self.restart(signal.SIGKILL)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Backend]:
    """Give a daemon of its own."""
    with _Backend(tmp_path_factory.mktemp("daemon"), settings=SETTINGS) as daemon:
        yield daemon
    assert errors_in(daemon.whole_log()) == []


@pytest.fixture(scope="module")  # type: ignore[no-redef]  # instead of the imported one
def most() -> int:
    """Five members show in the quick run what ten do."""
    return by_profile(quick=5, long=MOST)


def test_crash_of_the_daemon_stops_no_task_and_starts_no_rebalance(scaling: ScalingRun) -> None:
    before, after = scaling.snapshots["all but the victim"], scaling.snapshots["after the crash"]
    assert after.generation == before.generation
    assert after.runs == before.runs
    assert scaling.ended_between("all but the victim", "after the crash") == []
