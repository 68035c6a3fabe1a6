"""A virtual disk: what a crash leaves of what was being written, and how writes fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from coterie_server.storage import FencedError, KeptRecord, Lease, OwnerTakenError, StoreError
from coterie_testing.virtual import Disk, DiskStore, Process, Scheduler
from coterie_testing.virtual.disk import DiskOptions

T = TypeVar("T")

TTL_MS = 10_000

SLOW = DiskOptions(write_s=(1.0, 1.0))


class Machine:
    """A machine whose disk stays while its processes come and go."""

    def __init__(self, seed: int = 0, options: DiskOptions | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.disk = Disk(self.scheduler, options)
        self.boot()

    def boot(self) -> None:
        """Start a process with a store of its own."""
        self.process = Process(self.scheduler, "p")
        self.store = DiskStore(self.disk, self.process)
        self.run(self.store.open())

    def run(self, work: Coroutine[None, None, T]) -> T:
        """Run something in the process to its end."""
        return self.process.run_until_done(work)

    def claim(self, shard: int = 0) -> Lease:
        """Take a shard."""
        (lease,) = self.run(self.store.claim([shard], "ann", TTL_MS))
        return lease

    def append(self, lease: Lease, *keys: str) -> list[asyncio.Task[None]]:
        """Begin an append for each key, all at once."""
        return [
            self.process.create_task(self.store.append(lease, [(key.encode(), b"")]))
            for key in keys
        ]

    def kept(self, shard: int = 0) -> str:
        """What is durable on the disk."""
        held: list[KeptRecord] = self.run(self.store.load(shard))
        return "".join(key.decode() for key, _ in held)

    def kept_now(self, shard: int = 0) -> list[KeptRecord]:
        """What is on the disk at this moment, as no process could tell."""
        content = self.disk.content.twin()
        began_s = self.scheduler.now_s
        another = Process(self.scheduler, "q")

        async def look() -> list[KeptRecord]:
            async with content:
                return await content.load(shard)

        held = another.run_until_done(look())
        assert self.scheduler.now_s == began_s
        return held


# -- time and order --------------------------------------------------------------------------------


def test_writes_take_time() -> None:
    machine = Machine(options=DiskOptions(write_s=(0.5, 1.0)))
    lease = machine.claim()
    began_s = machine.scheduler.now_s
    machine.run(machine.store.append(lease, [(b"a", b"")]))
    assert 0.5 <= machine.scheduler.now_s - began_s <= 1.0


def test_write_can_not_be_read_before_it_is_durable() -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    machine.append(lease, "a")
    machine.scheduler.run(0.5)
    assert machine.kept_now() == []
    machine.scheduler.run(1.0)
    assert machine.kept_now() == [(b"a", b"")]


def test_writes_become_durable_in_order() -> None:
    machine = Machine(options=DiskOptions(write_s=(0.01, 5.0)))
    lease = machine.claim()
    tasks = machine.append(lease, *"abcdef")
    while tasks:
        machine.scheduler.run_until(tasks.pop(0).done)
        assert not any(task.done() for task in tasks)


CALLS: dict[str, Callable[[DiskStore, Lease], Coroutine[Any, Any, object]]] = {
    "claim": lambda store, _: store.claim([1], "ann", TTL_MS),
    "renew": lambda store, lease: store.renew("ann", b"", [lease], TTL_MS),
    "withdraw": lambda store, _: store.withdraw("ann"),
    "survey": lambda store, _: store.survey(),
    "release": lambda store, lease: store.release([lease]),
    "load": lambda store, _: store.load(0),
}


@pytest.mark.parametrize("call", CALLS)
def test_call_waits_for_those_before_it(call: str) -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    machine.append(lease, *"ab")
    later = machine.process.create_task(CALLS[call](machine.store, lease))
    machine.scheduler.run(2.5)
    assert len(machine.kept_now()) == 2
    assert not later.done()
    machine.scheduler.run(1.0)
    assert later.done()


def test_append_under_way_when_its_shard_is_claimed_again_is_kept_before_or_fenced() -> None:
    machine = Machine(options=SLOW)
    before = machine.append(lease := machine.claim(), *"ab")
    again = machine.process.create_task(machine.store.claim([0], "ann", TTL_MS))
    behind = machine.append(lease, *"cd")
    machine.scheduler.run_until(again.done)
    assert len(machine.kept_now()) == 2
    machine.scheduler.run(10.0)
    assert [task.exception() for task in before] == [None, None]
    assert [type(task.exception()) for task in behind] == [FencedError, FencedError]
    assert machine.kept() == "ab"


# -- time ------------------------------------------------------------------------------------------


def test_leases_expire_in_virtual_time() -> None:
    machine = Machine()
    machine.claim()
    machine.scheduler.run(TTL_MS / 1000 - 1.0)
    assert machine.run(machine.store.claim([0], "bob", TTL_MS)) == []
    machine.scheduler.run(1.0)
    assert machine.run(machine.store.claim([0], "bob", TTL_MS)) != []


def test_nodes_expire_in_virtual_time() -> None:
    machine = Machine()
    machine.run(machine.store.renew("ann", b"", [], TTL_MS))
    for is_valid in (True, False):
        (entry,) = machine.run(machine.store.survey()).nodes
        assert entry.is_valid is is_valid
        machine.scheduler.run(TTL_MS / 1000)


def test_lease_runs_from_the_moment_at_which_it_is_durable() -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    (found,) = machine.run(machine.store.survey()).leases
    assert (lease.left_ms, found.left_ms) == (TTL_MS, TTL_MS - 1000)


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_crash_keeps_a_prefix_of_the_writes(seed: int) -> None:
    machine = Machine(seed, SLOW)
    lease = machine.claim()
    machine.append(lease, *"abcdef")
    machine.scheduler.run(2.5)
    machine.process.kill()
    machine.boot()
    assert "abcdef".startswith(machine.kept())
    assert machine.kept().startswith("ab")


def test_crash_may_keep_any_prefix() -> None:
    lengths = set()
    for seed in range(60):
        machine = Machine(seed, SLOW)
        machine.append(machine.claim(), *"abc")
        machine.scheduler.run(0.5)
        machine.process.kill()
        assert machine.disk.lost + machine.disk.durable_unacknowledged == 3
        machine.boot()
        lengths.add(len(machine.kept()))
    assert lengths == {0, 1, 2, 3}


def test_acknowledged_write_outlives_a_crash() -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    machine.run(machine.store.append(lease, [(b"a", b"")]))
    machine.process.kill()
    machine.boot()
    assert machine.kept() == "a"


def test_write_may_be_kept_without_an_acknowledgement() -> None:
    machine = Machine(options=SLOW)
    (task,) = machine.append(machine.claim(), "a")
    machine.scheduler.run(0.5)
    machine.process.kill()
    machine.scheduler.run(10.0)
    assert not task.done()


def test_crash_spares_the_writes_of_other_processes() -> None:
    machine = Machine(options=SLOW)
    ann = machine.claim(0)
    machine.append(ann, *"abc")
    first = machine.process
    machine.boot()
    (bobs,) = machine.append(machine.claim(1), "x")
    machine.scheduler.run(0.0)
    first.kill()
    machine.scheduler.run(10.0)
    assert bobs.done()
    assert machine.kept(1) == "x"


def test_crash_does_not_keep_a_write_that_would_have_failed() -> None:
    for seed in range(20):
        machine = Machine(seed, SLOW)
        lease = machine.claim()
        machine.append(lease, "a")
        to_come = lease.fence._replace(epoch=lease.fence.epoch + 1)
        machine.append(replace(lease, fence=to_come), "b")
        machine.append(lease, "c")
        machine.scheduler.run(0.5)
        machine.process.kill()
        machine.boot()
        assert machine.kept() in ("", "a", "ac")


def test_name_is_taken_until_its_process_ends() -> None:
    machine = Machine()
    machine.run(machine.store.reserve("ann", TTL_MS))
    first = machine.process
    machine.boot()
    with pytest.raises(OwnerTakenError):
        machine.run(machine.store.reserve("ann", TTL_MS))
    first.kill()
    machine.run(machine.store.reserve("ann", TTL_MS))


# -- failures --------------------------------------------------------------------------------------


def test_failed_write_raises_and_keeps_nothing() -> None:
    machine = Machine()
    lease = machine.claim()
    machine.disk.options = DiskOptions(error_chance=1.0)
    with pytest.raises(StoreError):
        machine.run(machine.store.append(lease, [(b"a", b"")]))
    machine.disk.options = DiskOptions()
    assert machine.kept() == ""


def _fail_the_first(machine: Machine) -> None:
    """Have the write that is under way fail, and those behind it find a sound disk."""
    machine.disk.options = DiskOptions(write_s=(1.0, 1.0), error_chance=1.0)
    machine.scheduler.after(1.5, setattr, machine.disk, "options", SLOW)


def test_append_behind_a_failed_one_fails_until_the_shard_is_claimed_again() -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    tasks = machine.append(lease, *"abc")
    _fail_the_first(machine)
    machine.scheduler.run(10.0)
    assert [type(task.exception()) for task in tasks] == [StoreError] * 3
    with pytest.raises(StoreError):
        machine.run(machine.store.append(lease, [(b"d", b"")]))
    assert machine.kept() == ""
    with pytest.raises(StoreError):
        machine.run(machine.store.append(lease, [(b"e", b"")]))
    again = machine.claim()
    machine.run(machine.store.append(again, [(b"f", b"")]))
    assert machine.kept() == "f"


def test_append_behind_a_failed_one_is_fenced_once_the_shard_is_claimed_again() -> None:
    machine = Machine(options=SLOW)
    lease = machine.claim()
    machine.append(lease, "a")
    _fail_the_first(machine)
    machine.scheduler.run(10.0)
    machine.claim()
    with pytest.raises(FencedError):
        machine.run(machine.store.append(lease, [(b"b", b"")]))


def test_append_behind_a_failed_one_fails_in_a_paused_process() -> None:
    machine = Machine(options=SLOW)
    machine.append(machine.claim(), *"abc")
    _fail_the_first(machine)
    machine.scheduler.run(0.5)
    machine.process.pause()
    machine.scheduler.run(10.0)
    machine.process.resume()
    assert machine.kept() == ""


def test_append_behind_a_failed_one_is_not_kept_in_a_crash() -> None:
    for seed in range(20):
        machine = Machine(seed, SLOW)
        machine.append(machine.claim(), *"abc")
        _fail_the_first(machine)
        machine.scheduler.run(1.2)
        machine.process.kill()
        machine.boot()
        assert machine.kept() == ""


def test_failed_append_concerns_only_its_shard() -> None:
    machine = Machine(options=SLOW)
    one, other = machine.claim(0), machine.claim(1)
    (failing,) = machine.append(one, "a")
    (sound,) = machine.append(other, "b")
    _fail_the_first(machine)
    machine.scheduler.run(10.0)
    assert failing.exception() is not None
    assert sound.exception() is None
    assert machine.kept(1) == "b"
