"""The messages of the wire benchmarks: those of a group of 1,000 workers."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

__all__ = ["CLIENT_ID", "CORRELATION_ID", "Case", "cases"]

CORRELATION_ID: Final = 70_001
CLIENT_ID: Final = "orders-worker-0000"

_GROUP: Final = "orders-fulfilment"
_TOPIC: Final = "orders.events"
_MEMBERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """A message in a version."""

    title: str
    #: What a large message contains.
    content: str
    message: Any
    version: int
    #: The nearest version that aiokafka has.
    aiokafka_version: int

    @property
    def is_request(self) -> bool:
        """Whether the message is a request and has a request's header."""
        return type(self.message).__name__.endswith("Request")

    @property
    def name(self) -> str:
        """The title, the version and the content."""
        named = f"{self.title} v{self.version}"
        return f"{named}, {self.content}" if self.content else named


def cases() -> list[Case]:
    """All cases; large messages in the newest version that all libraries have, and the newest."""
    return [
        *(Case("Heartbeat request", "", _heartbeat(), v, 1) for v in (0, 3, 4)),
        *(Case("JoinGroup request", "", _join(v), v, 5) for v in (5, 9)),
        *(Case("JoinGroup response", "1,000 members", _joined(v), v, 5) for v in (5, 9)),
        *(Case("SyncGroup request", "1,000 assignments", _sync(v), v, 3) for v in (3, 5)),
        *(Case("OffsetCommit request", "100 partitions", _commit(v), v, 3) for v in (3, 9)),
    ]


def _member_ids() -> list[str]:
    """Member ids as a coordinator makes them: a client id followed by a UUID."""
    source = random.Random(1)
    ids = (uuid.UUID(int=source.getrandbits(128), version=4) for _ in range(_MEMBERS))
    return [f"orders-worker-{index:04}-{some_id}" for index, some_id in enumerate(ids)]


_MEMBER_IDS: Final = _member_ids()


def _shares() -> Iterator[tuple[TopicPartitions]]:
    """Each member's partitions: 10 to 40, so that some compact lengths take two bytes."""
    source = random.Random(2)
    first = 0
    for _ in range(_MEMBERS):
        count = source.randint(10, 40)
        yield (TopicPartitions(topic=_TOPIC, partitions=tuple(range(first, first + count))),)
        first += count


def _heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id=_GROUP, generation_id=42, member_id=_MEMBER_IDS[0])


def _join(version: int) -> JoinGroupRequest:
    subscription = Subscription(
        topics=(_TOPIC,), owned_partitions=next(_shares()), generation_id=42
    )
    return JoinGroupRequest(
        group_id=_GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=_MEMBER_IDS[0],
        protocol_type="consumer",
        protocols=(
            JoinGroupRequestProtocol(
                name="cooperative-sticky", metadata=encode_subscription(subscription)
            ),
            JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription, 0)),
        ),
        reason="rebalance failed due to RebalanceInProgressError" if version >= 8 else None,
    )


def _joined(version: int) -> JoinGroupResponse:
    members = tuple(
        JoinGroupResponseMember(
            member_id=member_id,
            metadata=encode_subscription(
                Subscription(topics=(_TOPIC,), owned_partitions=share, generation_id=42)
            ),
        )
        for member_id, share in zip(_MEMBER_IDS, _shares(), strict=True)
    )
    return JoinGroupResponse(
        generation_id=43,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="cooperative-sticky",
        leader=_MEMBER_IDS[0],
        member_id=_MEMBER_IDS[0],
        members=members,
    )


def _sync(version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=_GROUP,
        generation_id=43,
        member_id=_MEMBER_IDS[0],
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="cooperative-sticky" if version >= 5 else None,
        assignments=tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(Assignment(assigned_partitions=share)),
            )
            for member_id, share in zip(_MEMBER_IDS, _shares(), strict=True)
        ),
    )


def _commit(version: int) -> OffsetCommitRequest:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=f"{_TOPIC}.{topic}",
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=1_000_000_007 * (index + 1),
                    committed_leader_epoch=7 if version >= 6 else -1,
                    committed_metadata="",
                )
                for index in range(25)
            ),
        )
        for topic in range(4)
    )
    return OffsetCommitRequest(
        group_id=_GROUP,
        generation_id_or_member_epoch=43,
        member_id=_MEMBER_IDS[0],
        topics=topics,
    )
