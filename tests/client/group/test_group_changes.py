"""The iterator of changes, on a real daemon."""

from __future__ import annotations

import asyncio

import pytest

from coterie_client import Assigned, Change, Changes, Group, Lost, PartitionLostError, Revoked
from coterie_client.events import Fenced, PartitionsAssigned, PartitionsLost, PartitionsReleased
from coterie_protocol.errors import FencedInstanceIdError
from tests.client.group.world import World, world

pytestmark = pytest.mark.asyncio


def names(change: Change) -> set[str]:
    """The partitions of a change."""
    return {str(partition) for partition in change.partitions}


async def test_first_change_is_the_assignment() -> None:
    async with world(2) as here, here.group("a") as group:
        async for change in group.changes():
            assert isinstance(change, Assigned)
            assert names(change) == here.partitions(0, 1)
            for partition in change.partitions:
                await partition.commit(5)
            break


async def test_what_was_assigned_before_the_loop_began_is_told() -> None:
    async with world(2) as here, here.group("a") as group:
        await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
        change = await anext(group.changes())
        assert names(change) == here.partitions(0, 1)


async def test_revoked_partitions_are_handed_over_after_the_loops_body() -> None:
    async with world(2) as here, here.group("a") as group:
        changes = group.changes()
        await anext(changes)
        async with here.member("b"):
            revoked = await anext(changes)
            assert isinstance(revoked, Revoked)
            (partition,) = revoked.partitions
            await partition.commit(9)
            assert partition.is_owned
            assert here.recorder.of(PartitionsReleased, "a") == []
            assert here.recorder.running("b") == set()
            asking = asyncio.create_task(anext(changes))
            await here.until_shared(b=1)
            assert here.recorder.running("b") == {str(partition)}
            with pytest.raises(PartitionLostError):
                await partition.commit(10)
            asking.cancel()


async def test_loss_is_told_and_then_its_cause_is_raised() -> None:
    seen: list[Change] = []

    async def loop(group: Group) -> None:
        async for change in group.changes():
            seen.append(change)  # noqa: PERF401  # what came before an error counts, too

    async with world(2) as here, here.group("a", instance="one") as group:
        looping = asyncio.create_task(loop(group))
        await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned, "a")))
        async with here.member("b", instance="one"):
            await here.recorder.until(lambda: bool(here.recorder.of(Fenced, "a")))
            with pytest.raises(FencedInstanceIdError):
                await looping
    assert [type(change) for change in seen] == [Assigned, Lost]
    assert isinstance(seen[1], Lost)
    assert "fenced" in seen[1].reason


async def test_stop_lets_the_loop_finish_its_work() -> None:
    seen: list[type[Change]] = []
    async with world(2) as here, here.group("a") as group:
        async for change in group.changes():
            seen.append(type(change))
            if isinstance(change, Assigned):
                group.stop()
            else:
                for partition in change.partitions:
                    await partition.commit(1)
        assert seen == [Assigned, Revoked]
        assert here.server_members() == set()


async def test_leaving_the_loop_and_the_block_closes_the_group() -> None:
    async with world(2) as here:
        async with here.group("a") as group:
            async for _ in group.changes():
                break
        assert here.server_members() == set()
        (released,) = here.recorder.of(PartitionsReleased)
        assert len(released.partitions) == 2


async def test_leaving_the_loop_at_a_revocation_closes_the_group() -> None:
    async with world(2) as here, here.member("b") as b:
        async with here.group("a") as group:
            async for change in group.changes():
                if isinstance(change, Assigned):
                    group.rejoin()
                    await b.stop()
                    break
        assert here.server_members() == set()


async def kinds_read(changes: Changes) -> list[type[Change]]:
    """Read changes to their end."""
    return [type(change) async for change in changes]


@pytest.mark.parametrize("is_begun", [False, True])
async def test_loop_that_is_read_after_the_block_was_left_ends(*, is_begun: bool) -> None:
    async with world(2) as here:
        async with here.group("a") as group:
            changes = group.changes()
            if is_begun:
                await anext(changes)
            else:
                await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
        async with asyncio.timeout(60):
            assert await kinds_read(changes) == []


async def test_loop_that_begins_while_the_block_is_left_ends() -> None:
    """Its task was made within the block, and had no turn yet."""
    async with world(2) as here:
        async with here.group("a") as group:
            await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
            looping = asyncio.create_task(kinds_read(group.changes()))
        async with asyncio.timeout(60):
            assert await looping == []


async def test_loop_that_is_read_after_the_group_has_failed_raises_its_error() -> None:
    async with world(2) as here:
        group = here.group("a", instance="one")
        await group.__aenter__()
        changes = group.changes()
        await anext(changes)
        async with here.member("b", instance="one"):
            await here.recorder.until(lambda: bool(here.recorder.of(Fenced, "a")))
        await group.aclose()
        with pytest.raises(FencedInstanceIdError):
            await kinds_read(changes)


async def test_partitions_say_at_once_that_they_are_lost_while_others_are_finished() -> None:
    """The loop tells of it only when the body is done."""
    async with world(2) as here, here.group("a", instance="one") as group:
        changes = group.changes()
        assigned = await anext(changes)
        async with here.member("b"):
            revoked = await anext(changes)
            assert isinstance(revoked, Revoked)
            assert all(partition.is_owned for partition in assigned.partitions)
            async with here.member("c", instance="one"):
                await here.recorder.until(lambda: bool(here.recorder.of(Fenced, "a")))
                assert not any(partition.is_owned for partition in assigned.partitions)
                (lost,) = here.recorder.of(PartitionsLost, "a")
                assert {f"{topic}[{number}]" for topic, number in lost.partitions} == names(
                    assigned
                )
                told = await anext(changes)
                assert isinstance(told, Lost)
                assert names(told) == names(assigned)
                with pytest.raises(FencedInstanceIdError):
                    await anext(changes)


async def loop_elsewhere(here: World, group: Group, gate: asyncio.Event) -> list[type[Change]]:
    """Read changes, and take time to finish what is revoked."""
    seen: list[type[Change]] = []
    async for change in group.changes():
        seen.append(type(change))
        if isinstance(change, Revoked):
            await gate.wait()
            for partition in change.partitions:
                await partition.commit(3)
                here.recorder.note("committed", partition, "a")
    return seen


async def test_closing_waits_for_a_loop_in_another_task() -> None:
    gate = asyncio.Event()
    async with world(2) as here:
        async with here.group("a") as group:
            looping = asyncio.create_task(loop_elsewhere(here, group, gate))
            await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
            asyncio.get_running_loop().call_later(0.1, gate.set)
        assert here.recorder.count("committed") == 2
        assert await looping == [Assigned, Revoked]


async def test_closing_does_not_wait_for_a_loop_that_has_ended() -> None:
    async def once(group: Group) -> None:
        await anext(group.changes())

    async with world(2) as here:
        async with here.group("a", close_timeout=1000) as group:
            await asyncio.create_task(once(group))
        assert here.server_members() == set()
