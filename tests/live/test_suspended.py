"""A daemon and workers that are suspended by SIGSTOP keep their group."""

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
from tests.live.portable_group import PortableGroup, Snapshot

pytestmark = pytest.mark.slow

E = TypeVar("E", bound=Event)

#: The shortest that a daemon allows without being told otherwise.
SESSION_S: Final = 6.0
#: Longer than a session, and than a lease.
TOO_LONG_S: Final = 9.0
#: Of which the last tenth, when a lease has run out, is long for a busy machine, too.
LONG_SESSION_S: Final = 30.0
#: Longer than the lease of a member that sends heartbeats all the time, and not than its session.
NEARLY_TOO_LONG_S: Final = 27.6


class Suspension:
    """A group of Coterie's client and a stock one, before and after a suspension."""

    def __init__(self, daemon: Daemon, portable_group: PortableGroup, session_s: float) -> None:
        self.daemon = daemon
        self.portable_group = portable_group
        options = {"session_ms": int(session_s * 1000)}
        self.ours = portable_group.work("ours", **options)
        portable_group.settle(self.ours)
        self.stock = portable_group.start(KAFKA_PYTHON_COOPERATIVE, "stock", **options)
        self.before = self.calm()
        self.began_ms = time.time() * 1000

    def calm(self) -> Snapshot:
        """Wait until both are at work, and nothing moves any more."""
        return self.portable_group.calm(self.ours, self.stock)

    def journal(self, kind: type[E]) -> list[E]:
        """What the journal says of a kind, since it began."""
        lines = read_journal(self.daemon.data_dir / "journal")
        return [
            line.event
            for line in lines
            if isinstance(line, Line) and line.ts >= self.began_ms and isinstance(line.event, kind)
        ]

    def check_nothing_moved(self) -> None:
        """Check that generation and ownership are what they were, also by the journal."""
        after = self.calm()
        assert after.holders == self.before.holders
        assert after.generation == self.before.generation
        assert self.journal(MemberGone) == []
        assert self.journal(RebalanceStarted) == []


@pytest.fixture
def suspension(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Suspension]:
    """Give a daemon of its own, and the group on it, with sessions that last so long."""
    with (
        Daemon(tmp_path / "daemon", settings={"group.initial.rebalance.delay.ms": 0}) as daemon,
        PortableGroup(daemon.address, "suspended", tmp_path, partitions=4) as portable_group,
    ):
        yield Suspension(daemon, portable_group, request.param)


@pytest.mark.parametrize("suspension", [SESSION_S], indirect=True)
def test_suspended_daemon_drops_no_member_and_reports_the_pause(suspension: Suspension) -> None:
    suspension.daemon.suspend(TOO_LONG_S)
    time.sleep(SESSION_S + 1.0)  # until all sessions that were not renewed have ended
    suspension.check_nothing_moved()
    eventually(lambda: suspension.journal(NodePaused), "the journal names the pause")
    (paused,) = suspension.journal(NodePaused)
    assert TOO_LONG_S - 1.0 < paused.paused_ms / 1000 < TOO_LONG_S + 30.0
    assert "node did not run" in suspension.daemon.log()


@pytest.mark.parametrize("suspension", [LONG_SESSION_S], indirect=True)
def test_suspended_worker_resumes_without_a_rebalance(suspension: Suspension) -> None:
    """Its lease ran out and its session did not."""
    before = len(suspension.ours.runs)
    suspension.ours.suspend(NEARLY_TOO_LONG_S)
    suspension.portable_group.wait_for(
        lambda: len(suspension.ours.runs) > before, "ours has begun its work anew"
    )
    suspension.check_nothing_moved()
