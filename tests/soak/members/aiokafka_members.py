"""Hosts members that use aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.soak.members.recorder import (
    AWAY_S,
    MemberOrders,
    MemberRecorder,
    Orders,
    stop_with_input,
)

_POLL_MS: Final = 100


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def __init__(self, orders: Orders, member: MemberOrders, recorder: MemberRecorder) -> None:
        assert member.assignor == "roundrobin"
        self._orders = orders
        self._recorder = recorder
        #: The partitions that it owns, and how far each has come since that was read.
        self._owned: set[TopicPartition] = set()
        self._done: dict[int, int] = {}
        #: How often its partitions were taken from it.
        self._revocations = 0
        self._has_just_committed = False
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=list(orders.bootstrap),
            group_id=member.group,
            client_id=member.name,
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            session_timeout_ms=orders.session_ms,
            heartbeat_interval_ms=orders.heartbeat_ms,
            rebalance_timeout_ms=orders.rebalance_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._consumer.subscribe([orders.topic], listener=self)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._owned = set(assigned)
        self._recorder.partitions("assigned", {each.partition for each in assigned})

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._revocations += 1
        self._owned.clear()  # it knows nothing but eager rebalances
        self._done.clear()
        self._recorder.partitions("revoked", {each.partition for each in revoked})

    async def run(self, until_s: float, stopped: asyncio.Event) -> None:
        """Work until a moment, or until stopped."""
        orders = self._orders
        await self._consumer.start()
        due_s = time.monotonic() + random.uniform(0, orders.commit_s)
        while not stopped.is_set():
            # When it has just been answered, its leaving will most probably be heard.
            if time.monotonic() > until_s and self._has_just_committed:
                break
            self._has_just_committed = False
            try:
                await self._consumer.getmany(timeout_ms=_POLL_MS)
                await self._read()
            except Exception as error:  # noqa: BLE001  # it is told, whatever it is
                self._recorder.tell("error", error=repr(error))
            if time.monotonic() >= due_s and self._done:
                due_s = max(due_s + orders.commit_s, time.monotonic())
                await self._count_and_commit()
        self._recorder.tell("left")
        await self._consumer.stop()

    async def _read(self) -> None:
        generation = self._consumer._coordinator.generation  # noqa: SLF001  # nothing public tells
        self._recorder.generation(generation)
        new = [each for each in self._owned if each.partition not in self._done]
        if not new:
            return
        asked_s, before = time.monotonic(), self._revocations
        found = {each.partition: await self._consumer.committed(each) or 0 for each in new}
        self._recorder.offsets("read", asked_s, found)
        if self._revocations == before:
            self._done |= found

    async def _count_and_commit(self) -> None:
        self._done = {partition: done + 1 for partition, done in self._done.items()}
        offsets, asked_s = dict(self._done), time.monotonic()
        places = {TopicPartition(self._orders.topic, p): offset for p, offset in offsets.items()}
        self._recorder.offsets("sent", asked_s, offsets)
        try:
            await self._consumer.commit(places)
        except Exception as error:  # noqa: BLE001  # it is told, whatever it is
            self._recorder.offsets("failed", asked_s, offsets, error=repr(error))
        else:
            self._recorder.offsets("acked", asked_s, offsets)
            self._has_just_committed = True


async def _live(orders: Orders, member: MemberOrders, stopped: asyncio.Event) -> None:
    recorder = MemberRecorder(orders, member)
    while not stopped.is_set():
        recorder.begin()
        stay_s = member.stay_s or float("inf")
        try:
            await _Member(orders, member, recorder).run(time.monotonic() + stay_s, stopped)
        except Exception as error:  # noqa: BLE001  # it is told, whatever it is
            recorder.tell("error", error=repr(error))
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
