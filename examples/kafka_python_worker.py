"""A worker that uses kafka-python: partitions, commits and fencing from Coterie.

    coterie serve --topic shards:6
    python examples/kafka_python_worker.py

Coterie needs no special settings. It stores no records, so `poll` returns none: it is called to
stay in the group, and what a partition stands for is up to you.
"""

from __future__ import annotations

import contextlib
import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError, RebalanceInProgressError, RetriableError

TOPIC = "shards"


class Shards(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Our shards, and how far each has come."""

    def __init__(self) -> None:
        self.done: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Do nothing: kafka-python 3 can't fetch committed offsets in here."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Forget these: when this returns, another member may get them."""
        self.done = {shard: done for shard, done in self.done.items() if shard not in revoked}


def work(consumer: KafkaConsumer, shards: Shards) -> None:
    """Take part in the group, do a bit on each shard, and commit how far we have come."""
    # Shards are assigned and revoked in here only.
    consumer.poll(timeout_ms=500)
    if new := consumer.assignment() - shards.done.keys():
        shards.done |= {shard: consumer.committed(shard) or 0 for shard in new}
        print("works on", *sorted(shard.partition for shard in shards.done), flush=True)
    for shard in shards.done:
        shards.done[shard] += 1  # stands for useful work
    if shards.done:
        consumer.commit({s: OffsetAndMetadata(n, "", -1) for s, n in shards.done.items()})


def main(bootstrap: str) -> None:
    """Work until stopped."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id="kafka-python", enable_auto_commit=False
    )
    shards = Shards()
    consumer.subscribe([TOPIC], listener=shards)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    while not stopped:
        # A commit fails while the group rebalances, in which `poll` takes part. The new owners of
        # these shards then repeat what was done since the last commit. And while no coordinator
        # can be reached, any of the calls may raise an error that passes: we keep our shards.
        with contextlib.suppress(CommitFailedError, RebalanceInProgressError, RetriableError):
            work(consumer, shards)
    consumer.close()


if __name__ == "__main__":
    # The consumer is made when a coordinator has answered; Ctrl-C may come before.
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1] if sys.argv[1:] else "127.0.0.1:9092")
