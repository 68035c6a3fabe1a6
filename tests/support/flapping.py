"""A simulated group one of whose workers pauses again and again, for longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from coterie_client import Group, Partition
from coterie_protocol.journal import Line
from coterie_testing.kit import Cluster

__all__ = ["GROUP", "TOPICS", "flap"]

GROUP = "g"
TOPICS = {"jobs": 6}

_SESSION_TIMEOUT_S = 10
_PAUSE_S = 12


def flap(cluster: Cluster, pauses: int, *, apart_s: float) -> Sequence[Line]:
    """Let three workers run, one of which pauses so many times; what was written down."""
    programs = [cluster.start(name, _worker(cluster.bootstrap, name)) for name in "abc"]
    cluster.run(apart_s)
    for _ in range(pauses):
        programs[0].pause(_PAUSE_S)
        cluster.run(apart_s)
    return cluster.journal


def _worker(bootstrap: str, name: str) -> Coroutine[Any, Any, None]:
    async def work(partition: Partition) -> None:
        while True:
            await asyncio.sleep(30)
            await partition.commit(1)

    async def main() -> None:
        async with Group(
            bootstrap,
            GROUP,
            topics=list(TOPICS),
            client_id=name,
            session_timeout=_SESSION_TIMEOUT_S,
        ) as group:
            await group.run(work)

    return main()
