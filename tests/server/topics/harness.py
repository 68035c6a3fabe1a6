"""A catalogue with a client and a store around it, in virtual time.

Every request and every reply goes through its bytes, so that a test sees what a client sees.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie_protocol import (
    API_VERSIONS,
    decode,
    decode_response,
    encode,
    encode_response,
    response_class,
)
from coterie_protocol.journal import TopicChanged
from coterie_protocol.messages import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from coterie_protocol.schema import declaration_of
from coterie_server.step import LimitHit, Outcome
from coterie_server.topics import (
    Catalogue,
    HangUp,
    Later,
    PartitionEnds,
    Record,
    TopicConfig,
    from_stored,
    to_stored,
)
from coterie_server.topics.work import CHANGES_AT_ONCE
from tests.support.requests import Asked
from tests.support.turns import finished

if TYPE_CHECKING:
    from coterie_server.security.records import Credentials

__all__ = [
    "CLUSTER",
    "NODE",
    "Answer",
    "CatalogueHarness",
    "CountedIds",
    "api_of",
    "changed",
    "new_topic",
    "replicas",
    "topic_id",
]

NODE = 7
CLUSTER = "the-cluster"


def topic_id(number: int) -> uuid.UUID:
    """The id of the topic that was made as the n-th."""
    return uuid.UUID(int=number)


class CountedIds:
    """Ids that count up from 1."""

    def __init__(self) -> None:
        self.given = 0

    def topic_id(self) -> uuid.UUID:
        """The next number."""
        self.given += 1
        return topic_id(self.given)


def changed(topic: str, change: str, before: int, after: int) -> TopicChanged:
    """What the journal says of a topic that has another number of partitions."""
    return TopicChanged(topic=topic, change=change, partitions_before=before, partitions=after)


@dataclass(slots=True)
class Answer:
    """What came of a request."""

    message: Any = None
    wait_ms: int = 0
    #: Why the connection is closed.
    close: str = ""
    records: list[Record] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)
    limit_hits: tuple[LimitHit, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome[Record]) -> Answer:
        """What an outcome says of its one request, if it was one."""
        answer = cls(None, 0, "", outcome.records, outcome.events, outcome.limit_hits)
        for _, reply in outcome.replies:
            match finished(reply):
                case Later(message, wait_ms):
                    answer.message, answer.wait_ms = message, wait_ms
                case HangUp(why):
                    answer.close = why
                case message:
                    answer.message = message
        return answer


class CatalogueHarness:
    """A catalogue, its store, and all that others were told."""

    def __init__(self, **settings: Any) -> None:
        self.config = TopicConfig(node_id=NODE, cluster_id=CLUSTER, **settings)
        self.ids = CountedIds()
        self.ends = PartitionEnds()
        self.catalogue = Catalogue(self.config, self.ids, self.ends)
        self.now_ms = 1_000
        self.stored: dict[bytes, bytes] = {}
        self.changes: list[Any] = []
        self.answer = Answer()
        #: How many the last request has taken.
        self.steps = 0

    def ask(self, message: Any, version: int | None = None) -> Any:
        """Send a request, in the newest version if none is given; answer what the client reads."""
        api = api_of(message)
        version = API_VERSIONS[api].last if version is None else version
        arrived = decode(type(message), version, encode(message, version))
        self._take(self.catalogue.handle(Asked(arrived, version), self.now_ms))
        frame = encode_response(self.answer.message, version, 1)
        return decode_response(response_class(api), version, frame[4:])[1]

    def send(self, message: Any, version: int) -> Answer:
        """Hand over a request whose reply is not to be read."""
        self._take(self.catalogue.handle(Asked(message, version), self.now_ms))
        return self.answer

    def ensure(self, name: str, partitions: int) -> None:
        """See to it that there is a topic."""
        self._take(self.catalogue.ensure(name, partitions, self.now_ms))

    def ensure_users(self, users: Credentials) -> None:
        """See to it that there are the users of the settings."""
        self._take(self.catalogue.ensure_users(users, self.now_ms))

    def _take(self, outcome: Outcome[Record]) -> None:
        self.steps = 0
        self._note(outcome)
        while (work := self.catalogue.unfinished) is not None and not work.is_over:
            assert len(outcome.records) <= CHANGES_AT_ONCE
            outcome = work.go_on(self.now_ms)
            self._note(outcome)
        self.catalogue.unfinished = None

    def _note(self, outcome: Outcome[Record]) -> None:
        self.steps += 1
        self.answer = answer = Answer.of(outcome)
        self.changes += answer.changes
        for key, value in map(to_stored, answer.records):
            if value is None:
                del self.stored[key]
            else:
                self.stored[key] = value

    def restart(self) -> None:
        """Lose the memory and read back what is stored."""
        self.catalogue = Catalogue(self.config, self.ids, self.ends)
        self.catalogue.recover(from_stored(*row) for row in sorted(self.stored.items()))

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> list[Any]:
        """Ask for topics; answer the results."""
        request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
        return list(self.ask(request).topics)

    def with_topics(self, **counts: int) -> CatalogueHarness:
        """Make topics, and forget that it happened."""
        for name, count in counts.items():
            self.ensure(name, count)
        self.changes.clear()
        return self

    @property
    def counts(self) -> dict[str, int]:
        """A copy of how many partitions each topic has."""
        return dict(self.catalogue.counts)


def api_of(message: Any) -> Any:
    """The API that a message belongs to."""
    return declaration_of(type(message)).api


def new_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignments: tuple[CreatableReplicaAssignment, ...] = (),
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """A topic to ask for."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=assignments,
        configs=tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )


def replicas(index: int, *brokers: int) -> CreatableReplicaAssignment:
    """Which nodes are to hold a partition."""
    return CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
