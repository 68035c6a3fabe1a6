"""The database that virtual nodes share: calls travel, are lost, and are carried out late."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from coterie_server.storage import Fence, FencedError, Lease, OwnerTakenError, StoreError
from coterie_testing.virtual import (
    Database,
    DatabaseStore,
    DiskOptions,
    Network,
    Process,
    Scheduler,
)

TTL_MS = 3_000


class Machine:
    """A node's machine, and its connection to the database."""

    def __init__(self, world: World, name: str) -> None:
        self.process = Process(world.scheduler, name)
        self.store = DatabaseStore(world.database, self.process)
        self.process.run_until_done(self.store.open())

    def call(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a call."""
        return self.process.create_task(work)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Make a call, and return its result."""
        return self.process.run_until_done(work)


class World:
    """Two machines and the database."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(3)
        self.network = Network(self.scheduler)
        self.database = Database(self.network)
        self.one, self.two = Machine(self, "one"), Machine(self, "two")

    def claim(self, machine: Machine) -> list[Lease]:
        """Have a machine claim a shard."""
        found: list[Lease] = machine.do(machine.store.claim([0], machine.process.name, TTL_MS))
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.scheduler.close()


def test_call_takes_a_round_trip_and_the_time_of_the_database(world: World) -> None:
    began_s = world.scheduler.now_s
    world.claim(world.one)
    assert 0.0006 < world.scheduler.now_s - began_s < 0.02


def test_call_that_can_not_get_through_fails_and_may_be_carried_out_later(world: World) -> None:
    (lease,) = world.claim(world.one)
    late = 0
    for number in range(20):
        heal = world.network.conditions.isolate("one", "database")
        call = world.one.call(world.one.store.append(lease, [(b"%d" % number, b"v")]))
        world.scheduler.run(10.0)
        assert isinstance(call.exception(), StoreError)
        heal()
        world.scheduler.run(2.0)
        found = world.two.do(world.two.store.load(0))
        late += (b"%d" % number, b"v") in found
        (lease,) = world.claim(world.one)
    assert 0 < late < 20


def test_no_append_overtakes_one_that_failed(world: World) -> None:
    (lease,) = world.claim(world.one)
    heal = world.network.conditions.isolate("one", "database")
    world.one.call(world.one.store.append(lease, [(b"k", b"first")])).add_done_callback(
        lambda done: done.exception()
    )
    world.scheduler.run(5.0)
    heal()
    with pytest.raises(StoreError, match="an earlier one failed"):
        world.one.do(world.one.store.append(lease, [(b"k", b"second")]))


def test_database_that_is_down_is_said_to_be(world: World) -> None:
    world.database.stop()
    with pytest.raises(StoreError, match="the database is down"):
        world.claim(world.one)
    world.database.start()
    assert world.claim(world.one)


def test_crash_of_the_database_fails_what_is_under_way(world: World) -> None:
    (lease,) = world.claim(world.one)
    call = world.one.call(world.one.store.append(lease, [(b"k", b"v")]))
    world.scheduler.run(0.0005)
    world.database.stop()
    world.scheduler.run(0.5)
    assert isinstance(call.exception(), StoreError)


def test_name_of_a_dead_process_is_free_after_a_while(world: World) -> None:
    world.one.do(world.one.store.reserve("node", TTL_MS))
    world.one.process.kill()
    with pytest.raises(OwnerTakenError):
        world.two.do(world.two.store.reserve("node", TTL_MS))
    world.scheduler.run(TTL_MS / 1000)
    world.two.do(world.two.store.reserve("node", TTL_MS))


def test_replica_begins_a_timeline_in_which_former_fences_have_passed(world: World) -> None:
    (lease,) = world.claim(world.one)
    world.database.promote()
    with pytest.raises(FencedError):
        world.one.do(world.one.store.append(lease, [(b"k", b"v")]))
    assert world.one.do(world.one.store.renew("one", b"", [lease], TTL_MS)) == []


def test_nothing_is_claimed_while_a_lease_from_before_may_be_trusted(world: World) -> None:
    world.claim(world.one)
    world.database.promote()
    assert world.claim(world.two) == []
    assert world.claim(world.one) == []
    world.scheduler.run(TTL_MS / 1000)
    (lease,) = world.claim(world.two)
    assert lease.fence == Fence(2, 2)


def test_replica_may_lack_the_last_writes(world: World) -> None:
    (lease,) = world.claim(world.one)
    world.one.do(world.one.store.append(lease, [(b"k", b"early")]))
    take_over = world.database.replicate()
    world.one.do(world.one.store.append(lease, [(b"k", b"late")]))
    take_over()
    assert world.two.do(world.two.store.load(0)) == [(b"k", b"early")]


def test_appends_gather_while_one_of_their_lane_is_on_its_way(world: World) -> None:
    """What is to be stored is asked for only when its lane is free."""
    (lease,) = world.claim(world.one)
    rows = [(b"late", b"v")]
    first = world.one.call(world.one.store.append(lease, [(b"first", b"v")]))
    world.scheduler.run(0.00001)
    second = world.one.call(world.one.store.append(lease, (row for row in rows)))
    world.scheduler.run(0.00001)
    rows.append((b"later", b"v"))
    world.scheduler.run(1.0)
    assert first.done()
    assert second.done()
    assert {key for key, _ in world.two.do(world.two.store.load(0))} == {
        b"first",
        b"late",
        b"later",
    }


def test_renewals_go_another_way_than_appends(world: World) -> None:
    (lease,) = world.claim(world.one)
    order: list[str] = []

    async def append() -> None:
        for number in range(3):
            await world.one.store.append(lease, [(b"%d" % number, b"v")])
            order.append("append")

    async def renew() -> None:
        await world.one.store.renew("one", b"", [lease], TTL_MS)
        order.append("renewal")

    world.database.options = DiskOptions(write_s=(0.5, 0.5))
    calls = [world.one.call(append()), world.one.call(renew())]
    world.scheduler.run(5.0)
    assert all(call.done() for call in calls)
    assert order.index("renewal") < 2


def test_appends_to_several_shards_are_all_written_or_none(world: World) -> None:
    """One whose shard has another owner harms none of the others, which are sent again."""
    leases = world.one.do(world.one.store.claim([0, 3, 6], "one", TTL_MS))
    assert len(leases) == 3
    world.one.do(world.one.store.release([leases[1]]))
    calls = [world.one.call(world.one.store.append(each, [(b"k", b"v")])) for each in leases]
    world.scheduler.run(1.0)
    assert [type(call.exception()) for call in calls] == [type(None), FencedError, type(None)]
    kept = [world.two.do(world.two.store.load(shard)) for shard in (0, 3, 6)]
    assert kept == [[(b"k", b"v")], [], [(b"k", b"v")]]
