"""What an administrator passes in and gets back: results, topics, groups, offsets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from coterie_client.errors import BatchFailedError
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import class_for
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.streams.reading import Orders

__all__ = [
    "CommittedOffset",
    "CreatedTopic",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "MemberRef",
    "NewTopic",
    "OperationDescription",
    "PartitionDescription",
    "Result",
    "Results",
    "TopicDescription",
    "TopicListing",
    "error_of",
]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Result(Generic[V]):
    """The result for one item: a value or an error."""

    value: V | None = None
    error: CoterieError | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return self.error is None

    def get(self) -> V:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast(V, self.value)


class Results(dict[K, Result[V]]):
    """The result of each item of a batch, in the order in which they were given."""

    @property
    def errors(self) -> dict[K, CoterieError]:
        """The errors of the items that failed."""
        return {item: result.error for item, result in self.items() if result.error is not None}

    def get_all(self) -> dict[K, V]:
        """Return the values, or raise `BatchFailedError` if any item failed.

        If the batch was a single item, that item's own error is raised.
        """
        errors = self.errors
        if len(self) == 1:
            for error in errors.values():
                raise error
        if errors:
            raise BatchFailedError(errors, len(self))
        return {item: result.get() for item, result in self.items()}


def error_of(code: int, subject: str, sentence: str | None = None) -> CoterieError | None:
    """The exception for an answer's error code; None for success."""
    if code == ErrorCode.NONE:
        return None
    detail = f"{subject}: {sentence}" if sentence else subject
    error: Any = class_for(ErrorCode.of(code))(detail)
    return cast(CoterieError, error)


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic without its partitions."""

    name: str
    #: None if the server is too old for topic ids.
    topic_id: uuid.UUID | None
    partitions: int
    #: Whether it is a topic of the server itself.
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition and the ids of the nodes that have it."""

    partition: int
    #: None while it has no leader.
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, sorted."""

    name: str
    topic_id: uuid.UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None leaves the choice to the server."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created; None for what an old server does not tell."""

    name: str
    topic_id: uuid.UUID | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group without its members."""

    group_id: str
    #: `consumer` for groups of consumers; empty for a group that only has offsets.
    protocol_type: str
    #: Such as `Stable` or `Empty`; None if the server is too old to tell.
    state: str | None
    #: Such as `classic`; None if the server is too old to tell.
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, with its subscription and its assignment."""

    member_id: str
    #: The group.instance.id of a static member.
    instance_id: str | None
    client_id: str
    #: The host it connects from, as the server shows it.
    host: str
    #: The topics it subscribes to; None if `metadata` is not a consumer's.
    topics: tuple[str, ...] | None
    #: Its partitions; None if `assignment` is not a consumer's.
    partitions: tuple[TopicPartition, ...] | None
    metadata: bytes = field(repr=False)
    assignment: bytes = field(repr=False)
    #: When the session of a static member ended whose place is kept, in milliseconds since 1970;
    #: None for any other member, and with Kafka's brokers.
    away_since_ms: int | None = None
    #: How far behind its copies of state were as it joined, None for one of which it did not know;
    #: None if it reported nothing that can be read.
    lags: Mapping[TopicPartition, int | None] | None = None
    #: The copies that its leader ordered, if it ordered any.
    orders: Orders | None = None
    #: Where its work is reached, and its labels, as far as it tells that.
    address: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperationDescription:
    """What an administrator has ordered of a group, and still stands."""

    #: One of drain, pin, keep-from, freeze.
    operation: str
    #: Whom it is about: a static member by its name, a dynamic one by its id.
    member_id: str | None
    instance_id: str | None
    #: What a pin or keep-from is about.
    partitions: frozenset[TopicPartition]
    #: How many partitions a drained member gives up at a time; 0 for all at once.
    at_a_time: int
    by: str
    reason: str
    since_ms: int
    #: When it ends by itself; None if it does not.
    until_ms: int | None
    #: Whether a member is there that would carry it out as the leader.
    followed: bool


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members."""

    group_id: str
    state: str
    protocol_type: str
    #: The assignor that the group has agreed on; empty while there is none.
    protocol: str
    members: tuple[MemberDescription, ...]
    #: The node that coordinates it.
    coordinator: NodeAddress
    #: What administrators have ordered; nothing with Kafka's brokers.
    operations: tuple[OperationDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRef:
    """Identifies a member by its id, or a static member by its instance id."""

    member_id: str = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        return self.member_id if self.instance_id is None else f"instance {self.instance_id}"


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The offset that a group has committed for a partition."""

    offset: int
    metadata: str = ""
    #: The epoch of the partition's leader at that offset; None if not known.
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The offset at which a partition begins or ends, or was at some time."""

    #: None if the partition has no record at or after that time.
    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None
