"""Who owns what, as real daemons tell it to directories, while they are killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from coterie_client import Directory, Group
from tests.live.daemon import HOST, Daemon, eventually
from tests.live.workers import WorkersDaemon, group_in
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}


@asynccontextmanager
async def member(daemon: Daemon, group: str, address: str) -> AsyncIterator[Group]:
    """A member at work, which tells an address."""
    async with Group(daemon.address, group, topics=["t"], address=address) as joined:

        async def read() -> None:
            async for _ in joined.changes():
                pass

        reading = asyncio.create_task(read())
        yield joined
        joined.stop()
        await reading


async def until(true: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(eventually, true, what)


def at(directory: Directory) -> dict[int, tuple[str | None, int | None]]:
    """The address and token of each partition."""
    return {number: (each.address, each.token) for (_, number), each in directory.owners.items()}


def of_members(*groups: Group) -> dict[int, tuple[str | None, int | None]]:
    """The same by the members' own word; each is at a port after its number."""
    return {
        partition.number: (f"{HOST}:{number}", partition.token)
        for number, group in enumerate(groups)
        for partition in group.owned
    }


async def test_directory_lives_through_the_death_of_its_coordinator(tmp_path: Path) -> None:
    http = ("--http", f"{HOST}:{free_port()}")  # the same after a restart
    with Daemon(tmp_path, settings=SETTINGS, topics={"t": 6}, arguments=http) as daemon:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(member(daemon, "g", f"{HOST}:0"))
            node = f"{HOST}:{daemon.http_port}"
            directory = await stack.enter_async_context(Directory(node, "g"))
            await directory.owner(partition=0)
            second = await stack.enter_async_context(member(daemon, "g", f"{HOST}:1"))
            await until(lambda: len(second.owned) == 3, "the second's share")
            await until(lambda: at(directory) == of_members(first, second), "the owners")
            before = at(directory)
            await asyncio.to_thread(daemon.kill)
            await until(lambda: directory.trouble, "the directory's trouble")
            assert (await directory.owner(partition=0, wait=0)).is_owned
            assert at(directory) == before
            await asyncio.to_thread(daemon.start)
            await until(lambda: directory.trouble is None, "the daemon's return")
            # The restarted coordinator knows the addresses, and the tokens as they were told.
            assert {n: address for n, (address, _) in at(directory).items()} == {
                n: address for n, (address, _) in before.items()
            }
            assert all(
                (at(directory)[n][1] or 0) <= (token or 0) for n, (_, token) in before.items()
            )
            await second.aclose()
            await until(lambda: at(directory) == of_members(first), "the first's takeover")


async def test_any_node_tells_of_a_group_and_says_when_it_moves(tmp_path: Path) -> None:
    with WorkersDaemon(tmp_path, settings=SETTINGS, topics={"t": 4}) as daemon:
        groups = {node: group_in(node) for node in (0, 1)}
        async with AsyncExitStack() as stack:
            http = f"{HOST}:{daemon.http_port}"
            for group in groups.values():
                await stack.enter_async_context(member(daemon, group, f"{HOST}:0"))
            # Connections are given to either worker, so that some watches are passed on.
            directories = [
                await stack.enter_async_context(Directory(http, group))
                for group in groups.values()
                for _ in range(4)
            ]
            for directory in directories:
                assert (await directory.owner(partition=0, wait=30)).address == f"{HOST}:0"
            coordinator = json.loads(daemon.get(f"/v1/groups/{groups[0]}"))["node"]
            await asyncio.to_thread(daemon.kill_worker, coordinator)
            extra = await stack.enter_async_context(member(daemon, groups[0], f"{HOST}:1"))
            await until(lambda: len(extra.owned) == 2, "the new member's share")
            for directory in directories[:4]:
                await until(
                    lambda each=directory: sum(a == f"{HOST}:1" for a, _ in at(each).values()) == 2,  # type: ignore[misc]
                    "what the new member owns",
                )
            for directory in directories[4:]:
                assert (await directory.owner(partition=0, wait=30)).address == f"{HOST}:0"
