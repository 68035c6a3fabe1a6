"""The list of groups of several nodes, as it is and as it changes, while nodes die."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from coterie_client import Admin, Group
from tests.live.daemon import HOST
from tests.live.workers import WorkersDaemon, group_in
from tests.server.http.event_stream import Stream

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
NODES: Final = 2

Rows = dict[str, dict[str, Any]]


class Watcher:
    """Knows the list as the pages say that a client can: a watch, a list, and then each line."""

    def __init__(self, daemon: WorkersDaemon, session: aiohttp.ClientSession) -> None:
        self._url = f"http://{HOST}:{daemon.http_port}/v1"
        self._session = session
        self.rows: Rows = {}
        #: How many watches have begun.
        self.begun = 0

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                await self._watch()
            await asyncio.sleep(0.1)

    async def _watch(self) -> None:
        async with self._session.get(f"{self._url}/watch") as answer:
            if answer.status != 200:
                return
            stream = Stream(answer)
            assert (await stream.next()).kind == "begin"
            rows = await self.list()
            if rows is None:
                return
            self.rows = rows
            self.begun += 1
            while (event := await stream.next()).kind != "end":
                if event.kind == "gone":
                    rows.pop(event.data["group"], None)
                else:
                    rows[event.data["group"]] = event.data

    async def list(self) -> Rows | None:
        """All groups; None while they can't be told."""
        async with self._session.get(f"{self._url}/groups?format=jsonl") as answer:
            if answer.status != 200:
                return None
            lines = (await answer.text()).splitlines()
        rows = [json.loads(line) for line in lines]
        return {row["group"]: row for row in rows}


@asynccontextmanager
async def watchers(daemon: WorkersDaemon) -> AsyncIterator[list[Watcher]]:
    """Some; connections are given to any worker, so that each is asked by some of them."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True)
    ) as session:
        found = [Watcher(daemon, session) for _ in range(8)]
        tasks = [asyncio.create_task(each.run()) for each in found]
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def all_know(known: list[Watcher], what: str) -> None:
    """Wait until each watcher's rows are those of a list that is asked for now."""

    async def are_right() -> bool:
        rows = None
        with contextlib.suppress(aiohttp.ClientError):  # of a worker that was killed
            rows = await known[0].list()
        return rows is not None and all(each.rows == rows for each in known)

    deadline = asyncio.get_running_loop().time() + 60
    while not await are_right():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.2)


async def test_watch_of_all_nodes_equals_their_list(tmp_path: Path) -> None:
    names = [group_in(node, NODES, prefix) for node in range(NODES) for prefix in "abc"]
    with WorkersDaemon(tmp_path, NODES, settings=SETTINGS, topics={"t": 4}) as daemon:
        async with (
            AsyncExitStack() as stack,
            Admin(daemon.address) as admin,
            watchers(daemon) as known,
        ):
            for name in names:
                await admin.offsets.set(name, {("t", 0): 1})
            await all_know(known, "groups that were made")
            assert set(known[0].rows) == set(names)
            for name in (names[0], names[-1]):
                group = await stack.enter_async_context(Group(daemon.address, name, topics=["t"]))
                await anext(aiter(group.changes()))
            await all_know(known, "members that came")
            assert known[0].rows[names[-1]]["members"] == 1
            for name in (names[1], names[-2]):
                await admin.groups.delete(name)
            await all_know(known, "groups that were deleted")
            assert set(known[0].rows) == set(names) - {names[1], names[-2]}
            for file, node in enumerate(daemon.pids()):
                before = [each.begun for each in known]
                await asyncio.to_thread(daemon.kill_worker, node)
                await all_know(known, f"the groups after the death of node {node}")
                assert all(each.begun > count for each, count in zip(known, before, strict=True))
                # Those of the node that was killed are told of again.
                made = group_in(file, NODES, "d")
                await admin.offsets.set(made, {("t", 0): 1})
                await all_know(known, "a group that was made after that")
                assert made in known[0].rows
