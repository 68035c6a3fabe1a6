"""Anything is assigned, revoked, lost, kept warm and withdrawn, in any order and at any moment.

At no moment do two tasks go on for one partition, and in the end exactly those run that should.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from coterie_client import Partition, Role, Standby
from coterie_client.wire.addresses import TopicPartition
from tests.client.group.test_restores import Harness
from tests.support.profiles import by_profile
from tests.support.virtual_time import run_virtually

KEYS: list[TopicPartition] = [("orders", number) for number in range(3)]


class Chaos:
    """Tasks that take any time to end, or fail, or return; and all that may happen to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.running: dict[TopicPartition, str] = {}
        self.here = Harness(self._work, self._restore)
        self.owned: dict[TopicPartition, bool] = {}
        self.held: set[TopicPartition] = set()
        self._tokens = 0

    async def _work(self, partition: Partition) -> None:
        await self._go_on(partition.key, "work")

    async def _restore(self, standby: Standby) -> None:
        assert standby.is_held
        await self._go_on(standby.key, "restore")

    async def _go_on(self, key: TopicPartition, what: str) -> None:
        assert key not in self.running, f"{what} of {key} beside {self.running[key]}"
        self.running[key] = what
        try:
            match self.random.randrange(8):
                case 0:
                    await asyncio.sleep(self.random.uniform(0, 3))
                    raise OSError("disk")
                case _:
                    await asyncio.get_running_loop().create_future()
        finally:
            try:
                await asyncio.sleep(self.random.choice([0, 0, 0.5, 4]))
            finally:
                del self.running[key]

    # -- what may happen -----------------------------------------------------------------------

    def assign(self) -> None:
        """Something that is not owned becomes ours, and is no standby any more."""
        free = [key for key in KEYS if key not in self.owned]
        if free:
            key = self.random.choice(free)
            self._hold(self.held - {key})
            self._tokens += 1
            self.here.owner.assign({key: self._tokens}, 3)
            self.owned[key] = False

    def revoke(self) -> None:
        """Something that is owned is to go, and may become a standby."""
        for key in self._some_owned():
            if self.random.random() < 0.5:
                self._hold(self.held | {key})
            if not self.owned[key]:
                self.owned[key] = True
                self.here.owner.revoke([key])

    def lose(self) -> None:
        """Something that is owned is lost."""
        for key in self._some_owned():
            del self.owned[key]
            self.here.owner.lose([key], "fenced")

    def abandon(self) -> None:
        """Something that was to go takes too long."""
        for key in [key for key in self._some_owned() if self.owned[key]]:
            del self.owned[key]
            self.here.owner.abandon([key])

    def hold(self) -> None:
        """Other standbys than before."""
        keep = {key for key in self.held if self.random.random() < 0.5}
        more = {key for key in KEYS if key not in self.owned and self.random.random() < 0.3}
        self._hold(keep | more)

    def _hold(self, keys: set[TopicPartition]) -> None:
        self.held = keys
        self.here.hold_as({key: self.random.choice(list(Role)) for key in sorted(keys)})

    def _some_owned(self) -> list[TopicPartition]:
        return self.random.sample(sorted(self.owned), min(1, len(self.owned)))

    def note_released(self) -> None:
        """Take note of what was let go of in good order."""
        for key in self.here.driver.released_:
            self.owned.pop(key, None)
        self.here.driver.released_.clear()


async def _run(seed: int) -> None:
    chaos = Chaos(seed)
    steps: list[Callable[[], None]] = [chaos.assign, chaos.revoke, chaos.lose, chaos.abandon]
    steps += [chaos.hold, chaos.assign, chaos.hold]
    for _ in range(40):
        chaos.note_released()
        chaos.random.choice(steps)()
        await asyncio.sleep(chaos.random.choice([0, 0, 0.1, 1, 5]))
    await asyncio.sleep(300)
    chaos.note_released()
    expected = {key: "work" for key, leaving in chaos.owned.items() if not leaving}
    # A restart that pauses is in neither.
    assert chaos.running.items() <= (dict.fromkeys(chaos.held, "restore") | expected).items()
    for key in (*expected, *chaos.held):
        await _appears(chaos, key)
    await chaos.here.end()
    assert chaos.running == {}


async def _appears(chaos: Chaos, key: TopicPartition) -> None:
    """Wait until a task goes on for a partition: it may pause after failures."""
    for _ in range(200):
        if key in chaos.running:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"nothing goes on for {key}")


@pytest.mark.parametrize("seed", range(by_profile(quick=40, long=150)))
def test_one_task_for_each_partition(seed: int) -> None:
    run_virtually(_run(seed))
