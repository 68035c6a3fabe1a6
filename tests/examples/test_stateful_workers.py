"""examples/stateful_workers.py against a daemon, and its own test file."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from examples.stateful_workers import SHARDS, Log
from tests.examples.program import EXAMPLES, Program
from tests.live.daemon import Daemon, environment, eventually

pytestmark = pytest.mark.slow


def begun(program: Program) -> list[int]:
    """How far behind each shard was that a program has begun to work on."""
    return [int(behind) for behind in re.findall(r"begins, (\d+) payments behind", program.log)]


def test_second_worker_takes_over_warm(daemon: Daemon, tmp_path: Path) -> None:
    words = ("--bootstrap", daemon.address, "--log", str(tmp_path / "payments.db"))
    with Program(tmp_path, "stateful_workers.py", *words, "--state", "a") as first:
        with closing(Log(tmp_path / "payments.db")) as log:
            eventually(lambda: bool(log.refused()), "the first refusals")
        eventually(lambda: len(begun(first)) == SHARDS, "all shards of the first worker")
        with Program(tmp_path, "stateful_workers.py", *words, "--state", "b") as second:
            eventually(lambda: len(begun(second)) == SHARDS // 2, "half of the shards")
            assert max(begun(second)) <= 100
            second.stop()
        first.stop()
    assert {path.name for path in (tmp_path / "b").glob("*.db")}


def test_test_file_beside_the_example_passes() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command.append("examples/test_stateful_workers.py")
    done = subprocess.run(
        command,
        cwd=EXAMPLES.parent,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
