"""What a daemon knows of its groups' rebalances after it was killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.live.commands import CommandRunner
from tests.live.daemon import Daemon, eventually


@pytest.mark.slow
def test_killed_daemon_still_says_why_its_groups_rebalanced(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Daemon(tmp_path, topics={"orders": 3}, settings=settings) as daemon:
        commands = CommandRunner(daemon.address, daemon.http_port)
        with commands.static_member():
            commands.run("groups", "rebalance", "static")
            eventually(
                lambda: commands.json("groups", "describe", "static")["state"] == "Stable",
                "the rebalance",
            )
            before, told = daemon.group("static"), commands.told("groups", "why", "static")
            assert len(before["rebalances"]) == 2
            line = '"kind":"rebalance_completed"'
            journal = daemon.data_dir / "journal"
            eventually(
                lambda: sum(path.read_text().count(line) for path in journal.iterdir()) == 2,
                "the flush",
            )
            daemon.restart(signal.SIGKILL)
            after = daemon.group("static")
            commands = CommandRunner(daemon.address, daemon.http_port)
            assert after["generation"] == before["generation"]
            assert after["rebalances"] == before["rebalances"]
            assert after["history"]["limit"] == "complete"
            assert commands.told("groups", "why", "static") == told
