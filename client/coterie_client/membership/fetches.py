"""Fetching committed offsets, many partitions to a request."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from coterie_client.membership.actions import Failure, FailureKind, Fetched, Position
from coterie_client.membership.context import Context
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.offsets import Pace, PartitionLostError, named
from coterie_client.wire.addresses import Lane, NodeAddress, TopicPartition
from coterie_protocol.consumer import group_by_topic
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import error_for
from coterie_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

__all__ = ["Fetches"]


@dataclass(frozen=True, slots=True)
class _Question:
    """A call that waits for a partition's committed offset."""

    key: Hashable
    #: Whether it is asked for the work on the partition, and not for a copy of its state.
    is_owners: bool


class Fetches:
    """Fetches committed offsets, by one request at a time.

    A question is asked until it is answered, refused for good, or, if the partition's owner asks,
    the partition is lost: another member may commit for it by then.
    """

    def __init__(self, context: Context, lookup: CoordinatorLookup) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._state = context.state
        self._lookup = lookup
        self._pace = Pace(context.backoff())
        self._waiting: dict[TopicPartition, list[_Question]] = {}
        self._sent: dict[TopicPartition, list[_Question]] = {}
        self._is_sent = False

    @property
    def deadline_ms(self) -> int | None:
        """When to send what waits."""
        node = self._lookup.address
        may_send = self._waiting and not self._is_sent and node is not None
        return self._pace.until_ms(node) if may_send else None

    def add(self, key: Hashable, partition: TopicPartition, token: int | None) -> None:
        """Have a committed offset fetched, unless the ownership with this token is over.

        Who does not own the partition, and only keeps its state, has no token.
        """
        question = _Question(key, is_owners=token is not None)
        if question.is_owners and self._state.owned.get(partition) != token:
            self._finish([question], error=PartitionLostError(named(partition)))
        else:
            self._waiting.setdefault(partition, []).append(question)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Fail what their owner asked: these partitions are not owned any more."""
        for partition in partitions:
            for each in (self._waiting, self._sent):
                asked = each.pop(partition, [])
                owners = [question for question in asked if question.is_owners]
                self._finish(owners, error=PartitionLostError(named(partition)))
                others = [question for question in asked if not question.is_owners]
                if others:
                    each[partition] = others

    def advance(self, now_ms: int) -> None:
        """Send what waits, if that may be done now."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return
        assert self._lookup.address is not None
        node = self._lookup.address
        self._sent, self._waiting = self._waiting, {}

        def answered(answer: OffsetFetchResponse | Failure, then_ms: int) -> None:
            self._is_sent = False
            if isinstance(answer, Failure):
                self._failed(answer, node, then_ms)
            else:
                self._take(answer, node, then_ms)
            self._requeue()

        self._is_sent = True
        request = OffsetFetchRequest(
            group_id=self._config.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=entry.topic, partition_indexes=entry.partitions)
                for entry in group_by_topic(self._sent)
            ),
        )
        timeout_ms = self._config.request_timeout_ms
        self._lookup.ask(request, Lane.KEEPALIVE, timeout_ms, answered, now_ms)

    def fail(self, error: Exception) -> None:
        """Let all that is not answered yet fail."""
        for each in (self._sent, self._waiting):
            for asked in each.values():
                self._finish(asked, error=error)
            each.clear()

    def _requeue(self) -> None:
        """Have what was sent and is not settled go along with the next request."""
        for partition, asked in self._sent.items():
            self._waiting.setdefault(partition, [])[:0] = asked
        self._sent = {}

    def _failed(self, failure: Failure, node: NodeAddress, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            for asked in self._sent.values():
                self._finish(asked, error=failure.reason)
            self._sent = {}
            return
        self._pace.failed(node, now_ms)
        self._lookup.forget(f"no answer to a question for offsets: {failure}", now_ms, node)

    def _take(self, answer: OffsetFetchResponse, node: NodeAddress, now_ms: int) -> None:
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
            asked = self._sent.pop(partition)
            if reaction is not Reaction.NONE or found is None:
                self._finish(asked, error=error_for(code, named(partition)))
            elif found.committed_offset < 0:
                self._finish(asked)
            else:
                position = Position(found.committed_offset, found.metadata or "")
                self._finish(asked, position=position)
        self._finish_round(worst, node, now_ms)

    def _finish_round(self, worst: Reaction, node: NodeAddress, now_ms: int) -> None:
        if worst is Reaction.NONE:
            self._pace.succeeded()
            return
        self._pace.failed(node, now_ms)
        if worst is Reaction.FIND_COORDINATOR:
            self._lookup.forget("it does not coordinate the group", now_ms, node)

    def _finish(
        self,
        questions: Iterable[_Question],
        *,
        position: Position | None = None,
        error: Exception | None = None,
    ) -> None:
        for each in questions:
            self._outbox.add(Fetched(each.key, position, error))
