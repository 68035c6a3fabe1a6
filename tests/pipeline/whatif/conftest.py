"""Histories to replay, from the simulator: what befell the workers is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from coterie_client import Group, Partition
from coterie_protocol.journal import write_line
from coterie_testing.kit import Cluster


def _worker(bootstrap: str, name: str) -> Coroutine[Any, Any, None]:
    async def work(partition: Partition) -> None:
        while True:
            await asyncio.sleep(30)
            await partition.commit(1)

    async def main() -> None:
        async with Group(
            bootstrap, "g", topics=["jobs"], client_id=name, session_timeout=10
        ) as group:
            await group.run(work)

    return main()


@pytest.fixture
def flapping(coterie_cluster: Callable[..., Cluster]) -> Callable[[str, int], list[str]]:
    """Make journals of three workers, one of which pauses for 12 s so many times.

    Their sessions end after 10 s.  The group has the name that is asked for, and so has the node.
    """

    def make(name: str, pauses: int) -> list[str]:
        cluster = coterie_cluster({"jobs": 6})
        programs = [cluster.start(each, _worker(cluster.bootstrap, each)) for each in "abc"]
        cluster.run(60)
        for _ in range(pauses):
            programs[0].pause(12)
            cluster.run(60)
        events = [(line, line.event) for line in cluster.journal]
        return [
            write_line(
                replace(line, node=name, event=replace(event, group=name) if event.group else event)
            )
            for line, event in events
        ]

    return make
