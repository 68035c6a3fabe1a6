"""A member of a group that uses confluent-kafka, which is librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.live.programs.lines import Options, offsets_of, say, say_offsets, say_partitions, serve

_POLL_S = 0.05
_TIMEOUT_S = 20.0


class _Member:
    def __init__(self, options: Options) -> None:
        self._topic = options.topic
        self._is_cooperative = options.assignor.startswith("cooperative")
        self._consumer = Consumer(_configuration(options))

    def run(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        commands = (self.commit, self.committed, self.positions, self.close)
        serve(self._poll, {command.__name__: command for command in commands})

    def _poll(self) -> None:
        message = self._consumer.poll(_POLL_S)
        error = message.error() if message is not None else None
        if error is not None:
            _error(error)

    # -- what the library tells ----------------------------------------------------------------

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            self._consumer.incremental_assign(partitions)
        else:
            self._consumer.assign(partitions)
        say_partitions("assigned", (each.partition for each in partitions))

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        say_partitions("revoked", (each.partition for each in partitions))
        self._give_up(partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        say_partitions("lost", (each.partition for each in partitions))
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            self._consumer.incremental_unassign(partitions)
        else:
            self._consumer.unassign()

    # -- what the test asks --------------------------------------------------------------------

    def commit(self, words: list[str]) -> None:
        offsets = [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in offsets_of(words).items()
        ]
        for each in self._consumer.commit(offsets=offsets, asynchronous=False) or []:
            if each.error is not None:
                raise RuntimeError(each.error)
        say("done commit")

    def committed(self, _: list[str]) -> None:
        answer = self._consumer.committed(self._consumer.assignment(), timeout=_TIMEOUT_S)
        say_offsets("committed", {each.partition: each.offset for each in answer})

    def positions(self, _: list[str]) -> None:
        # A position is that of the last record; before the first, librdkafka has none.
        answer = self._consumer.position(self._consumer.assignment())
        say_offsets("positions", {each.partition: each.offset for each in answer})

    def close(self, _: list[str]) -> None:
        self._consumer.close()
        say("done close")


def _configuration(options: Options) -> dict[str, Any]:
    values: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "client.id": options.client,
        "partition.assignment.strategy": options.assignor,
        "session.timeout.ms": options.session_ms,
        "heartbeat.interval.ms": options.heartbeat_ms,
        "max.poll.interval.ms": options.rebalance_ms,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "error_cb": _error,
        "reconnect.backoff.max.ms": 500,
    }
    if options.instance:
        values["group.instance.id"] = options.instance
    return values


def _error(error: KafkaError) -> None:
    is_fatal = error.fatal() or error.name() == "_FATAL"
    say("fatal" if is_fatal else "error", error.name(), error.str())


if __name__ == "__main__":
    _Member(Options.read()).run()
