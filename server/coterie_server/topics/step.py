"""A step of the catalogue: what the rules of a request may look at, change and ask for.

A rule gets a `Step` and a `Request` and returns the response, or `Later` or `HangUp` in its place.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from coterie_protocol.journal import TopicChanged
from coterie_server import step
from coterie_server.step import Outcome
from coterie_server.topics.records import Gone, Record, TopicRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie_server.address import Address
    from coterie_server.security.records import RightsRecord
    from coterie_server.security.rights import Rights
    from coterie_server.topics.ends import PartitionEnds
    from coterie_server.topics.topic_table import MetadataPartitions, TopicTable

__all__ = ["HangUp", "Later", "Nodes", "OneNode", "Request", "Step", "TopicConfig", "TopicIds"]

#: How much of a name is shown to people: as much as the longest that a topic can have.
_SHOWN_MAX: Final = 249


class Request(step.Request, Protocol):
    """A request to the catalogue."""

    @property
    def advertised(self) -> Address:
        """Where clients that came in as this one did reach the node."""


class Nodes(Protocol):
    """The nodes that clients are told of."""

    @property
    def controller_id(self) -> int:
        """The node that creates and deletes topics; -1 if that is not known."""

    def reached_by(self, request: Request) -> Sequence[tuple[int, Address]]:
        """The ids of the nodes, in their order, and where this request's client reaches each."""


class OneNode:
    """A node that has no others beside it."""

    def __init__(self, node_id: int) -> None:
        self.controller_id = node_id

    def reached_by(self, request: Request) -> Sequence[tuple[int, Address]]:
        """Itself, where the client has reached it."""
        return ((self.controller_id, request.advertised),)


class TopicIds(Protocol):
    """Where the ids of topics come from; random ones in production, counted ones in tests."""

    def topic_id(self) -> uuid.UUID:
        """An id that was never used before, and not the nil one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings that the catalogue goes by, and what it tells of its cluster."""

    node_id: int
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
    #: Whether ACLs are looked at; without, they can't be changed either.
    has_authorizer: bool = False
    max_acls: int = 10_000
    #: How many users may have passwords here.
    max_users: int = 10_000


@dataclass(frozen=True, slots=True)
class Later:
    """A response that is to be held back for a while, unless the topics that it names change."""

    message: Any
    wait_ms: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """The connection is to be closed, because the client reads no response."""

    why: str


class Step(step.Step[Record]):
    """A step that is being taken, at one moment, for one request."""

    __slots__ = ("config", "ends", "ids", "metadata_partitions", "nodes", "rights", "table")

    def __init__(
        self,
        config: TopicConfig,
        ids: TopicIds,
        table: TopicTable,
        rights: Rights,
        metadata_partitions: MetadataPartitions,
        ends: PartitionEnds,
        nodes: Nodes,
        now_ms: int,
    ) -> None:
        self.now_ms = now_ms
        self.outcome = Outcome()
        self.config = config
        self.ids = ids
        self.table = table
        self.rights = rights
        self.metadata_partitions = metadata_partitions
        self.ends = ends
        self.nodes = nodes

    def create(self, name: str, partitions: int) -> TopicRow:
        """Make a topic."""
        row = TopicRow(
            name=name,
            topic_id=self.ids.topic_id(),
            partitions=partitions,
            created_at_ms=self.now_ms,
            changed_at_ms=self.now_ms,
        )
        self._save(row, "created", 0, partitions)
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
        self._save(row, "grown", before.partitions, partitions)

    def delete(self, name: str) -> None:
        """Take a topic away."""
        self._save(Gone(name), "deleted", self.table.counts[name], 0)

    def change_rights(self, record: RightsRecord) -> None:
        """Add or take away an ACL or a credential, or note a first user."""
        self.rights.apply(record)
        self.outcome.records.append(record)

    def hit_topic_limit(self, setting: str, limit: int, name: str) -> None:
        """Note that a limit kept a topic from being made or from growing."""
        self.hit_limit(setting, limit, f"topic {name[:_SHOWN_MAX]}")

    def _save(self, record: TopicRow | Gone, change: str, before: int, partitions: int) -> None:
        self.table.apply(record)
        self.outcome.records.append(record)
        self.event(
            TopicChanged(
                topic=record.name,
                change=change,
                partitions_before=before,
                partitions=partitions,
            )
        )
