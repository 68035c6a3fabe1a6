"""A worker that uses confluent-kafka: partitions, commits and fencing from Coterie.

    coterie serve --topic shards:6
    python examples/confluent_worker.py

Coterie needs no special settings. It stores no records, so `poll` returns none: it is called to
stay in the group, and what a partition stands for is up to you.
"""

from __future__ import annotations

import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TOPIC = "shards"

#: The errors of a commit when the group has rebalanced, or is about to.
MOVED_ON = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
)
#: Its errors while no coordinator can be reached, or while it can't reach its store; those with an
#: underscore are of the library itself.
AWAY = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._WAIT_COORD,  # noqa: SLF001
)


class Shards:
    """Our shards, and how far each has come."""

    def __init__(self) -> None:
        self.done: dict[int, int] = {}

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Continue where the last owner stopped."""
        committed = consumer.committed(partitions, timeout=10)
        # An offset below 0 means that none has been committed yet.
        self.done |= {shard.partition: max(shard.offset, 0) for shard in committed}
        consumer.incremental_assign(partitions)
        print("works on", *sorted(self.done), flush=True)

    def revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Finish these: when this returns, another member may get them."""
        numbers = [shard.partition for shard in partitions]
        self.commit(consumer, numbers)
        self.done = {number: done for number, done in self.done.items() if number not in numbers}
        consumer.incremental_unassign(partitions)

    def lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Stop at once: another member may own these already, and commits would fail."""
        for shard in partitions:
            del self.done[shard.partition]
        consumer.incremental_unassign(partitions)

    def commit(self, consumer: Consumer, numbers: list[int]) -> None:
        """Commit how far we have come."""
        offsets = [TopicPartition(TOPIC, number, self.done[number]) for number in numbers]
        if offsets:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                # The group has moved on: the new owners of these shards then repeat what was done
                # since the last commit. Or the error passes: we keep our shards, and the next
                # commit says how far we have come.
                if error.args[0].code() not in MOVED_ON + AWAY:
                    raise


def main(bootstrap: str) -> None:
    """Work until stopped."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "confluent",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
        }
    )
    shards = Shards()
    consumer.subscribe(
        [TOPIC], on_assign=shards.assigned, on_revoke=shards.revoked, on_lost=shards.lost
    )
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    while not stopped:
        consumer.poll(0.5)
        for shard in shards.done:
            shards.done[shard] += 1  # stands for useful work
        shards.commit(consumer, list(shards.done))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "127.0.0.1:9092")
