"""A daemon and workers that are suspended for a while, by SIGSTOP: nobody is blamed for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import pytest

from coterie_protocol.journal import Event, Line, MemberGone, NodePaused, RebalanceStarted
from coterie_server.journal import read_journal
from tests.live.daemon import Daemon, eventually
from tests.live.member import KAFKA_PYTHON_COOPERATIVE
from tests.live.team import Snapshot, Team

pytestmark = pytest.mark.slow

E = TypeVar("E", bound=Event)

#: The shortest that a daemon allows without being told otherwise.
SESSION_S: Final = 6.0
#: Longer than a session, and than a lease.
TOO_LONG_S: Final = 9.0
#: Longer than the lease of a member that sends heartbeats all the time, and not than its session.
NEARLY_TOO_LONG_S: Final = 5.6


class Stay:
    """A group of our client and a stock one on a daemon, before and after something befell it."""

    def __init__(self, daemon: Daemon, team: Team) -> None:
        self.daemon = daemon
        self.team = team
        options = {"session_ms": int(SESSION_S * 1000)}
        self.ours = team.work("ours", **options)
        team.settle(self.ours)
        self.stock = team.start(KAFKA_PYTHON_COOPERATIVE, "stock", **options)
        self.before = self.calm()
        self.began_ms = time.time() * 1000

    def calm(self) -> Snapshot:
        """Wait until both are at work, and nobody stirs any more."""
        return self.team.calm(self.ours, self.stock)

    def journal(self, kind: type[E]) -> list[E]:
        """What the journal says of a kind, since it began."""
        lines = read_journal(self.daemon.data_dir / "journal")
        return [
            line.event
            for line in lines
            if isinstance(line, Line) and line.ts >= self.began_ms and isinstance(line.event, kind)
        ]

    def check_nothing_moved(self) -> None:
        """Everybody has what it had, in the same generation; no line tells anything else."""
        after = self.calm()
        assert after.holders == self.before.holders
        assert after.generation == self.before.generation
        assert self.journal(MemberGone) == []
        assert self.journal(RebalanceStarted) == []


@pytest.fixture
def stay(tmp_path: Path) -> Iterator[Stay]:
    """Give a daemon of its own, and the group on it."""
    with (
        Daemon(tmp_path / "daemon", settings={"group.initial.rebalance.delay.ms": 0}) as daemon,
        Team(daemon.address, "suspended", tmp_path, partitions=4) as team,
    ):
        yield Stay(daemon, team)


def test_suspended_daemon_expels_nobody(stay: Stay) -> None:
    """It reads the heartbeats that waited for it, and its journal and log name the pause."""
    stay.daemon.suspend(TOO_LONG_S)
    time.sleep(SESSION_S + 1.0)  # until after all sessions that nobody would have renewed
    stay.check_nothing_moved()
    eventually(lambda: stay.journal(NodePaused), "the journal names the pause")
    (paused,) = stay.journal(NodePaused)
    assert TOO_LONG_S - 1.0 < paused.paused_ms / 1000 < TOO_LONG_S + 3.0
    assert "node did not run" in stay.daemon.log()


def test_suspended_worker_goes_on(stay: Stay) -> None:
    """Its lease ran out and its session did not: it stops, asks and goes on, with no rebalance."""
    before = len(stay.ours.runs)
    stay.ours.suspend(NEARLY_TOO_LONG_S)
    stay.team.wait_for(lambda: len(stay.ours.runs) > before, "ours has begun its work anew")
    stay.check_nothing_moved()
