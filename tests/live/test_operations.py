"""Drains, pins and freezes of real workers, by command, through the death of their coordinator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_client.assignors import CooperativeStickyAssignor, RangeAssignor
from coterie_protocol.journal import RebalanceCompleted, read_line
from tests.live.commands import CommandRunner
from tests.live.daemon import Daemon, environment, eventually

pytestmark = pytest.mark.slow

#: A worker of the group `jobs` with a name of its own.
_WORKER: Final = """
import asyncio, sys
from coterie_client import Group
from coterie_client.assignors import CooperativeStickyAssignor, RangeAssignor

address, name, assignor = sys.argv[1:]

async def work(partition):
    await asyncio.sleep(600)

async def main():
    async with Group(address, "jobs", topics=["jobs"], instance=name, session_timeout=6,
                     heartbeat_interval=0.3, assignors=[globals()[assignor]()]) as group:
        await group.run(work)

asyncio.run(main())
"""

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 1_000,
    "group.freeze.max.ms": 60_000,
}


class Workers:
    """A daemon with workers, and commands to them."""

    def __init__(self, daemon: Daemon, assignor: str) -> None:
        self.daemon = daemon
        self._assignor = assignor
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.commands = CommandRunner(daemon.address)

    def start(self, *names: str) -> None:
        """Start workers."""
        for name in names:
            words = [sys.executable, "-c", _WORKER, self.daemon.address, name, self._assignor]
            self._processes[name] = subprocess.Popen(words, env=environment())

    def kill(self, *names: str) -> None:
        """`kill -9`."""
        for name in names or list(self._processes):
            process = self._processes.pop(name)
            process.kill()
            process.wait()

    def described(self) -> Mapping[str, Any]:
        """The group, as `groups describe` shows it."""
        found: Mapping[str, Any] = self.commands.json("groups", "describe", "jobs")
        return found

    def shares(self) -> dict[str, int]:
        """How many partitions each worker has, once that is settled."""
        found: dict[str, int] = {}

        def are_settled() -> bool:
            group = self.described()
            found.clear()
            found.update({m["instance"]: len(m["owned"].get("jobs", ())) for m in group["members"]})
            return group["state"] == "Stable" and sum(found.values()) == 12

        eventually(are_settled, lambda: f"settled: {found}")
        return found

    def until(self, shares: Mapping[str, int]) -> None:
        """Wait until the workers have so many partitions."""
        eventually(lambda: self.shares() == shares, lambda: f"{shares}, got {self.shares()}")

    def owned(self, name: str) -> set[int]:
        """What a worker has."""
        members = {each["instance"]: each for each in self.described()["members"]}
        return set(members[name]["owned"].get("jobs", ()))


@contextmanager
def at_work(folder: Path, assignor: str = "CooperativeStickyAssignor") -> Iterator[Workers]:
    """Three workers with four partitions each."""
    with Daemon(folder, settings=SETTINGS, topics={"jobs": 12}) as daemon:
        workers = Workers(daemon, assignor)
        try:
            workers.start("w1", "w2", "w3")
            workers.commands.told("topics", "list")
            eventually(lambda: len(_members(workers)) == 3, "three members")
            workers.until({"w1": 4, "w2": 4, "w3": 4})
            yield workers
        finally:
            workers.kill()


def _members(workers: Workers) -> list[Any]:
    listed = workers.commands.json("groups", "list")
    return [] if not listed else list(workers.described()["members"])


def journal(daemon: Daemon) -> Iterator[Any]:
    """The events that the daemon has written down."""
    for path in sorted((daemon.data_dir / "journal").glob("*.jsonl")):
        with path.open("rb") as lines:
            yield from (read_line(line).event for line in lines)


@pytest.mark.parametrize("assignor", [CooperativeStickyAssignor.__name__, RangeAssignor.__name__])
def test_a_drained_worker_gives_up_all_and_gets_it_back(tmp_path: Path, assignor: str) -> None:
    with at_work(tmp_path, assignor) as workers:
        told = workers.commands.told(
            "groups", "drain", "jobs", "--instance", "w2", "--reason", "disk errors"
        )
        assert "w2 is drained" in told
        assert "disk errors" in told
        workers.until({"w1": 6, "w2": 0, "w3": 6})
        assert "w2 is drained, has 0 partitions left" in workers.commands.told(
            "groups", "describe", "jobs"
        )
        why = workers.commands.told("groups", "why", "jobs", "--last", "9")
        assert "an administrator drained a member, or let it work again" in why
        assert "disk errors" in why
        # Neither a new process of its name nor a new coordinator lets it work again.
        workers.daemon.kill()
        workers.kill("w2")
        workers.start("w2")
        workers.daemon.start()
        workers.until({"w1": 6, "w2": 0, "w3": 6})
        workers.commands.told("groups", "undrain", "jobs", "--instance", "w2")
        workers.until({"w1": 4, "w2": 4, "w3": 4})
        assert workers.described()["operations"] == []


def test_it_gives_them_up_one_after_another(tmp_path: Path) -> None:
    with at_work(tmp_path) as workers:
        workers.commands.told("groups", "drain", "jobs", "--instance", "w2", "--at-a-time", "1")
        workers.until({"w1": 6, "w2": 0, "w3": 6})
        names = {each["member"]: each["instance"] for each in workers.described()["members"]}
    counts = [
        {names[m]: len(owned.get("jobs", ())) for m, owned in event.assigned.items()}
        for event in journal(workers.daemon)
        if isinstance(event, RebalanceCompleted) and event.assigned is not None
    ]
    since = counts.index({"w1": 4, "w2": 4, "w3": 4})
    drained = [each["w2"] for each in counts[since:]]
    assert drained == [4, 3, 2, 1, 0, 0]
    assert min(sum(each.values()) for each in counts[since:]) == 11
    assert all(after - before in (0, -1) for before, after in pairwise(drained))


def test_pins_and_keep_froms_hold_while_workers_come_and_go(tmp_path: Path) -> None:
    with at_work(tmp_path) as workers:
        run = workers.commands.told
        taken = sorted(workers.owned("w1"))[:2]
        chosen = ",".join(map(str, taken))
        run("groups", "pin", "jobs", "--topic", f"jobs:{chosen}", "--instance", "w3")
        eventually(lambda: set(taken) <= workers.owned("w3"), "the pinned partitions")
        workers.until({"w1": 4, "w2": 4, "w3": 4})
        run("groups", "keep-from", "jobs", "--topic", "jobs:11", "--instance", "w1")
        workers.kill("w3")
        eventually(lambda: len(workers.described()["members"]) == 2, "its session's end", 90)
        workers.until({"w1": 6, "w2": 6})
        assert 11 in workers.owned("w2")
        workers.start("w3")
        workers.until({"w1": 4, "w2": 4, "w3": 4})
        assert set(taken) <= workers.owned("w3")
        run("groups", "unpin", "jobs", "--topic", "jobs:0-11")
        assert workers.described()["operations"] == []


def test_nothing_moves_in_a_frozen_group_but_what_the_dead_had(tmp_path: Path) -> None:
    with at_work(tmp_path) as workers:
        before = {name: workers.owned(name) for name in ("w1", "w2", "w3")}
        run = workers.commands.told
        assert "It is frozen until" in run("groups", "freeze", "jobs", "--for", "60s")
        assert "is frozen" in workers.commands.refused(
            "groups", "drain", "jobs", "--instance", "w1"
        )
        workers.start("w4")
        workers.until({"w1": 4, "w2": 4, "w3": 4, "w4": 0})
        workers.daemon.kill()
        workers.daemon.start()
        run("members", "remove", "jobs", "--instance", "w3")
        workers.kill("w3")
        workers.until({"w1": 6, "w2": 6, "w4": 0})
        assert workers.owned("w1") > before["w1"]
        assert workers.owned("w2") > before["w2"]
        run("groups", "unfreeze", "jobs")
        workers.until({"w1": 4, "w2": 4, "w4": 4})


def test_group_of_other_clients_is_refused_by_its_leaders_name(tmp_path: Path) -> None:
    program = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "jobs", "client.id": "stock"})
consumer.subscribe(["jobs"])
while True:
    consumer.poll(0.5)
"""
    with Daemon(tmp_path, settings=SETTINGS, topics={"jobs": 12}) as daemon:
        words = [sys.executable, "-c", program, daemon.address]
        with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL) as stock:
            try:
                commands = CommandRunner(daemon.address)
                workers = Workers(daemon, "")
                eventually(lambda: len(_members(workers)) == 1, "the member")
                eventually(lambda: workers.described()["state"] == "Stable", "its share")
                said = commands.refused("groups", "freeze", "jobs")
            finally:
                stock.kill()
    assert "client 'stock' at 127.0.0.1, which does not follow operations" in said
