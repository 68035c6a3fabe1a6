"""examples/shard_workers.py against a daemon, and its own test file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from examples.shard_workers import SHARDS, FormerOwnerError, Jobs
from tests.examples.program import EXAMPLES, Program
from tests.live.daemon import Daemon, environment, eventually

pytestmark = pytest.mark.slow

JOBS = 2_400


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """A table of jobs."""
    with closing(Jobs(tmp_path / "jobs.db")) as table:
        table.fill(JOBS)
        yield table


def test_all_jobs_are_done_though_workers_come_and_go(
    daemon: Daemon, jobs: Jobs, tmp_path: Path
) -> None:
    # Each has the right result, and the last of each shard is committed.
    words = ("--bootstrap", daemon.address, "--database", str(tmp_path / "jobs.db"))
    with Program(tmp_path, "shard_workers.py", *words) as first:
        eventually(lambda: jobs.left() < JOBS, "the first results")
        with Program(tmp_path, "shard_workers.py", *words) as second:
            eventually(lambda: "begins" in second.log, "shards of the second one")
            first.stop()
            eventually(lambda: jobs.left() == 0, "all results")
            second.stop()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        results = dict(db.execute("SELECT payload, result FROM jobs").fetchall())
    assert len(results) == JOBS
    assert all(hashlib.sha256(p.encode()).hexdigest() == r for p, r in results.items())
    committed = _offsets(daemon, "workers")
    assert {number % SHARDS for number in committed} == set(range(SHARDS))
    assert committed == set(range(JOBS - SHARDS + 1, JOBS + 1))


def _offsets(daemon: Daemon, group: str) -> set[int]:
    words = ("offsets", "show", group, "--json", "--bootstrap", daemon.address)
    shown = json.loads(CliRunner().invoke(app, words).stdout)
    return {each["offset"] for each in shown.values()}


def test_table_refuses_a_write_of_a_former_owner(jobs: Jobs) -> None:
    jobs.store(1, token=7, results={1: "first"})
    jobs.store(1, token=7, results={13: "of the same owner"})
    jobs.store(1, token=9, results={})
    with pytest.raises(FormerOwnerError, match="token above 7"):
        jobs.store(1, token=7, results={25: "too late"})
    jobs.store(2, token=3, results={2: "another shard's"})
    assert jobs.left() == JOBS - 3


def test_test_file_beside_the_example_passes() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command.append("examples/test_shard_workers.py")
    done = subprocess.run(
        command,
        cwd=EXAMPLES.parent,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
