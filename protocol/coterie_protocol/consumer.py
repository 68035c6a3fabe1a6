"""Subscriptions and assignments: what group members exchange in bytes that are opaque to Kafka.

A JoinGroup carries each member's `Subscription`, a SyncGroup each member's `Assignment`, both
preceded by their version.  Old and new clients share groups, so reading is more tolerant than
writing: a version newer than the newest known is read as the newest known, and surplus bytes are
ignored.

The draft of KIP-429 ends an assignment with an error code by which the leader tells all members to
rejoin at once; the protocol that shipped left it out.  Coterie's leader writes `NEEDS_REJOIN` after
the user data (version 1 and later), where stock clients do not look, and Coterie's client obeys it.

In the same way a Coterie member that can't work on a partition says so after its subscription
(version 3), and a Coterie leader gives that partition to another member.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from coterie_protocol._compile import codec_of
from coterie_protocol.codec import encode
from coterie_protocol.exceptions import EncodeError, ProtocolError
from coterie_protocol.schema import (
    BYTES,
    INT16,
    INT32,
    STRING,
    Array,
    declaration_of,
    field,
)
from coterie_protocol.schema import struct as structure

__all__ = [
    "NEEDS_REJOIN",
    "Assignment",
    "CooperativeStickyData",
    "StickyData",
    "Subscription",
    "TopicPartitions",
    "decode_assignment",
    "decode_cooperative_sticky_data",
    "decode_sticky_data",
    "decode_subscription",
    "encode_assignment",
    "encode_sticky_data",
    "encode_subscription",
    "flatten",
    "group_by_topic",
]

S = TypeVar("S")

#: The draft's error code in an assignment: rejoin once this assignment has taken effect.
NEEDS_REJOIN: Final = 1

_INT16: Final = struct.Struct(">h")


@structure()
class TopicPartitions:
    """Some partitions of one topic."""

    topic: str = field(STRING)
    partitions: tuple[int, ...] = field(Array(INT32))


@structure(versions="0-3")
class Subscription:
    """The topics that a member wants, and the partitions that it owns as it joins."""

    topics: tuple[str, ...] = field(Array(STRING))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
    owned_partitions: tuple[TopicPartitions, ...] = field(
        Array(TopicPartitions), versions="1+", ignorable=True, default=()
    )
    generation_id: int = field(INT32, versions="2+", ignorable=True, default=-1)
    rack_id: str | None = field(STRING, versions="3+", nullable="3+", ignorable=True, default=None)
    #: Coterie's own: partitions that the member had and could not work on, and does not want
    #: again.  Written after the rest, and only if there are any.
    refused_partitions: tuple[TopicPartitions, ...] = field(
        Array(TopicPartitions), versions="none", ignorable=True, default=()
    )


@structure()
class _Refusals:
    """Follows the subscription of a Coterie member that refuses partitions."""

    partitions: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))


@structure(versions="0-3")
class Assignment:
    """The partitions that a member is given."""

    assigned_partitions: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
    #: From the draft of KIP-429: written after the rest, and only if it is not zero.
    error_code: int = field(INT16, versions="none", ignorable=True, default=0)


@structure(versions="0-1")
class StickyData:
    """User data of the eager sticky assignor (KIP-54): the partitions that the member had."""

    previous_assignment: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))
    generation: int = field(INT32, versions="1+", ignorable=True, default=-1)


@structure(versions="0")
class CooperativeStickyData:
    """User data of the cooperative sticky assignor: the generation of the owned partitions."""

    generation: int = field(INT32)


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """Write a subscription, without the fields that the version lacks."""
    body = encode(subscription, version)
    written = _INT16.pack(version) + body
    if not subscription.refused_partitions:
        return written
    newest = declaration_of(Subscription).versions.last
    if version != newest:
        reason = f"refused partitions need version {newest}"
        raise EncodeError(
            reason, subject="Subscription", version=version, field="refused_partitions"
        )
    return written + encode(_Refusals(partitions=subscription.refused_partitions), 0)


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version."""
    subscription, version, left = _decode_versioned(Subscription, data)
    # Later versions, and other clients, may put something else there.
    if not left or version != declaration_of(Subscription).versions.last:
        return subscription
    try:
        refusals, rest = _decode_prefix(_Refusals, 0, left)
    except ProtocolError:
        return subscription
    return subscription if rest else replace(subscription, refused_partitions=refusals.partitions)


def encode_assignment(assignment: Assignment, version: int = 3) -> bytes:
    """Write an assignment, followed by its error code if it has one."""
    body = encode(assignment, version)
    written = _INT16.pack(version) + body
    if not assignment.error_code:
        return written
    if version < 1:
        reason = f"{assignment.error_code!r} needs version 1 or later"
        raise EncodeError(reason, subject="Assignment", version=version, field="error_code")
    try:
        return written + _INT16.pack(assignment.error_code)
    except struct.error as error:
        reason = f"{assignment.error_code!r}: {error}"
        raise EncodeError(
            reason, subject="Assignment", version=version, field="error_code"
        ) from None


def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment of any version."""
    assignment, version, left = _decode_versioned(Assignment, data)
    if not left:
        return assignment
    # Later versions may put something else there, so only what Coterie could have written counts.
    if 1 <= version <= declaration_of(Assignment).versions.last and len(left) == _INT16.size:
        return replace(assignment, error_code=_INT16.unpack(left)[0])
    return assignment


def encode_sticky_data(sticky: StickyData, version: int = 1) -> bytes:
    """Write the eager sticky assignor's user data, which does not state its version."""
    return encode(sticky, version)


def decode_sticky_data(data: bytes) -> StickyData:
    """Read the eager sticky assignor's user data as version 1 or, if that fails, version 0."""
    try:
        return _decode_prefix(StickyData, 1, data)[0]
    except ProtocolError:
        return _decode_prefix(StickyData, 0, data)[0]


def decode_cooperative_sticky_data(data: bytes) -> CooperativeStickyData:
    """Read the cooperative sticky assignor's user data."""
    return _decode_prefix(CooperativeStickyData, 0, data)[0]


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    """Sort (topic, partition) pairs and group them by topic, as messages have them."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(TopicPartitions(topic=t, partitions=tuple(p)) for t, p in by_topic.items())


def flatten(topics: Iterable[TopicPartitions]) -> frozenset[tuple[str, int]]:
    """The (topic, partition) pairs; the opposite of `group_by_topic`."""
    return frozenset([(entry.topic, number) for entry in topics for number in entry.partitions])


def _decode_versioned(cls: type[S], data: bytes) -> tuple[S, int, bytes]:
    """Read a version and then a structure; return the structure, the version, and what is left.

    Some clients announce version 1 and write version 0 (Sarama did for years), so data that ends
    too early is read as the newest older version that it fits exactly.
    """
    if len(data) < _INT16.size:
        raise ProtocolError("cut off", subject=cls.__name__, field="version")
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"version {version}", subject=cls.__name__, field="version")
    known = min(version, declaration_of(cls).versions.last)
    value: Any
    try:
        value, pos = codec_of(cls, known).decode(data, _INT16.size)
    except ProtocolError:
        for older in range(known - 1, -1, -1):
            found = _decode_exactly(cls, older, data)
            if found is not None:
                return found, version, b""
        raise
    return value, version, data[pos:]


def _decode_exactly(cls: type[S], version: int, data: bytes) -> S | None:
    try:
        value, left = _decode_prefix(cls, version, data, _INT16.size)
    except ProtocolError:
        return None
    return None if left else value


def _decode_prefix(cls: type[S], version: int, data: bytes, pos: int = 0) -> tuple[S, bytes]:
    value: Any
    value, pos = codec_of(cls, version).decode(data, pos)
    return value, data[pos:]
