"""What an administrator gives and gets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie_client.wire.addresses import NodeAddress, TopicPartition

__all__ = [
    "CommittedOffset",
    "CreatedTopic",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "MemberRef",
    "NewTopic",
    "PartitionDescription",
    "TopicDescription",
    "TopicListing",
]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in short."""

    name: str
    #: None if the server is too old to have ids.
    topic_id: uuid.UUID | None
    partitions: int
    #: Whether it belongs to the server itself.
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition and the nodes that hold it, by their ids."""

    partition: int
    #: None while there is none.
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, in their order."""

    name: str
    topic_id: uuid.UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None leaves a choice to the server."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created; what an old server does not tell is None."""

    name: str
    topic_id: uuid.UUID | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in short."""

    group_id: str
    #: `consumer` for groups of consumers; empty for a group that only has offsets.
    protocol_type: str
    #: Such as `Stable` or `Empty`; None if the server is too old to tell.
    state: str | None
    #: Such as `classic`; None if the server is too old to tell.
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, with what it wants and what it has."""

    member_id: str
    #: The name of a static member.
    instance_id: str | None
    client_id: str
    #: Where it connects from, as the server prints it.
    host: str
    #: The topics it subscribes to; None if the bytes are not those of a consumer.
    topics: tuple[str, ...] | None
    #: What it was assigned; None if the bytes are not those of a consumer.
    partitions: tuple[TopicPartition, ...] | None
    metadata: bytes = field(repr=False)
    assignment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members."""

    group_id: str
    state: str
    protocol_type: str
    #: The assignor that the group has agreed on; empty while there is none.
    protocol: str
    members: tuple[MemberDescription, ...]
    #: Where its coordinator is.
    coordinator: NodeAddress


@dataclass(frozen=True, slots=True)
class MemberRef:
    """Which member: by its id, or a static one by its instance id."""

    member_id: str = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        return self.member_id if self.instance_id is None else f"instance {self.instance_id}"


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has come with a partition."""

    offset: int
    metadata: str = ""
    #: The epoch of the partition's leader at that offset; None if not known.
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Where a partition begins or ends, or was at some time."""

    #: None if nothing in the partition is as late as the time asked for.
    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None
