"""A member of a group that uses kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.live.programs.lines import Options, offsets_of, say, say_offsets, say_partitions, serve
from tests.support.kafka_python import poll_on

_POLL_MS = 50
_ASSIGNORS = {
    "cooperative-sticky": CooperativeStickyAssignor,
    "range": RangePartitionAssignor,
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        say_partitions("assigned", (each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        say_partitions("revoked", (each.partition for each in revoked))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        say_partitions("lost", (each.partition for each in lost))


def main() -> None:
    """Run until told to close."""
    options = Options.read()
    consumer = KafkaConsumer(**_configuration(options))

    def commit(words: list[str]) -> None:
        offsets = {
            TopicPartition(options.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets_of(words).items()
        }
        consumer.commit(offsets)
        say("done commit")

    def committed(_: list[str]) -> None:
        owned = consumer.assignment()
        say_offsets("committed", {each.partition: consumer.committed(each) or -1 for each in owned})

    def positions(_: list[str]) -> None:
        owned = consumer.assignment()
        say_offsets("positions", {each.partition: consumer.position(each) for each in owned})

    def close(_: list[str]) -> None:
        consumer.close()
        say("done close")

    consumer.subscribe([options.topic], listener=_Listener())
    serve(
        lambda: poll_on(consumer, _POLL_MS),
        {"commit": commit, "committed": committed, "positions": positions, "close": close},
    )


def _configuration(options: Options) -> dict[str, Any]:
    values: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap,
        "group_id": options.group,
        "client_id": options.client,
        "partition_assignment_strategy": (_ASSIGNORS[options.assignor],),
        "session_timeout_ms": options.session_ms,
        "heartbeat_interval_ms": options.heartbeat_ms,
        "max_poll_interval_ms": options.rebalance_ms,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "reconnect_backoff_max_ms": 500,
    }
    if options.instance:
        values["group_instance_id"] = options.instance
    return values


if __name__ == "__main__":
    main()
