"""One step of the catalogue: what it may look at, and what comes of it.

A handler gets a `Turn` and returns the reply.  Whoever runs the catalogue stores the records
first, then lets the reply go and tells others what changed.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from coterie_server.limit_hit import LimitHit
from coterie_server.topics.ends import PartitionEnds
from coterie_server.topics.records import Gone, Record, TopicRow
from coterie_server.topics.topic_table import Seats, TopicTable

__all__ = ["Answer", "Change", "TopicConfig", "TopicIds", "Turn"]

#: As much of a topic's name is shown: the longest that a topic can have.
_SHOWN_MAX: Final = 249


class TopicIds(Protocol):
    """Where the ids of topics come from; random ones in production, counted ones in tests."""

    def topic_id(self) -> uuid.UUID:
        """An id that no topic has had before, and not the nil one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings that the catalogue goes by, and what it tells of this node."""

    node_id: int
    #: Where clients reach this node.
    host: str
    port: int
    cluster_id: str
    auto_create: bool = True
    #: How many partitions a topic gets when its creator does not say.
    default_partitions: int = 1
    delete_enabled: bool = True
    #: How many partitions a topic may have.
    max_partitions: int = 100_000
    max_topics: int = 100_000
    #: How many partitions all topics may have together.
    max_partitions_in_all: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """That a topic has another number of partitions now, as others must be told."""

    topic: str
    change: Literal["created", "grown", "deleted"]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be done now, in this order: store the records, answer, tell of the changes."""

    #: The reply; None if the client expects none.
    message: Any | None = None
    records: tuple[Record, ...] = ()
    changes: tuple[Change, ...] = ()
    #: How long the reply is to be held back.
    wait_ms: int = 0
    #: Why the connection is to be closed instead of answering; empty if it is not.
    close: str = ""
    #: The limits that kept something from being made.
    hits: tuple[LimitHit, ...] = ()


class Turn:
    """A step that is being taken, at one moment, for one request."""

    __slots__ = (
        "changes",
        "close",
        "config",
        "ends",
        "hits",
        "ids",
        "now_ms",
        "records",
        "seats",
        "table",
        "version",
        "wait_ms",
    )

    def __init__(
        self,
        config: TopicConfig,
        ids: TopicIds,
        table: TopicTable,
        seats: Seats,
        ends: PartitionEnds,
        version: int,
        now_ms: int,
    ) -> None:
        self.config = config
        self.ids = ids
        self.table = table
        self.seats = seats
        self.ends = ends
        self.version = version
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.changes: list[Change] = []
        self.hits: list[LimitHit] = []
        self.wait_ms = 0
        self.close = ""

    def create(self, name: str, partitions: int) -> TopicRow:
        """Make a topic."""
        row = TopicRow(
            name=name,
            topic_id=self.ids.topic_id(),
            partitions=partitions,
            created_at_ms=self.now_ms,
            changed_at_ms=self.now_ms,
        )
        self._save(row, Change(name, "created", 0, partitions))
        return row

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        before = self.table.rows[name]
        row = TopicRow(
            name=name,
            topic_id=before.topic_id,
            partitions=partitions,
            created_at_ms=before.created_at_ms,
            changed_at_ms=self.now_ms,
        )
        self._save(row, Change(name, "grown", before.partitions, partitions))

    def delete(self, name: str) -> None:
        """Take a topic away."""
        self._save(Gone(name), Change(name, "deleted", self.table.counts[name], 0))

    def note_hit(self, setting: str, limit: int, name: str) -> None:
        """Note which limit kept a topic from being made or from growing."""
        self.hits.append(LimitHit(setting, limit, f"topic {name[:_SHOWN_MAX]}"))

    def _save(self, record: Record, change: Change) -> None:
        self.table.apply(record)
        self.records.append(record)
        self.changes.append(change)

    def answer(self, message: Any | None = None) -> Answer:  # noqa: ANN401  # any response
        """What came of the step."""
        return Answer(
            message,
            tuple(self.records),
            tuple(self.changes),
            self.wait_ms,
            self.close,
            tuple(self.hits),
        )
