"""A group member that logs its work: its one argument is the text of `MemberOptions`.

Whenever it begins or finishes work on partitions, it prints them as a line of JSON, with the time
by the clock that all processes of a machine share.  Finishing takes a moment, as real work does.
Work that needs state begins, for the log, when the state has been restored.
On SIGTERM it leaves in good order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

import structlog

__all__ = ["FINISH_S", "HEARTBEATS_PER_SESSION", "KINDS", "READY_INTERVAL_S", "MemberOptions"]

HEARTBEATS_PER_SESSION: Final = 6
#: How long work on a partition takes to finish.
FINISH_S: Final = 0.05

#: How soon a member may say again that a warm-up has caught up.
READY_INTERVAL_S: Final = 1.0
_RESTORE_STEPS: Final = 20

KINDS: Final = ("cooperative", "static", "eager", "warm", "aiokafka")


def _log(what: str, partitions: Iterable[int]) -> None:
    line = {"t": time.monotonic(), "what": what, "partitions": sorted(partitions)}
    print(json.dumps(line), flush=True)


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """How a member behaves."""

    kind: str
    bootstrap: str
    group: str
    topic: str
    session_s: float
    #: How long it takes to restore one partition's state; 0 for work without state.
    restore_s: float = 0.0
    name: str = ""

    @property
    def heartbeat_s(self) -> float:
        """The time between two heartbeats."""
        return self.session_s / HEARTBEATS_PER_SESSION

    def to_text(self, name: str) -> str:
        """For the command line of the member of that name."""
        return json.dumps(asdict(replace(self, name=name)))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """From a command line."""
        return cls(**json.loads(text))


class _States:
    """The states that a member has, in memory; they stay while other members work."""

    def __init__(self, restore_s: float) -> None:
        self._step_s = restore_s / _RESTORE_STEPS
        self._steps = _RESTORE_STEPS if restore_s else 0
        self._left: dict[int, int] = {}

    def left(self, partition: int) -> int:
        """How many steps are still to be restored."""
        return self._left.get(partition, self._steps)

    async def restore(self, partition: int, tell: Callable[[int], None]) -> None:
        """Restore the rest, and tell after each step how much is left."""
        tell(self.left(partition))
        while left := self.left(partition):
            await asyncio.sleep(self._step_s)
            self._left[partition] = left - 1
            tell(left - 1)


async def _ours(options: MemberOptions) -> None:
    from coterie_assignors import (  # noqa: PLC0415
        CooperativeStickyAssignor,
        RangeAssignor,
    )
    from coterie_client import (  # noqa: PLC0415  # each kind imports its own client
        Group,
        Partition,
        Standby,
        WarmSettings,
    )

    states = _States(options.restore_s)

    async def restore(standby: Standby) -> None:
        await states.restore(standby.number, standby.lag)
        await asyncio.Event().wait()

    async def work(partition: Partition) -> None:
        await states.restore(partition.number, partition.lag)
        _log("on", [partition.number])
        try:
            await asyncio.sleep(float("inf"))
        finally:
            await asyncio.sleep(FINISH_S)
            _log("off", [partition.number])

    is_warm = options.kind == "warm"
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
        # Nothing is handed over before all of it is restored.
        warm=WarmSettings(acceptable_recovery_lag=0) if is_warm else None,
        ready_interval=READY_INTERVAL_S,
    )
    async with group:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.stop)
        await group.run(work, warm=restore if is_warm else None)


async def _aiokafka(options: MemberOptions) -> None:
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
    options = MemberOptions.of_text(sys.argv[1])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable()
    asyncio.run(_aiokafka(options) if options.kind == "aiokafka" else _ours(options))


if __name__ == "__main__":
    main()
