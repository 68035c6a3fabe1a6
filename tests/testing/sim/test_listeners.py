"""A coordinator with two addresses, in virtual time: members that reach it only by one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from coterie_client import Group
from coterie_client.membership import Sources
from coterie_client.options import default_sources
from coterie_client.wire import default_dial
from coterie_client.wire.addresses import NodeAddress
from coterie_server.config.settings import Settings
from coterie_testing.sim.coordinator import ADDRESS, SimulatedCoordinator
from coterie_testing.virtual import Disk, IdleError, Network, Process, Scheduler

OUTSIDE = NodeAddress("machine", 19092)


class World:
    """A coordinator, and workers that are each cut off from one of its addresses for good."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(0)
        self.network = Network(self.scheduler)
        self.owned: dict[str, int] = {}
        self.coordinator = SimulatedCoordinator(
            self.scheduler,
            self.network,
            Settings(group_initial_rebalance_delay_ms=0),
            {"orders": 4},
            Disk(self.scheduler),
            addresses=(ADDRESS, OUTSIDE),
        )
        self.coordinator.start()
        self.scheduler.run_until(lambda: self.coordinator.is_up, 600)

    def start(self, name: str, *, by: NodeAddress, never_by: NodeAddress) -> None:
        """Start a worker."""
        process = Process(self.scheduler, name)
        self.network.conditions.isolate(process.host, never_by.host)
        context = copy_context()
        context.run(default_dial.set, self.network.dialler(process))
        context.run(default_sources.set, Sources(self.scheduler.random.random, process.wall_ms))
        process.create_task(self._work(name, by), name=name, context=context)

    async def _work(self, name: str, by: NodeAddress) -> None:
        async with Group(str(by), "shop", topics=["orders"], client_id=name) as group:
            await group.run(lambda _: self._own(name))

    async def _own(self, name: str) -> None:
        self.owned[name] = self.owned.get(name, 0) + 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.owned[name] -= 1


@pytest.fixture
def world() -> Iterator[World]:
    """A coordinator that is up."""
    world = World()
    yield world
    world.scheduler.close()


def test_each_member_is_told_the_address_by_which_it_asks(world: World) -> None:
    world.start("inside", by=ADDRESS, never_by=OUTSIDE)
    world.start("outside", by=OUTSIDE, never_by=ADDRESS)
    world.scheduler.run_until(lambda: world.owned == {"inside": 2, "outside": 2})


def test_member_reaches_nothing_by_an_address_it_is_cut_off_from(world: World) -> None:
    world.start("outside", by=ADDRESS, never_by=ADDRESS)
    with pytest.raises(IdleError):
        world.scheduler.run_until(lambda: bool(world.owned), 60)
