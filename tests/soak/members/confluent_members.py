"""Hosts members that use confluent-kafka, which is librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.soak.members.polling import POLL_S, PollingMember, host
from tests.soak.members.recorder import MemberOrders, MemberRecorder, Orders

_TIMEOUT_S: Final = 30.0


class _Member(PollingMember):
    def __init__(self, orders: Orders, member: MemberOrders, recorder: MemberRecorder) -> None:
        super().__init__(orders, member, recorder)
        self._is_cooperative = member.assignor.startswith("cooperative")
        self._consumer = Consumer(
            {
                "bootstrap.servers": ",".join(orders.bootstrap),
                "group.id": member.group,
                "client.id": member.name,
                "partition.assignment.strategy": member.assignor,
                "session.timeout.ms": orders.session_ms,
                "heartbeat.interval.ms": orders.heartbeat_ms,
                "max.poll.interval.ms": orders.rebalance_ms,
                # As the page on high availability advises; the default is ten seconds.
                "reconnect.backoff.max.ms": 1_000,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            },
            logger=None,
        )
        self._consumer.subscribe(
            [orders.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            self._consumer.incremental_assign(partitions)
        else:
            self._consumer.assign(partitions)
        self.gained(_numbers(partitions))

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up("revoked", partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up("lost", partitions)

    def _give_up(self, what: str, partitions: list[TopicPartition]) -> None:
        self.gave(what, _numbers(partitions))
        if self._is_cooperative:
            self._consumer.incremental_unassign(partitions)
        else:
            self._consumer.unassign()

    def poll(self) -> None:
        message = self._consumer.poll(POLL_S)
        if message is not None and (error := message.error()) is not None:
            self.recorder.tell("error", error=str(error))

    def committed(self, partitions: set[int]) -> dict[int, int]:
        asked = [TopicPartition(self.orders.topic, partition) for partition in partitions]
        answer = self._consumer.committed(asked, timeout=_TIMEOUT_S)
        return {each.partition: max(each.offset, 0) for each in answer}

    def commit(self, offsets: Mapping[int, int]) -> None:
        places = [TopicPartition(self.orders.topic, p, offset) for p, offset in offsets.items()]
        for each in self._consumer.commit(offsets=places, asynchronous=False) or []:
            if each.error is not None:
                raise RuntimeError(each.error)

    def generation(self) -> int:
        return -1

    def close(self) -> None:
        self._consumer.close()


def _numbers(partitions: Iterable[TopicPartition]) -> set[int]:
    return {each.partition for each in partitions}


if __name__ == "__main__":
    host(_Member)
