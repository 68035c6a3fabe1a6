"""A worker that uses kafka-python: partitions, commits and fencing from Coterie.

    coterie serve --topic shards:6
    python examples/kafka_python_worker.py

Nothing has to be set for Coterie. It stores no records, so `poll` returns none: it is called to
stay in the group, and what a partition stands for is up to you.
"""

from __future__ import annotations

import contextlib
import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError, RebalanceInProgressError

TOPIC = "shards"


class Shards(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """How far we are with each of our shards."""

    def __init__(self) -> None:
        self.done: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Do nothing: in here kafka-python 3 can't ask what was committed."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Forget these: when this returns, they may go to somebody else."""
        self.done = {shard: done for shard, done in self.done.items() if shard not in revoked}


def main(bootstrap: str) -> None:
    """Work until asked to stop."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id="kafka-python", enable_auto_commit=False
    )
    shards = Shards()
    consumer.subscribe([TOPIC], listener=shards)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    while not stopped:
        # Shards come and go in here only.
        consumer.poll(timeout_ms=500)
        if new := consumer.assignment() - shards.done.keys():
            shards.done |= {shard: consumer.committed(shard) or 0 for shard in new}
            print("works on", *sorted(shard.partition for shard in shards.done), flush=True)
        for shard in shards.done:
            shards.done[shard] += 1  # in place of something useful
        if shards.done:
            offsets = {s: OffsetAndMetadata(n, "", -1) for s, n in shards.done.items()}
            # It fails while the group rebalances, in which `poll` takes part. Whoever has these
            # shards then does again what was done since the last commit.
            with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
                consumer.commit(offsets)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "127.0.0.1:9092")
