"""A member of a group that uses aiokafka."""

from __future__ import annotations

import asyncio
import queue

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.live.programs.lines import (
    Options,
    commands,
    offsets_of,
    say,
    say_offsets,
    say_partitions,
)

_POLL_MS = 50


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        say_partitions("assigned", (each.partition for each in assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        say_partitions("revoked", (each.partition for each in revoked))


class _Member:
    def __init__(self, options: Options) -> None:
        assert options.assignor == "roundrobin"
        self._topic = options.topic
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance,
            client_id=options.client,
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            rebalance_timeout_ms=options.rebalance_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    async def run(self) -> None:
        asked = commands()
        self._consumer.subscribe([self._topic], listener=_Listener())
        await self._consumer.start()
        word = ""
        while word != "close":
            try:
                word, *rest = asked.get_nowait()
            except queue.Empty:
                await self._consumer.getmany(timeout_ms=_POLL_MS)
                continue
            try:
                await getattr(self, word)(rest)
            except Exception as error:  # noqa: BLE001 - the test is told, whatever it is
                say("failed", word, type(error).__name__, error)

    async def commit(self, words: list[str]) -> None:
        offsets = offsets_of(words).items()
        await self._consumer.commit({TopicPartition(self._topic, p): o for p, o in offsets})
        say("done commit")

    async def committed(self, _: list[str]) -> None:
        owned = self._consumer.assignment()
        answers = {each.partition: await self._consumer.committed(each) for each in owned}
        say_offsets("committed", {p: -1 if o is None else o for p, o in answers.items()})

    async def positions(self, _: list[str]) -> None:
        owned = self._consumer.assignment()
        answers = {each.partition: await self._consumer.position(each) for each in owned}
        say_offsets("positions", answers)

    async def close(self, _: list[str]) -> None:
        await self._consumer.stop()
        say("done close")


async def main() -> None:
    """Run until told to close."""
    await _Member(Options.read()).run()


if __name__ == "__main__":
    asyncio.run(main())
