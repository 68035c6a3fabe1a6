"""examples/webhook_fanout.py delivers to examples/webhook_receiver.py through a rollout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.examples.program import Program
from tests.live.daemon import Daemon, eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

ENDPOINTS = 6


class Rollout:
    """Two workers, what they deliver to, and what they deliver."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self._daemon = daemon
        self._folder = folder
        self._events = folder / "events.jsonl"
        self._seen: tuple[str, int] | None = None
        port = free_port()
        self._endpoints = [f"http://127.0.0.1:{port}/hook/{n}" for n in range(ENDPOINTS)]
        self.receiver = Program(folder, "webhook_receiver.py", str(port))
        self.workers = {name: self._start(name) for name in ("worker-1", "worker-2")}

    def _start(self, name: str) -> Program:
        words = ("--bootstrap", self._daemon.address, "--events", str(self._events))
        return Program(self._folder, "webhook_fanout.py", name, *words, "--to", *self._endpoints)

    def restart(self, name: str) -> None:
        """Roll out a new version of one worker, and wait until it is at work."""
        self.workers[name].stop()
        self.workers[name] = started = self._start(name)
        eventually(lambda: "begins" in started.log, f"{name}'s return")

    def happen(self, numbers: range) -> None:
        """Let events happen, and wait until all endpoints have heard of them."""
        with self._events.open("a", encoding="utf-8") as events:
            events.writelines(f'{{"order": {number}}}\n' for number in numbers)
        eventually(lambda: self._are_delivered(numbers.stop), f"deliveries up to {numbers.stop}")

    def _are_delivered(self, count: int) -> bool:
        delivered = self.delivered()
        return len(delivered) == ENDPOINTS and all(
            max(keys) == count - 1 for keys in delivered.values()
        )

    def delivered(self) -> dict[str, list[int]]:
        """The keys of the events that each endpoint took, in order."""
        found: dict[str, list[int]] = {}
        for path, key in re.findall(
            r'^(/hook/\d) (\d+) \{"order": \d+\}$', self.receiver.log, re.MULTILINE
        ):
            found.setdefault(path, []).append(int(key))
        return found

    def group(self) -> dict[str, Any]:
        """The group as the daemon shows it."""
        return self._daemon.group("fanout")

    def is_calm(self) -> bool:
        """Whether nothing has happened since this was asked last: hand-overs take two rounds."""
        group = self.group()
        seen, self._seen = self._seen, (group["state"], group["generation"])
        return group["state"] == "Stable" and self._seen == seen

    def close(self) -> None:
        """End all of it."""
        for program in (self.receiver, *self.workers.values()):
            program.kill()


@pytest.fixture
def rollout(daemon: Daemon, tmp_path: Path) -> Iterator[Rollout]:
    """Two workers at work."""
    rollout = Rollout(daemon, tmp_path)
    yield rollout
    rollout.close()


def test_rolling_restart_delivers_in_order_without_a_rebalance(rollout: Rollout) -> None:
    # Each endpoint gets all events in order, in spite of refusals, and there is no rebalance.
    rollout.happen(range(5))
    eventually(lambda: len(rollout.group()["members"]) == 2, "two members")
    eventually(rollout.is_calm, "calm", every_s=1.0)
    before = rollout.group()["generation"]
    for name in list(rollout.workers):
        rollout.restart(name)
    rollout.happen(range(5, 10))

    assert rollout.group()["generation"] == before
    for keys in rollout.delivered().values():
        # What was under way when a worker was stopped may be delivered once more.
        assert [key for key, _ in groupby(keys)] == list(range(10))
    assert "did not take" in "".join(worker.log for worker in rollout.workers.values())
