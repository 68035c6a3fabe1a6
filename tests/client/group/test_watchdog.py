"""The watchdog notices work that makes no progress: in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from coterie_client.partition import Partition
from coterie_client.work.watchdog import Watchdog
from tests.client.group.doubles import FakeKeeper
from tests.support.virtual_time import virtual_test

DEADLINE_S = 10.0


class Harness:
    """A watchdog, and what it reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, str, float]] = []
        self.watchdog = Watchdog(
            DEADLINE_S,
            stalled=lambda partition, s: self.reports.append(("stalled", str(partition), s)),
            recovered=lambda partition, s: self.reports.append(("recovered", str(partition), s)),
        )
        self.keeper = FakeKeeper()

    def watch(self, number: int) -> Partition:
        """Have a partition watched."""
        partition = Partition(self.keeper, ("orders", number), number, 1)
        self.watchdog.watch(partition)
        return partition


@virtual_test
async def test_silence_is_reported_once() -> None:
    harness = Harness()
    harness.watch(0)
    await asyncio.sleep(DEADLINE_S - 1)
    assert harness.reports == []
    await asyncio.sleep(10 * DEADLINE_S)
    ((what, partition, silent_s),) = harness.reports
    assert (what, partition) == ("stalled", "orders[0]")
    assert silent_s == pytest.approx(DEADLINE_S)


@virtual_test
async def test_progress_puts_off_the_deadline() -> None:
    harness = Harness()
    partition = harness.watch(0)
    for _ in range(20):
        await asyncio.sleep(DEADLINE_S * 0.8)
        partition.progress()
    assert harness.reports == []


@virtual_test
async def test_commit_is_progress() -> None:
    harness = Harness()
    partition = harness.watch(0)
    for offset in range(20):
        await asyncio.sleep(DEADLINE_S * 0.8)
        await partition.commit(offset)
    assert harness.reports == []


@virtual_test
async def test_recovery_is_reported_and_the_next_stall_too() -> None:
    harness = Harness()
    partition = harness.watch(0)
    await asyncio.sleep(25)
    partition.progress()
    what, name, silent_s = harness.reports[1]
    assert (what, name) == ("recovered", "orders[0]")
    assert silent_s == pytest.approx(25)
    await asyncio.sleep(2 * DEADLINE_S)
    assert [bark[0] for bark in harness.reports] == ["stalled", "recovered", "stalled"]


@virtual_test
async def test_one_that_stalls_does_not_hide_another() -> None:
    harness = Harness()
    harness.watch(0)
    await asyncio.sleep(DEADLINE_S / 2)
    busy = harness.watch(1)
    await asyncio.sleep(DEADLINE_S * 0.7)
    assert [bark[1] for bark in harness.reports] == ["orders[0]"]
    busy.progress()
    await asyncio.sleep(2 * DEADLINE_S)
    assert [bark[1] for bark in harness.reports] == ["orders[0]", "orders[1]"]


@virtual_test
async def test_stopped_work_is_not_watched() -> None:
    harness = Harness()
    partition = harness.watch(0)
    harness.watchdog.unwatch(partition)
    partition.progress()
    await asyncio.sleep(3 * DEADLINE_S)
    assert harness.reports == []


@virtual_test
async def test_others_are_watched_on() -> None:
    """When one stops, the others are still watched."""
    harness = Harness()
    first, _ = harness.watch(0), harness.watch(1)
    harness.watchdog.unwatch(first)
    await asyncio.sleep(3 * DEADLINE_S)
    assert [bark[:2] for bark in harness.reports] == [("stalled", "orders[1]")]


@virtual_test
async def test_work_that_begins_after_all_have_stopped_is_watched() -> None:
    harness = Harness()
    harness.watchdog.unwatch(harness.watch(0))
    harness.watch(1)
    await asyncio.sleep(3 * DEADLINE_S)
    assert [bark[:2] for bark in harness.reports] == [("stalled", "orders[1]")]


@virtual_test
async def test_hook_may_end_the_others_at_a_stall() -> None:
    harness = Harness()
    partitions: list[Partition] = []

    def end_all(partition: Partition, _: float) -> None:
        reports.append(str(partition))
        for each in partitions:
            watchdog.unwatch(each)

    reports: list[str] = []
    watchdog = Watchdog(DEADLINE_S, stalled=end_all, recovered=lambda *_: None)
    for number in range(2):
        partitions.append(Partition(harness.keeper, ("orders", number), number, 1))
        watchdog.watch(partitions[-1])
    await asyncio.sleep(3 * DEADLINE_S)
    assert reports == ["orders[0]"]
