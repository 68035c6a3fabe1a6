"""A group of the demo whose workers fail."""

from __future__ import annotations

import asyncio

import pytest

from coterie_cli.demo.group import PARTITIONS, DemoError, DemoGroup
from coterie_cli.demo.messages import WorkEvent, WorkEventKind


@pytest.mark.asyncio
async def test_worker_that_ends_by_itself_is_named_with_its_last_output() -> None:
    group = DemoGroup("eager", "range", "no address", speed=1.0)
    await group.load("ann")
    await group.join("ann")
    with pytest.raises(DemoError, match=r"range: ann ended by itself: .*no address"):
        await group.settle(within_s=60)
    await group.close()


@pytest.mark.asyncio
async def test_group_that_does_not_settle_in_time_is_an_error_with_a_hint() -> None:
    group = DemoGroup("eager", "range", "127.0.0.1:1", speed=1.0)
    with pytest.raises(DemoError, match=r"not shared out within 0.01 s.*--speed"):
        await group.settle(within_s=0.01)


@pytest.mark.asyncio
async def test_close_ends_a_worker_whose_leaving_was_interrupted() -> None:
    group = DemoGroup("eager", "range", "127.0.0.1:1", speed=1.0)
    await group.load("ann")
    await group.join("ann")
    stopping = asyncio.create_task(group.stop("ann"))
    await asyncio.sleep(0)  # so that it has begun
    stopping.cancel()
    await asyncio.wait([stopping])
    await group.close()
    assert stopping.cancelled()
    assert all(process.is_gone for process in group.processes)


@pytest.mark.asyncio
async def test_group_with_state_is_settled_when_the_newcomer_has_its_whole_share() -> None:
    group = DemoGroup("warm", "cooperative-sticky", "127.0.0.1:1", speed=1.0, restore_s=3.0)
    await group.load("ann", "ben")
    await group.join("ann", "ben")
    try:
        for number in range(PARTITIONS):
            name = "ann" if number else "ben"
            group.work_log.add(name, WorkEvent(WorkEventKind.BEGINS, number, 0.0))
        assert not group.is_settled
        for number in range(1, PARTITIONS // 2):
            group.work_log.add("ann", WorkEvent(WorkEventKind.ENDED, number, 1.0))
            assert not group.is_settled
            group.work_log.add("ben", WorkEvent(WorkEventKind.BEGINS, number, 1.0))
        assert group.is_settled
    finally:
        await group.close()
