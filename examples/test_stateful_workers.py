"""Tests of `stateful_workers.py`: who takes over has the state, and nothing is missed.

    pytest examples/test_stateful_workers.py

The files are real; the coordinator, the network and the time are virtual, as in
`test_shard_workers.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie_testing.kit import Cluster
from coterie_testing.kit.cluster import Program
from examples.stateful_workers import SHARDS, TOPIC, Log, Worker, run

PAYMENTS = 500


class Bank:
    """A log, and workers that have folders of their own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._logs: list[Log] = []
        self.log = self._open()
        self.log.fill(PAYMENTS)

    def _open(self) -> Log:
        self._logs.append(Log(self._folder / "payments.db"))
        return self._logs[-1]

    def start(self, name: str, instance: str | None = None) -> Program:
        """Start a worker with the files of its name."""
        worker = Worker(self._open(), self._folder / name)
        return self.cluster.start(name, run(self.cluster.bootstrap, worker, instance))

    def done(self, name: str) -> set[int]:
        """The shards for which a worker's files are complete."""
        lags = Worker(self.log, self._folder / name).held()
        return {shard for (_, shard), lag in lags.items() if lag == 0}

    def expected(self) -> list[tuple[int, int]]:
        """What has to be refused, in other words than the program's."""
        refused = []
        for shard in range(SHARDS):
            balances: dict[str, int] = {}
            last = 0
            while payments := self.log.between(shard, last, PAYMENTS):
                for seq, account, amount in payments:
                    after = balances.get(account, 0) + amount
                    if after < 0:
                        refused.append((shard, seq))
                    else:
                        balances[account] = after
                last = payments[-1][0]
        return refused

    def close(self) -> None:
        """Close the files."""
        for log in self._logs:
            log.close()


@pytest.fixture
def bank(coterie_cluster: Callable[..., Cluster], tmp_path: Path) -> Iterator[Bank]:
    """Give a log of payments, and a coordinator."""
    bank = Bank(coterie_cluster({TOPIC: SHARDS}, seed=1), tmp_path)
    yield bank
    bank.close()


def begun(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    """Which shards were begun, and how far behind each of them was."""
    pattern = re.compile(r"(\S+) begins, (\d+) payments behind")
    found = [pattern.match(line.getMessage()) for line in caplog.records]
    return [(match[1], int(match[2])) for match in found if match]


def test_newcomer_takes_over_what_it_has_the_state_of(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    """The first worker goes on with everything until then."""
    caplog.set_level(logging.INFO)
    bank.start("a")
    bank.cluster.run_until(lambda: len(bank.done("a")) == SHARDS)
    assert len(begun(caplog)) == SHARDS

    bank.start("b")
    bank.cluster.run_until(lambda: len(begun(caplog)) == SHARDS + SHARDS // 2)
    assert all(behind <= 100 for _, behind in begun(caplog)[SHARDS:])
    assert bank.log.refused() == bank.expected()


def test_nothing_is_missed_when_workers_die(bank: Bank) -> None:
    """They die while they work and while they warm up."""
    first = bank.start("a")
    bank.cluster.run(seconds=0.2)
    second = bank.start("b")
    bank.cluster.run(seconds=4)
    first.kill()
    bank.cluster.run(seconds=50)
    bank.start("a")
    bank.cluster.run(seconds=3.5)
    second.kill()
    bank.cluster.run_until(lambda: bank.log.refused() == bank.expected())


def test_worker_that_comes_back_has_its_files(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """A static one has them before any other worker could fill its own."""
    caplog.set_level(logging.INFO)
    worker = bank.start("a", instance="a")
    bank.cluster.run_until(lambda: len(bank.done("a")) == SHARDS)
    worker.kill()
    bank.cluster.run(seconds=5)
    caplog.clear()
    bank.start("a", instance="a")
    bank.cluster.run_until(lambda: len(begun(caplog)) == SHARDS)
    assert all(behind == 0 for _, behind in begun(caplog))
