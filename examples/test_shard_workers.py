"""Tests of `shard_workers.py`: what happens to its jobs when workers die or freeze.

    pytest examples/test_shard_workers.py

The fixture `coterie_cluster` comes with Coterie: a coordinator and its clients in this process, in
virtual time that passes only when all of them are idle. It needs no daemon and takes no time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from coterie_testing.kit import Cluster
from examples.shard_workers import SHARDS, TOPIC, Jobs, join, work

JOBS = 240


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Callable[[], Jobs]]:
    """Open the same table of jobs several times, as several processes would."""
    opened: list[Jobs] = []

    def open_table() -> Jobs:
        opened.append(Jobs(tmp_path / "jobs.db"))
        return opened[-1]

    open_table().fill(JOBS)
    yield open_table
    for table in opened:
        table.close()


async def worker(bootstrap: str, jobs: Jobs) -> None:
    """The program without its process: no signals, no arguments."""
    async with join(bootstrap) as group:
        await group.run(partial(work, jobs=jobs))


def test_death_of_a_worker_loses_nothing(
    coterie_cluster: Callable[..., Cluster], tables: Callable[[], Jobs]
) -> None:
    """The other worker does the rest once the session of the dead one is over."""
    cluster, jobs = coterie_cluster({TOPIC: SHARDS}), tables()
    victim, _ = (cluster.start(n, worker(cluster.bootstrap, tables())) for n in ("a", "b"))
    cluster.run_until(lambda: jobs.left() < JOBS)

    victim.kill()
    cluster.run(seconds=10)
    assert jobs.left() > 0  # its session lasts 45 seconds
    cluster.run_until(lambda: jobs.left() == 0)


@pytest.mark.parametrize("seed", range(3))
def test_late_results_of_a_former_owner_are_refused(
    coterie_cluster: Callable[..., Cluster],
    tables: Callable[[], Jobs],
    caplog: pytest.LogCaptureFixture,
    seed: int,
) -> None:
    """A worker freezes in the middle of its work, as on a laptop whose lid is closed."""
    cluster, jobs = coterie_cluster({TOPIC: SHARDS}, seed=seed), tables()
    sleeper = cluster.start("sleeper", worker(cluster.bootstrap, tables()))
    cluster.run_until(lambda: jobs.left() < JOBS)

    sleeper.pause(seconds=120)
    cluster.start("other", worker(cluster.bootstrap, tables()))
    cluster.run_until(lambda: jobs.left() == 0)
    assert not refusals(caplog)  # the sleeper is still asleep
    cluster.run(seconds=120)
    assert refusals(caplog)


def refusals(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The client's log lines of tasks that failed because the table refused their results."""
    return [line for line in caplog.records if "FormerOwnerError" in line.getMessage()]
