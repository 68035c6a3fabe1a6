"""What groups do about work that fails or stalls, on a real daemon."""

from __future__ import annotations

import asyncio

import pytest

from coterie_client import Partition, Release, Restart, Stop, WorkCancelledError
from coterie_client.events import WorkFailed, WorkRecovered, WorkStalled
from tests.client.group.world import world

pytestmark = pytest.mark.asyncio


async def forever() -> None:
    """Wait for nothing."""
    await asyncio.get_running_loop().create_future()


async def test_work_that_fails_is_restarted() -> None:
    tokens: list[int] = []

    async def work(partition: Partition) -> None:
        tokens.append(partition.token)
        if len(tokens) < 3:
            raise ValueError("not yet")
        here.recorder.note("begin", partition, "a")
        await forever()

    async with world(1) as here:
        run = {"on_error": Restart(first=0.01, limit=0.02)}
        async with here.member("a", work, run=run) as a:
            await here.until_shared(a=1)
            assert len(set(tokens)) == 1
            assert a.group.counters.work_failed == 2


async def test_failed_partition_is_released_to_another_member() -> None:
    bad: list[str] = []

    async def poisoned(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            bad.append(str(partition))
            if str(partition) == bad[0]:
                await partition.commit(12)
                raise ValueError("not here")
            await forever()
        finally:
            here.recorder.note("end", partition, "a")

    async with world(4) as here, here.member("b"):
        await here.until_shared(b=4)
        async with here.member("a", poisoned, run={"on_error": Release()}):
            await here.recorder.until(lambda: bool(bad) and bad[0] in here.recorder.running("b"))
            await here.recorder.until(lambda: len(here.recorder.running()) == 4)
            assert here.recorder.overlaps() == []
            assert here.recorder.count("begin", "a", bad[0]) == 1


async def test_stop_ends_everything_and_raises_the_error() -> None:
    error = ValueError("broken")

    async def work(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await gate.wait()
            if partition.number == 1:
                raise error
            await forever()
        finally:
            await partition.commit(1)
            here.recorder.note("end", partition, "a")

    gate = asyncio.Event()
    async with world(3) as here, here.group("a") as group:
        running = asyncio.create_task(group.run(work, on_error=Stop()))
        await here.until_shared(a=3)
        gate.set()
        with pytest.raises(ValueError, match="broken") as caught:
            await running
        assert caught.value is error
        assert error.__notes__ == ["Raised by the work on orders[1]."]
        assert here.recorder.running() == set()
        assert here.server_members() == set()
        assert group.counters.commits == 3


async def test_stop_with_a_cancellation_is_no_cancellation_of_run() -> None:
    async def work(_: Partition) -> None:
        raise asyncio.CancelledError

    async with world(1) as here, here.group("a") as group:
        with pytest.raises(WorkCancelledError):
            await group.run(work, on_error=Stop())


async def test_stall_and_recovery_are_reported() -> None:
    gate = asyncio.Event()

    async def work(partition: Partition) -> None:
        await partition.commit(3)
        await gate.wait()
        partition.progress()
        await forever()

    run = {"progress_deadline": 0.05}
    async with world(1) as here, here.member("a", work, run=run) as a:
        await here.recorder.until(lambda: any(e.position for e in here.recorder.of(WorkStalled)))
        stalled = here.recorder.of(WorkStalled)[-1]
        assert (stalled.partition, stalled.position.offset) == (("orders", 0), 3)
        gate.set()
        await here.recorder.until(lambda: bool(here.recorder.of(WorkRecovered)))
        assert here.recorder.of(WorkFailed) == []
        assert a.group.counters.work_stalled >= 1


async def test_stalled_partition_goes_to_another_member() -> None:
    async def stuck(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await forever()
        finally:
            here.recorder.note("end", partition, "a")

    async with world(2) as here, here.member("b"):
        run = {"progress_deadline": 0.05, "on_stall": "release"}
        async with here.member("a", stuck, run=run):
            await here.recorder.until(lambda: here.recorder.count("end", "a") > 0)
            await here.until_shared(b=2)
            assert here.recorder.overlaps() == []
