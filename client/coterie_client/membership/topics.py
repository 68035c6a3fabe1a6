"""Keeps an eye on the topics: how many partitions each has, and when that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coterie_assignors.base import Cluster
from coterie_client.membership.actions import Failure, FailureKind
from coterie_client.membership.context import Context
from coterie_client.membership.events import RetryPlanned, TopicMissing, TopicsChanged
from coterie_client.wire.addresses import ANY, Lane, TopicPartition
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import error_for
from coterie_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

__all__ = ["Topics"]

#: A topic counts as gone, or as having lost partitions, when this many answers in a row say so: a
#: broker that has just started knows no topics for a moment, and one may know less than another.
_ENOUGH_DENIALS: Final = 2

#: After this many answers, a leader decides by what it knows: a topic without a leader may stay so.
_ENOUGH_ANSWERS: Final = 3

#: How soon to look again for a topic that is subscribed to and does not exist.
_MISSING_MS: Final = 5_000

#: Codes that will not change by asking again.
_FINAL: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})


@dataclass(slots=True)
class _Topic:
    """What is known of one topic."""

    #: None as long as nothing is known, and when it is gone.
    partitions: int | None = None
    racks: tuple[frozenset[str], ...] = ()
    denials: int = 0
    is_reported: bool = False

    def deny(self) -> bool:
        """Note an answer that knows less than the ones before; whether to believe it now."""
        self.denials += 1
        return self.denials >= _ENOUGH_DENIALS


@dataclass(slots=True)
class _Asked:
    """A Metadata request that is under way."""

    ticket: int
    topics: frozenset[str]


class Topics:
    """Keeps the partition counts of topics up to date, and tells when they change."""

    def __init__(
        self, context: Context, changed: Callable[[Mapping[str, int | None]], None]
    ) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._state = context.state
        self._fail = context.fail
        self._backoff = context.backoff()
        self._changed = changed
        self._topics: dict[str, _Topic] = {}
        self._asked: _Asked | None = None
        self._due_ms: int | None = None
        #: How many answers there were since the last `refresh`.
        self._answers = 0
        self._is_settled = False

    @property
    def deadline_ms(self) -> int | None:
        """When to ask again."""
        return self._due_ms if self._asked is None and self._topics else None

    def watch(self, topics: frozenset[str], now_ms: int) -> None:
        """Keep an eye on these topics from now on, and on no others."""
        added = topics - self._topics.keys()
        for topic in self._topics.keys() - topics:
            del self._topics[topic]
        self._topics |= {topic: _Topic() for topic in added}
        if added:
            self.refresh(now_ms)

    def learn_of(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Note that these exist, as the leader says; if that is news, see whether it is true."""
        is_news = False
        for name, number in partitions:
            topic = self._topics.get(name)
            if topic is not None and number >= (topic.partitions or 0):
                topic.partitions, is_news = number + 1, True
        if is_news:
            self.refresh(now_ms)

    def refresh(self, now_ms: int) -> None:
        """Ask anew, because what is known may be out of date."""
        if self._asked is not None:
            self._outbox.ignore(self._asked.ticket)
            self._asked = None
        self._answers, self._is_settled = 0, False
        self._due_ms = now_ms

    def has(self, partition: TopicPartition) -> bool:
        """Whether a partition exists, as far as is known."""
        topic = self._topics.get(partition[0])
        return topic is not None and partition[1] < (topic.partitions or 0)

    def look_soon(self, now_ms: int) -> None:
        """Ask now, unless that is being done."""
        if self._due_ms is not None:
            self._due_ms = min(self._due_ms, now_ms)

    def is_fresh(self) -> bool:
        """Whether there were answers about all topics since the last `refresh`."""
        return self._is_settled or self._answers >= _ENOUGH_ANSWERS or not self._topics

    def cluster(self) -> Cluster:
        """The topics that exist, for an assignor."""
        known = {name: topic for name, topic in self._topics.items() if topic.partitions}
        return Cluster(
            {name: topic.partitions or 0 for name, topic in known.items()},
            {name: topic.racks for name, topic in known.items() if any(topic.racks)},
        )

    def advance(self, now_ms: int) -> None:
        """Send Metadata, if it is time to."""
        if self._asked is not None or not self._topics:
            return
        if self._due_ms is None or now_ms < self._due_ms:
            return
        names = frozenset(self._topics)
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in sorted(names)),
            allow_auto_topic_creation=self._config.allow_auto_create_topics,
        )
        timeout_ms = self._config.request_timeout_ms
        ticket = self._outbox.send(request, ANY, Lane.KEEPALIVE, timeout_ms, self._answered)
        self._asked = _Asked(ticket, names)

    def _answered(self, answer: MetadataResponse | Failure, now_ms: int) -> None:
        assert self._asked is not None
        asked, self._asked = self._asked.topics, None
        if isinstance(answer, Failure):
            self._failed(answer, now_ms)
            return
        racks = {broker.node_id: broker.rack for broker in answer.brokers}
        changes: dict[str, int | None] = {}
        settled = True
        for topic in answer.topics:
            if topic.name in self._topics:
                settled &= self._take(topic, racks, changes)
        self._answers += 1
        self._plan(settled=settled and asked >= self._topics.keys(), now_ms=now_ms)
        if changes:
            self._outbox.report(TopicsChanged(topics=changes))
            self._changed(changes)

    def _failed(self, failure: Failure, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        delay_ms = self._backoff.next_ms()
        self._due_ms = now_ms + delay_ms
        what = "look at the topics"
        self._outbox.report(RetryPlanned(what=what, reason=str(failure), delay_ms=delay_ms))

    def _plan(self, *, settled: bool, now_ms: int) -> None:
        if not settled:
            self._due_ms = now_ms + self._backoff.next_ms()
            return
        self._backoff.succeeded()
        self._is_settled = True
        age_ms = self._config.metadata_max_age_ms
        is_missing = any(topic.partitions is None for topic in self._topics.values())
        self._due_ms = now_ms + (min(age_ms, _MISSING_MS) if is_missing else age_ms)

    def _take(
        self,
        answer: MetadataResponseTopic,
        racks: Mapping[int, str | None],
        changes: dict[str, int | None],
    ) -> bool:
        """Note what an answer says about a topic; whether that settles it."""
        assert answer.name is not None
        topic = self._topics[answer.name]
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            count, topic.is_reported = len(answer.partitions), False
            if count < (topic.partitions or 0) and not topic.deny():
                return False
            topic.denials = 0
            if topic.partitions != count:
                topic.partitions = count
                changes[answer.name] = count
            topic.racks = _racks(answer, racks)
            return True
        if code in _FINAL:
            # A topic that only other members want is their trouble: it must not end each leader.
            if answer.name in self._state.subscribed:
                self._fail(error_for(answer.error_code, f"topic {answer.name}"))
            return True
        if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        return self._deny(answer.name, topic, changes)

    def _deny(self, name: str, topic: _Topic, changes: dict[str, int | None]) -> bool:
        if not topic.deny():
            return False
        if topic.partitions is not None:
            topic.partitions = None
            changes[name] = None
        if not topic.is_reported:
            topic.is_reported = True
            self._outbox.report(TopicMissing(topic=name))
        return True


def _racks(
    topic: MetadataResponseTopic, racks: Mapping[int, str | None]
) -> tuple[frozenset[str], ...]:
    """The racks of each partition's replicas, where brokers tell theirs."""
    if not any(racks.values()):
        return ()
    by_index = {
        partition.partition_index: frozenset(
            rack for node in partition.replica_nodes if (rack := racks.get(node))
        )
        for partition in topic.partitions
    }
    return tuple(by_index.get(index, frozenset()) for index in range(len(topic.partitions)))
