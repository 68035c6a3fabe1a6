"""A member's commits and its questions for committed offsets, many to a request."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from coterie_client.membership.actions import Committed, Failure, FailureKind, Fetched, Position
from coterie_client.membership.finding import Finder
from coterie_client.membership.ground import Ground
from coterie_client.membership.standing import Identity, Phase
from coterie_client.membership.verdicts import Verdict, verdict_of
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

#: Where a commit is let through: in the others the coordinator is between two generations.
_COMMITTING = frozenset({Phase.PREPARING, Phase.JOINING, Phase.PROVING, Phase.STABLE})


class PartitionLostError(RebalanceInProgressError):
    """The partition is not ours any more, so nothing may be done in its name."""

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
class _Wish:
    """The newest offset to commit for a partition, and all who wait for it."""

    position: Position
    keys: list[Hashable] = field(default_factory=list)


class Commits:
    """Commits offsets: one request under way, everything else waits for the next one.

    A partition's newest offset stands for the older ones.  A commit is tried until it is stored,
    refused for good, or its partition is lost.
    """

    def __init__(self, ground: Ground, finder: Finder) -> None:
        self._config = ground.config
        self._post = ground.post
        self._standing = ground.standing
        self._judge = ground.judge
        self._finder = finder
        self._backoff = ground.backoff()
        self._waiting: dict[TopicPartition, _Wish] = {}
        self._sent: dict[TopicPartition, _Wish] = {}
        self._is_sent = False
        self._sequence = 0
        self._not_before_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        return self._not_before_ms if self._waiting and self._may_send() else None

    def add(self, key: Hashable, partition: TopicPartition, token: int, position: Position) -> None:
        """Have an offset committed in the name of whoever was given the token."""
        if self._standing.owned.get(partition) != token:
            self._refuse([key], partition)
            return
        wish = self._waiting.setdefault(partition, _Wish(position))
        wish.position = position
        wish.keys.append(key)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit of this partition is yet to be stored."""
        return partition in self._waiting or partition in self._sent

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more: what is not stored yet fails."""
        for partition in partitions:
            for wishes in (self._waiting, self._sent):
                wish = wishes.pop(partition, None)
                if wish is not None:
                    self._refuse(wish.keys, partition)

    def advance(self, now_ms: int) -> None:
        """Send what waits, if that may be done."""
        if not self._waiting or not self._may_send() or now_ms < self._not_before_ms:
            return
        assert self._finder.address is not None
        identity, node = self._standing.identity, self._finder.address
        self._sent, self._waiting = self._waiting, {}

        def answered(answer: OffsetCommitResponse | Failure, then_ms: int) -> None:
            self._is_sent = False
            if isinstance(answer, Failure):
                self._failed(answer, node, then_ms)
            else:
                self._answered(answer, identity, then_ms)
            self._again(dict(self._sent))

        self._is_sent = True
        request = self._request(identity, {tp: wish.position for tp, wish in self._sent.items()})
        self._post.send(
            request, self._finder.address, Lane.KEEPALIVE, self._config.request_timeout_ms, answered
        )

    def _may_send(self) -> bool:
        standing = self._standing
        return (
            not self._is_sent
            and self._finder.address is not None
            and standing.identity.is_in_generation
            and standing.phase in _COMMITTING
        )

    def _request(
        self, identity: Identity, positions: Mapping[TopicPartition, Position]
    ) -> OffsetCommitRequest:
        # Each has a higher number than the one before, also if it says the same once more: one that
        # was held up on a connection that we gave up must not undo what was stored since.
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
            sequence=self._sequence if self._standing.numbers_commits else -1,
        )

    def _answered(self, answer: OffsetCommitResponse, identity: Identity, now_ms: int) -> None:
        codes = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }
        judged: dict[Verdict, int] = {}
        for partition, wish in list(self._sent.items()):
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            verdict = verdict_of(code)
            if verdict is Verdict.FINE:
                self._finish(partition, wish, None)
            elif verdict is Verdict.FATAL or verdict is Verdict.TAKE_ID:
                self._finish(partition, wish, error_for(code, _named(partition)))
            else:
                judged[verdict] = code
        if not judged:
            self._backoff.reset()
            return
        self._not_before_ms = now_ms + self._backoff.next_ms()
        for code in judged.values():
            self._judge(code, identity, now_ms)

    def _failed(self, failure: Failure, node: NodeAddress, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            for partition, wish in list(self._sent.items()):
                self._finish(partition, wish, failure.reason)
            return
        self._not_before_ms = now_ms + self._backoff.next_ms()
        self._finder.forget(f"no answer to a commit: {failure}", now_ms, node)

    def _again(self, unfinished: Mapping[TopicPartition, _Wish]) -> None:
        """What was sent and is not settled goes along with the next request."""
        self._sent = {}
        for partition, wish in unfinished.items():
            newer = self._waiting.get(partition)
            if newer is None:
                self._waiting[partition] = wish
            else:
                newer.keys[:0] = wish.keys

    def _finish(self, partition: TopicPartition, wish: _Wish, error: Exception | None) -> None:
        del self._sent[partition]
        for key in wish.keys:
            self._post.do(Committed(key, error))

    def _refuse(self, keys: Iterable[Hashable], partition: TopicPartition) -> None:
        error = PartitionLostError(_named(partition))
        for key in keys:
            self._post.do(Committed(key, error))


class Fetches:
    """Asks for committed offsets."""

    def __init__(self, ground: Ground, finder: Finder) -> None:
        self._config = ground.config
        self._post = ground.post
        self._finder = finder
        self._backoff = ground.backoff()
        self._waiting: dict[TopicPartition, list[Hashable]] = {}
        self._sent: dict[TopicPartition, list[Hashable]] = {}
        self._is_sent = False
        self._asked: NodeAddress | None = None
        self._not_before_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        may_send = self._waiting and not self._is_sent and self._finder.address is not None
        return self._not_before_ms if may_send else None

    def add(self, key: Hashable, partition: TopicPartition) -> None:
        """Have a partition's committed offset told."""
        self._waiting.setdefault(partition, []).append(key)

    def advance(self, now_ms: int) -> None:
        """Send what waits, if that may be done."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return
        assert self._finder.address is not None
        self._sent, self._waiting = self._waiting, {}
        self._is_sent, self._asked = True, self._finder.address
        request = OffsetFetchRequest(
            group_id=self._config.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=entry.topic, partition_indexes=entry.partitions)
                for entry in group_by_topic(self._sent)
            ),
        )
        self._post.send(
            request,
            self._finder.address,
            Lane.KEEPALIVE,
            self._config.request_timeout_ms,
            self._answered,
        )

    def fail(self, error: Exception) -> None:
        """Nothing more will be told."""
        for wishes in (self._sent, self._waiting):
            for keys in wishes.values():
                self._finish(keys, error=error)
            wishes.clear()

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
        self._not_before_ms = now_ms + self._backoff.next_ms()
        self._finder.forget(f"no answer to a question for offsets: {failure}", now_ms, self._asked)

    def _take(self, answer: OffsetFetchResponse, now_ms: int) -> None:
        answers = {
            (topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        worst = Verdict.FINE
        for partition in list(self._sent):
            found = answers.get(partition)
            code = answer.error_code or (
                found.error_code if found else ErrorCode.UNKNOWN_SERVER_ERROR
            )
            verdict = verdict_of(code)
            if verdict in (Verdict.RETRY, Verdict.SEEK):
                worst = verdict
                continue
            keys = self._sent.pop(partition)
            if verdict is not Verdict.FINE or found is None:
                self._finish(keys, error=error_for(code, _named(partition)))
            elif found.committed_offset < 0:
                self._finish(keys)
            else:
                position = Position(found.committed_offset, found.metadata or "")
                self._finish(keys, position=position)
        self._look_again(worst, now_ms)

    def _look_again(self, worst: Verdict, now_ms: int) -> None:
        if worst is Verdict.FINE:
            self._backoff.reset()
            return
        self._not_before_ms = now_ms + self._backoff.next_ms()
        if worst is Verdict.SEEK:
            self._finder.forget("it does not coordinate the group", now_ms, self._asked)

    def _finish(
        self,
        keys: Iterable[Hashable],
        *,
        position: Position | None = None,
        error: Exception | None = None,
    ) -> None:
        for key in keys:
            self._post.do(Fetched(key, position, error))


def _entry(number: int, position: Position) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_metadata=position.metadata,
    )


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}[{partition[1]}]"
