"""Hosts members that use Coterie's own client: a task for each partition, which commits."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Final

from coterie_assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from coterie_client import Group, Partition, PartitionLostError
from coterie_client.events import Event, PartitionsLost
from tests.soak.members.recorder import (
    AWAY_S,
    MemberOrders,
    MemberRecorder,
    Orders,
    stop_with_input,
)

_ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    each.name: each for each in (CooperativeStickyAssignor, RangeAssignor)
}


class _Member:
    def __init__(self, orders: Orders, member: MemberOrders, recorder: MemberRecorder) -> None:
        self._orders = orders
        self._member = member
        self._recorder = recorder
        self._committed = asyncio.Event()

    async def run(self, stopped: asyncio.Event) -> None:
        """Work until it has stayed for long enough, or until stopped."""
        orders, member = self._orders, self._member
        async with Group(
            list(orders.bootstrap),
            member.group,
            topics=[orders.topic],
            client_id=member.name,
            assignors=[_ASSIGNORS[member.assignor]()],
            session_timeout=orders.session_ms / 1000,
            heartbeat_interval=orders.heartbeat_ms / 1000,
            rebalance_timeout=orders.rebalance_ms / 1000,
            on_event=self._heed,
        ) as group:
            ending = asyncio.create_task(self._end(group, stopped))
            try:
                await group.run(self._work)
            finally:
                ending.cancel()

    async def _end(self, group: Group, stopped: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._member.stay_s or None):
                await stopped.wait()
        except TimeoutError:
            # When it has just been answered, its leaving will most probably be heard.
            self._committed.clear()
            await self._committed.wait()
        group.stop()

    def _heed(self, event: Event) -> None:
        if isinstance(event, PartitionsLost):
            self._recorder.tell("error", error=f"partitions lost: {event.reason}")

    async def _work(self, partition: Partition) -> None:
        number, token = partition.number, partition.token
        self._recorder.partitions("assigned", {number}, token=token)
        self._recorder.generation(partition.generation)
        try:
            asked_s = time.monotonic()
            position = await partition.committed()
            done = position.offset if position else 0
            self._recorder.offsets("read", asked_s, {number: done})
            await asyncio.sleep(random.uniform(0, self._orders.commit_s))
            while True:
                done += 1
                await self._commit(partition, done)
                await asyncio.sleep(self._orders.commit_s)
        finally:
            self._recorder.partitions("revoked", {number})

    async def _commit(self, partition: Partition, offset: int) -> None:
        asked_s, offsets = time.monotonic(), {partition.number: offset}
        self._recorder.offsets("sent", asked_s, offsets)
        try:
            await partition.commit(offset)
        except PartitionLostError as error:
            self._recorder.offsets("failed", asked_s, offsets, error=repr(error))
            raise
        except (Exception, asyncio.CancelledError) as error:
            self._recorder.offsets("failed", asked_s, offsets, error=repr(error))
            raise
        self._recorder.offsets("acked", asked_s, offsets)
        self._committed.set()


async def _live(orders: Orders, member: MemberOrders, stopped: asyncio.Event) -> None:
    recorder = MemberRecorder(orders, member)
    while not stopped.is_set():
        recorder.begin()
        try:
            await _Member(orders, member, recorder).run(stopped)
        except Exception as error:  # noqa: BLE001  # it is told, whatever it is
            recorder.tell("error", error=repr(error))
        recorder.tell("left")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AWAY_S):
                await stopped.wait()


async def main() -> None:
    """Host the members that the orders name."""
    orders, ended, stopped = Orders.read(), stop_with_input(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for member in orders.members:
            tasks.create_task(_live(orders, member, stopped))
        await asyncio.to_thread(ended.wait)
        stopped.set()


if __name__ == "__main__":
    asyncio.run(main())
