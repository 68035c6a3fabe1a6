"""Committing offsets, many partitions to a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from coterie_client.backoff import Backoff
from coterie_client.membership.actions import Committed, Failure, FailureKind, Position
from coterie_client.membership.context import Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.phases import COMMITTING
from coterie_client.wire.addresses import Lane, NodeAddress, TopicPartition
from coterie_protocol.consumer import group_by_topic
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import RebalanceInProgressError, error_for
from coterie_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

__all__ = ["Commits", "Pace", "PartitionLostError", "named"]


class PartitionLostError(RebalanceInProgressError):
    """The partition is not ours any more, so nothing may be committed for it."""

    def __init__(self, detail: str | None = None, reason: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        if reason is not None:
            self.args = (detail, reason)

    def __str__(self) -> str:
        # Kafka's sentence is about a rebalance, and there need not be one.
        sentence = f"{self.detail or 'the partition'} is not ours any more"
        return f"{sentence}: {self.reason}" if self.reason else sentence


@dataclass(slots=True)
class _Pending:
    """The newest offset to commit for a partition, and the keys of all calls that wait for it."""

    position: Position
    keys: list[Hashable] = field(default_factory=list)


class Pace:
    """How long to wait with another request to the node to which one has failed."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._node: NodeAddress | None = None
        self._until_ms = 0

    def until_ms(self, node: NodeAddress | None) -> int:
        """When a request may be sent to a node: at once, if it is another one.

        Who has looked for the coordinator, and found another, has waited long enough.
        """
        return self._until_ms if node == self._node else 0

    def failed(self, node: NodeAddress, now_ms: int) -> None:
        """Wait a little longer each time."""
        if node != self._node:
            self._backoff.succeeded()
        self._node, self._until_ms = node, now_ms + self._backoff.next_ms()

    def succeeded(self) -> None:
        """Forget all failures."""
        self._backoff.succeeded()


class Commits:
    """Commits offsets, by one request at a time; what comes meanwhile waits for the next one.

    A partition's newest offset stands for the older ones.  A commit is tried until it is stored,
    refused for good, or its partition is lost.  `missed` is told of those that the coordinator does
    not know.
    """

    def __init__(
        self,
        context: Context,
        lookup: CoordinatorLookup,
        missed: Callable[[Collection[TopicPartition], int], None],
    ) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._state = context.state
        self._react = context.react
        self._lookup = lookup
        self._missed = missed
        self._pace = Pace(context.backoff())
        self._waiting: dict[TopicPartition, _Pending] = {}
        self._sent: dict[TopicPartition, _Pending] = {}
        self._is_sent = False
        self._sequence = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        if not self._waiting or not self._may_send():
            return None
        return self._pace.until_ms(self._lookup.address)

    def add(self, key: Hashable, partition: TopicPartition, token: int, position: Position) -> None:
        """Have an offset committed, unless the ownership with this token is over."""
        if self._state.owned.get(partition) != token:
            self._refuse([key], partition)
            return
        pending = self._waiting.setdefault(partition, _Pending(position))
        pending.position = position
        pending.keys.append(key)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit of this partition is yet to be stored."""
        return partition in self._waiting or partition in self._sent

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Fail what is not stored yet: these partitions are not owned any more."""
        for partition in partitions:
            for each in (self._waiting, self._sent):
                pending = each.pop(partition, None)
                if pending is not None:
                    self._refuse(pending.keys, partition)

    def advance(self, now_ms: int) -> None:
        """Send what waits, if that may be done now."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return
        assert self._lookup.address is not None
        identity, node = self._state.identity, self._lookup.address
        self._sent, self._waiting = self._waiting, {}

        def answered(answer: OffsetCommitResponse | Failure, then_ms: int) -> None:
            self._is_sent = False
            if isinstance(answer, Failure):
                self._failed(answer, node, then_ms)
            else:
                self._answered(answer, identity, node, then_ms)
            self._requeue(dict(self._sent))

        self._is_sent = True
        request = self._request(
            identity, {tp: pending.position for tp, pending in self._sent.items()}
        )
        timeout_ms = self._config.request_timeout_ms
        self._lookup.ask(request, Lane.KEEPALIVE, timeout_ms, answered, now_ms)

    def _may_send(self) -> bool:
        state = self._state
        return (
            not self._is_sent
            and self._lookup.address is not None
            and state.identity.is_in_generation
            and state.phase in COMMITTING
        )

    def _request(
        self, identity: Identity, positions: Mapping[TopicPartition, Position]
    ) -> OffsetCommitRequest:
        # Each attempt has a higher number than the one before, even if it repeats that: a commit
        # held up on a connection that was given up must not undo what was stored since.
        self._sequence += 1
        return OffsetCommitRequest(
            group_id=self._config.group,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=self._config.instance,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=entry.topic,
                    partitions=tuple(
                        _entry(number, positions[entry.topic, number])
                        for number in entry.partitions
                    ),
                )
                for entry in group_by_topic(positions)
            ),
            sequence=self._sequence if self._state.numbers_commits else -1,
        )

    def _answered(
        self, answer: OffsetCommitResponse, identity: Identity, node: NodeAddress, now_ms: int
    ) -> None:
        codes = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }
        unknown = [p for p in self._sent if codes.get(p) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if unknown:
            self._missed(unknown, now_ms)
        asked_for: dict[Reaction, int] = {}
        for partition, pending in list(self._sent.items()):
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            reaction = reaction_to(code)
            if reaction is Reaction.NONE:
                self._finish(partition, pending, None)
            elif reaction is Reaction.FAIL or reaction is Reaction.TAKE_ID:
                self._finish(partition, pending, error_for(code, named(partition)))
            else:
                asked_for[reaction] = code
        if not asked_for:
            self._pace.succeeded()
            return
        self._pace.failed(node, now_ms)
        for code in asked_for.values():
            self._react(code, identity, now_ms)

    def _failed(self, failure: Failure, node: NodeAddress, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            for partition, pending in list(self._sent.items()):
                self._finish(partition, pending, failure.reason)
            return
        self._pace.failed(node, now_ms)
        self._lookup.forget(f"no answer to a commit: {failure}", now_ms, node)

    def _requeue(self, unfinished: Mapping[TopicPartition, _Pending]) -> None:
        """Have what was sent and is not settled go along with the next request."""
        self._sent = {}
        for partition, pending in unfinished.items():
            newer = self._waiting.get(partition)
            if newer is None:
                self._waiting[partition] = pending
            else:
                newer.keys[:0] = pending.keys

    def _finish(
        self, partition: TopicPartition, pending: _Pending, error: Exception | None
    ) -> None:
        del self._sent[partition]
        for key in pending.keys:
            self._outbox.add(Committed(key, error))

    def _refuse(self, keys: Iterable[Hashable], partition: TopicPartition) -> None:
        error = PartitionLostError(named(partition))
        for key in keys:
            self._outbox.add(Committed(key, error))


def _entry(number: int, position: Position) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_metadata=position.metadata,
    )


def named(partition: TopicPartition) -> str:
    """A partition in words."""
    return f"{partition[0]}[{partition[1]}]"
