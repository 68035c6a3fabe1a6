"""Hosts members that use kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.soak.members.polling import POLL_S, PollingMember, host
from tests.soak.members.recorder import MemberOrders, MemberRecorder, Orders
from tests.support.kafka_python import poll_on

_ASSIGNORS: Final = {
    "cooperative-sticky": CooperativeStickyAssignor,
    "range": RangePartitionAssignor,
}


class _Member(PollingMember, ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def __init__(self, orders: Orders, member: MemberOrders, recorder: MemberRecorder) -> None:
        super().__init__(orders, member, recorder)
        self._consumer = KafkaConsumer(
            bootstrap_servers=list(orders.bootstrap),
            group_id=member.group,
            client_id=member.name,
            partition_assignment_strategy=(_ASSIGNORS[member.assignor],),
            session_timeout_ms=orders.session_ms,
            heartbeat_interval_ms=orders.heartbeat_ms,
            max_poll_interval_ms=orders.rebalance_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._consumer.subscribe([orders.topic], listener=self)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.gained({each.partition for each in assigned})

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.gave("revoked", {each.partition for each in revoked})

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.gave("lost", {each.partition for each in lost})

    def poll(self) -> None:
        poll_on(self._consumer, round(POLL_S * 1000))

    def committed(self, partitions: set[int]) -> dict[int, int]:
        keys = {partition: TopicPartition(self.orders.topic, partition) for partition in partitions}
        return {partition: self._consumer.committed(key) or 0 for partition, key in keys.items()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._consumer.commit(
            {
                TopicPartition(self.orders.topic, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            }
        )

    def generation(self) -> int:
        generation = self._consumer._coordinator._generation  # noqa: SLF001  # nothing public tells
        return int(generation.generation_id)

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    host(_Member)
