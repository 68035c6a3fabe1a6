"""The catalogue of topics: requests go in, what is to be done comes out.

It reads no clock, draws no random numbers and awaits nothing.  The shard that runs it hands in the
time, stores the records, sends the replies and tells the groups of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.messages import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from coterie_server.security.records import CredentialRecord, FirstUserRecord
from coterie_server.security.rights import Rights
from coterie_server.step import Refusal
from coterie_server.topics.acl_requests import create_acls, delete_acls, describe_acls
from coterie_server.topics.checks import CLUSTER_METADATA, Quota, check_new_name
from coterie_server.topics.create_partitions import create_partitions
from coterie_server.topics.create_topics import create_topics
from coterie_server.topics.delete_topics import delete_topics
from coterie_server.topics.ends import PartitionEnds
from coterie_server.topics.fetch import fetch
from coterie_server.topics.list_offsets import list_offsets
from coterie_server.topics.metadata import metadata
from coterie_server.topics.produce import produce
from coterie_server.topics.records import TopicRow
from coterie_server.topics.step import Nodes, OneNode, Request, Step, TopicConfig, TopicIds
from coterie_server.topics.topic_table import MetadataPartitions, TopicTable
from coterie_server.topics.user_requests import alter_users, describe_users
from coterie_server.topics.work import Work
from coterie_server.turns import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from coterie_server.security.records import Credentials
    from coterie_server.step import Outcome
    from coterie_server.topics.records import Record, Row
    from coterie_server.turns import Making

__all__ = ["Catalogue", "TopicRefusal"]

#: Each returns the response, or `Later` or `HangUp` in its place.
_RULES: Final[dict[type[Any], Callable[[Step, Request], Any]]] = {
    CreatePartitionsRequest: create_partitions,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    DescribeAclsRequest: describe_acls,
    DescribeUserScramCredentialsRequest: describe_users,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    MetadataRequest: metadata,
    ProduceRequest: produce,
}

#: Those of requests that may change very many rows.
_IN_STEPS: Final[dict[type[Any], Callable[[Step, Request], Making[Any]]]] = {
    AlterUserScramCredentialsRequest: alter_users,
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
}


#: How many rows are read in one turn of the event loop: one or two milliseconds.
_ROWS_AT_ONCE: Final = 100


class TopicRefusal(Refusal):
    """A topic can't be as its operator wants it."""


class Catalogue:
    """The topics of a node; the shards of its groups keep the `ends` of their partitions."""

    def __init__(
        self,
        config: TopicConfig,
        ids: TopicIds,
        ends: PartitionEnds | None = None,
        nodes: Nodes | None = None,
    ) -> None:
        self._config = config
        self._ids = ids
        self._ends = ends or PartitionEnds()
        self._table = TopicTable()
        #: The ACLs and users, to be shown and not to be changed.
        self.rights = Rights()
        self._metadata_partitions = MetadataPartitions()
        #: A request about rights that takes further steps; until then, no other may be handled.
        self.unfinished: Work | None = None
        #: The nodes that clients are told of.
        self.nodes: Nodes = nodes or OneNode(config.node_id)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many partitions each topic has; always the same mapping, kept up to date."""
        return self._table.counts

    @property
    def topics(self) -> Mapping[str, TopicRow]:
        """The topics by name, to be shown and not to be changed."""
        return self._table.rows

    @property
    def config(self) -> TopicConfig:
        """The settings that it goes by."""
        return self._config

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic with an id."""
        row = self._table.by_id(topic_id)
        return None if row is None else row.name

    def recover(self, rows: Iterable[Row]) -> None:
        """Forget everything and take up where the stored rows leave off."""
        for _ in self.recover_in_turns(rows):
            pass

    def recover_in_turns(self, rows: Iterable[Row]) -> Iterator[None]:
        """The same, in pieces."""
        self._table.clear()
        self.rights.clear()
        piece = Piece(_ROWS_AT_ONCE)
        for row in rows:
            if isinstance(row, TopicRow):
                self._table.apply(row)
            else:
                self.rights.apply(row)
            if piece.is_whole():
                yield

    def only_tell(self) -> None:
        """Make no topics from now on because a client asks for them in Metadata."""
        self._config = replace(self._config, auto_create=False)

    def handle(self, request: Request, now_ms: int) -> Outcome[Record]:
        """Take a request; its reply is in the outcome, unless the request is `unfinished`."""
        step = self._step(now_ms)
        if (rule := _IN_STEPS.get(type(request.message))) is not None:
            work = Work(step, request, rule(step, request))
            outcome = work.go_on(now_ms)
            self.unfinished = None if work.is_over else work
            return outcome
        step.reply(request, _RULES[type(request.message)](step, request))
        return step.outcome

    def ensure(self, name: str, partitions: int, now_ms: int) -> Outcome[Record]:
        """See to it that a topic has so many partitions, or raise `TopicRefusal`.

        It is created, or grows, or stays as it is.  It never shrinks: a worker on a partition
        could not be told that it is gone, and its offsets would be orphans.
        """
        step = self._step(now_ms)
        current = self._table.counts.get(name)
        if partitions != current:
            self._check(step, name, partitions, current)
            if current is None:
                step.create(name, partitions)
            else:
                step.grow(name, partitions)
        return step.outcome

    def ensure_users(self, users: Credentials, now_ms: int) -> Outcome[Record]:
        """See to it that there are these users, or were once.

        Those who are there keep their passwords, and those who were removed stay away.
        """
        step = self._step(now_ms)
        known = frozenset(self.rights.credentials) | self.rights.first_users
        for (user, mechanism), credential in users.items():
            if user not in known:
                step.change_rights(CredentialRecord(user, mechanism, credential))
        for user in dict.fromkeys(user for user, _ in users):
            if user not in self.rights.first_users:
                step.change_rights(FirstUserRecord(user))
        return step.outcome

    def removed(self, users: Credentials) -> list[str]:
        """Those of some first users who were there once and are not any more."""
        gone = self.rights.first_users - self.rights.credentials.keys()
        return sorted(gone.intersection(user for user, _ in users))

    def _step(self, now_ms: int) -> Step:
        return Step(
            self._config,
            self._ids,
            self._table,
            self.rights,
            self._metadata_partitions,
            self._ends,
            self.nodes,
            now_ms,
        )

    def _check(self, step: Step, name: str, partitions: int, current: int | None) -> None:
        if current is None and name == CLUSTER_METADATA:
            raise TopicRefusal("invalid_name", f"A topic can't be called {CLUSTER_METADATA}.")
        problem = check_new_name(self._table, name) if current is None else None
        if problem is not None:
            raise TopicRefusal("invalid_name", str(problem.text))
        if partitions < 1:
            sentence = f"Topic '{name}' can't have {partitions} partitions; it needs one at least."
            raise TopicRefusal("too_few", sentence)
        if current is not None and partitions < current:
            sentence = (
                f"Topic '{name}' has {current} partitions and can't shrink to {partitions}; "
                f"ask for {current} or more, or delete it first."
            )
            raise TopicRefusal("shrink", sentence)
        problem = Quota(step).take(name, partitions, current or 0)
        if problem is not None:
            sentence = f"Topic '{name}' can't have {partitions} partitions: {problem.text}"
            raise TopicRefusal("too_many", sentence)
