"""A group member that logs its work: `KIND SESSION_S BOOTSTRAP GROUP TOPIC NAME`.

Whenever it begins or finishes work on partitions, it prints them as a line of JSON, with the time
by the clock that all processes of a machine share.  Finishing takes a moment, as real work does.
On SIGTERM it leaves in good order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

__all__ = ["FINISH_S", "HEARTBEATS_PER_SESSION", "KINDS"]

HEARTBEATS_PER_SESSION: Final = 6
#: How long work on a partition takes to finish.
FINISH_S: Final = 0.05

KINDS: Final = ("cooperative", "static", "eager", "aiokafka")


def _log(what: str, partitions: Iterable[int]) -> None:
    line = {"t": time.monotonic(), "what": what, "partitions": sorted(partitions)}
    print(json.dumps(line), flush=True)


@dataclass(frozen=True, slots=True)
class _Options:
    kind: str
    session_s: float
    bootstrap: str
    group: str
    topic: str
    name: str

    @property
    def heartbeat_s(self) -> float:
        return self.session_s / HEARTBEATS_PER_SESSION


async def _ours(options: _Options) -> None:
    from coterie_assignors import (  # noqa: PLC0415
        CooperativeStickyAssignor,
        RangeAssignor,
    )
    from coterie_client import Group, Partition  # noqa: PLC0415  # each kind imports its own client

    async def work(partition: Partition) -> None:
        _log("on", [partition.number])
        try:
            await asyncio.sleep(float("inf"))
        finally:
            await asyncio.sleep(FINISH_S)
            _log("off", [partition.number])

    group = Group(
        options.bootstrap,
        options.group,
        topics=[options.topic],
        client_id=options.name,
        instance=options.name if options.kind == "static" else None,
        assignors=[RangeAssignor() if options.kind == "eager" else CooperativeStickyAssignor()],
        session_timeout=options.session_s,
        heartbeat_interval=options.heartbeat_s,
        rebalance_timeout=30.0,
    )
    async with group:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.stop)
        await group.run(work)


async def _aiokafka(options: _Options) -> None:
    from aiokafka import (  # noqa: PLC0415
        AIOKafkaConsumer,
        ConsumerRebalanceListener,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            _log("on", (each.partition for each in assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            numbers = [each.partition for each in revoked]
            if numbers:
                await asyncio.sleep(FINISH_S)
                _log("off", numbers)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.name,
        session_timeout_ms=round(options.session_s * 1000),
        heartbeat_interval_ms=round(options.heartbeat_s * 1000),
        rebalance_timeout_ms=30_000,
        enable_auto_commit=False,
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    while not ended.is_set():
        await consumer.getmany(timeout_ms=50)
    # Closing does not call the listener.
    await asyncio.sleep(FINISH_S)
    _log("off", (each.partition for each in consumer.assignment()))
    await consumer.stop()


def main() -> None:
    """Run until SIGTERM."""
    kind, session_s, *rest = sys.argv[1:]
    options = _Options(kind, float(session_s), *rest)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable()
    asyncio.run(_aiokafka(options) if kind == "aiokafka" else _ours(options))


if __name__ == "__main__":
    main()
