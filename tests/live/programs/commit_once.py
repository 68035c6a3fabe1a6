"""Commits an offset for one partition after another, each once, and tells which were acknowledged.

As no partition is committed twice, a commit that was acknowledged and then lost is missed later.
It is no member of its group: confluent-kafka finds the group's coordinator, and commits there.

    acked PARTITION OFFSET      a commit was acknowledged
    error NAME                  one was not; it is tried again
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.live.programs.lines import say

_PAUSE_S = 0.02


def _commit(consumer: Consumer, offset: TopicPartition) -> KafkaError | None:
    try:
        (answer,) = consumer.commit(offsets=[offset], asynchronous=False)
    except KafkaException as error:
        refusal: KafkaError = error.args[0]
        return refusal
    return answer.error


def main() -> None:
    """Commit until all partitions are through."""
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    consumer = Consumer(
        {
            "bootstrap.servers": given["bootstrap"],
            "group.id": given["group"],
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        }
    )
    for partition in range(int(given["partitions"])):
        offset = partition + 1
        while error := _commit(consumer, TopicPartition(given["topic"], partition, offset)):
            say("error", error.name())
            time.sleep(_PAUSE_S)
        say("acked", partition, offset)
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
