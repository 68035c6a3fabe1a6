"""A worker that uses aiokafka: partitions, commits and fencing from Coterie.

    coterie serve --topic shards:6
    python examples/aiokafka_worker.py

Coterie needs no special settings. It stores no records, so nothing is fetched: what a partition
stands for is up to you.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaConnectionError

TOPIC = "shards"
COMMIT_S = 5


class Shards(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Our shards, and how far each has come."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.done: dict[TopicPartition, int] = {}

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Continue where the last owner stopped."""
        self.done |= {shard: await self._consumer.committed(shard) or 0 for shard in assigned}
        print("works on", *sorted(shard.partition for shard in self.done), flush=True)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Finish these: when this returns, another member may get them."""
        await self.commit()
        self.done = {shard: done for shard, done in self.done.items() if shard not in revoked}

    async def commit(self) -> None:
        """Commit how far we have come."""
        if self.done:
            # It fails if the group has rebalanced without us. The new owners of these shards then
            # repeat what was done since the last commit. And while no coordinator can be reached,
            # it would wait for ever, and whoever wants to stop us with it.
            with contextlib.suppress(CommitFailedError, TimeoutError):
                async with asyncio.timeout(COMMIT_S):
                    await self._consumer.commit(self.done)


async def main(bootstrap: str) -> None:
    """Work until stopped."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id="aiokafka", enable_auto_commit=False
    )
    shards = Shards(consumer)
    consumer.subscribe([TOPIC], listener=shards)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await consumer.start()
        while not stopped.is_set():
            await consumer.getmany(timeout_ms=500)
            for shard in shards.done:
                shards.done[shard] += 1  # stands for useful work
            await shards.commit()
    finally:
        # If no coordinator can be reached, it may raise that a task of its own was cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            await consumer.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if sys.argv[1:] else "127.0.0.1:9092"))
    except KafkaConnectionError as error:  # there is no coordinator yet
        sys.exit(str(error))
