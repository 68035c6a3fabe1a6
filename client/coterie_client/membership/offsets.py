"""Committing offsets and fetching committed ones, many partitions to a request."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from coterie_client.backoff import Backoff
from coterie_client.membership.actions import Committed, Failure, FailureKind, Fetched, Position
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
from coterie_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

__all__ = ["Commits", "Fetches", "PartitionLostError"]


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


class Commits:
    """Commits offsets, by one request at a time; what comes meanwhile waits for the next one.

    A partition's newest offset stands for the older ones.  A commit is tried until it is stored,
    refused for good, or its partition is lost.
    """

    def __init__(self, context: Context, lookup: CoordinatorLookup) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._state = context.state
        self._react = context.react
        self._lookup = lookup
        self._backoff = context.backoff()
        self._waiting: dict[TopicPartition, _Pending] = {}
        self._sent: dict[TopicPartition, _Pending] = {}
        self._is_sent = False
        self._sequence = 0
        self._not_before_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        return self._not_before_ms if self._waiting and self._may_send() else None

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
        if not self._waiting or not self._may_send() or now_ms < self._not_before_ms:
            return
        assert self._lookup.address is not None
        identity, node = self._state.identity, self._lookup.address
        self._sent, self._waiting = self._waiting, {}

        def answered(answer: OffsetCommitResponse | Failure, then_ms: int) -> None:
            self._is_sent = False
            if isinstance(answer, Failure):
                self._failed(answer, node, then_ms)
            else:
                self._answered(answer, identity, then_ms)
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

    def _answered(self, answer: OffsetCommitResponse, identity: Identity, now_ms: int) -> None:
        codes = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }
        asked_for: dict[Reaction, int] = {}
        for partition, pending in list(self._sent.items()):
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            reaction = reaction_to(code)
            if reaction is Reaction.NONE:
                self._finish(partition, pending, None)
            elif reaction is Reaction.FAIL or reaction is Reaction.TAKE_ID:
                self._finish(partition, pending, error_for(code, _named(partition)))
            else:
                asked_for[reaction] = code
        if not asked_for:
            self._backoff.succeeded()
            return
        for code in asked_for.values():
            self._react(code, identity, now_ms)
        self._not_before_ms = now_ms + _pause_ms(self._lookup, self._backoff)

    def _failed(self, failure: Failure, node: NodeAddress, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            for partition, pending in list(self._sent.items()):
                self._finish(partition, pending, failure.reason)
            return
        self._lookup.forget(f"no answer to a commit: {failure}", now_ms, node)
        self._not_before_ms = now_ms + _pause_ms(self._lookup, self._backoff)

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
        error = PartitionLostError(_named(partition))
        for key in keys:
            self._outbox.add(Committed(key, error))


class Fetches:
    """Fetches committed offsets, by one request at a time."""

    def __init__(self, context: Context, lookup: CoordinatorLookup) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._lookup = lookup
        self._backoff = context.backoff()
        self._waiting: dict[TopicPartition, list[Hashable]] = {}
        self._sent: dict[TopicPartition, list[Hashable]] = {}
        self._is_sent = False
        self._asked: NodeAddress | None = None
        self._not_before_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        may_send = self._waiting and not self._is_sent and self._lookup.address is not None
        return self._not_before_ms if may_send else None

    def add(self, key: Hashable, partition: TopicPartition) -> None:
        """Have a partition's committed offset fetched."""
        self._waiting.setdefault(partition, []).append(key)

    def advance(self, now_ms: int) -> None:
        """Send what waits, if that may be done now."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return
        assert self._lookup.address is not None
        self._sent, self._waiting = self._waiting, {}
        self._is_sent, self._asked = True, self._lookup.address
        request = OffsetFetchRequest(
            group_id=self._config.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=entry.topic, partition_indexes=entry.partitions)
                for entry in group_by_topic(self._sent)
            ),
        )
        timeout_ms = self._config.request_timeout_ms
        self._lookup.ask(request, Lane.KEEPALIVE, timeout_ms, self._answered, now_ms)

    def fail(self, error: Exception) -> None:
        """Let all that is not answered yet fail."""
        for each in (self._sent, self._waiting):
            for keys in each.values():
                self._finish(keys, error=error)
            each.clear()

    def _answered(self, answer: OffsetFetchResponse | Failure, now_ms: int) -> None:
        self._is_sent = False
        if isinstance(answer, Failure):
            self._failed(answer, now_ms)
        else:
            self._take(answer, now_ms)
        for partition, keys in self._sent.items():
            self._waiting.setdefault(partition, [])[:0] = keys
        self._sent = {}

    def _failed(self, failure: Failure, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            for keys in self._sent.values():
                self._finish(keys, error=failure.reason)
            self._sent = {}
            return
        self._lookup.forget(f"no answer to a question for offsets: {failure}", now_ms, self._asked)
        self._not_before_ms = now_ms + _pause_ms(self._lookup, self._backoff)

    def _take(self, answer: OffsetFetchResponse, now_ms: int) -> None:
        answers = {
            (topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        worst = Reaction.NONE
        for partition in list(self._sent):
            found = answers.get(partition)
            code = answer.error_code or (
                found.error_code if found else ErrorCode.UNKNOWN_SERVER_ERROR
            )
            reaction = reaction_to(code)
            if reaction in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
                worst = reaction
                continue
            keys = self._sent.pop(partition)
            if reaction is not Reaction.NONE or found is None:
                self._finish(keys, error=error_for(code, _named(partition)))
            elif found.committed_offset < 0:
                self._finish(keys)
            else:
                position = Position(found.committed_offset, found.metadata or "")
                self._finish(keys, position=position)
        self._finish_round(worst, now_ms)

    def _finish_round(self, worst: Reaction, now_ms: int) -> None:
        if worst is Reaction.NONE:
            self._backoff.succeeded()
            return
        if worst is Reaction.FIND_COORDINATOR:
            self._lookup.forget("it does not coordinate the group", now_ms, self._asked)
        self._not_before_ms = now_ms + _pause_ms(self._lookup, self._backoff)

    def _finish(
        self,
        keys: Iterable[Hashable],
        *,
        position: Position | None = None,
        error: Exception | None = None,
    ) -> None:
        for key in keys:
            self._outbox.add(Fetched(key, position, error))


def _entry(number: int, position: Position) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_metadata=position.metadata,
    )


def _pause_ms(lookup: CoordinatorLookup, backoff: Backoff) -> int:
    """How long to wait before another attempt, unless the coordinator has to be found first.

    That has pauses of its own, and who has found it has waited long enough.
    """
    return 0 if lookup.address is None else backoff.next_ms()


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}[{partition[1]}]"
