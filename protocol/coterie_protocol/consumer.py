"""What the members of a consumer group tell each other in bytes that Kafka does not look into.

A JoinGroup carries each member's `Subscription`, a SyncGroup each member's `Assignment`, both with
their version in front.  Members of different ages live in one group, so reading is forgiving where
writing is not: a version newer than the newest known reads as the newest known, and bytes behind
what is known are passed over.

The draft of KIP-429 ends an assignment with an error code, by which the leader tells everybody to
rejoin at once; the protocol that shipped left it out.  Coterie's leader writes `NEEDS_REJOIN`
behind the user data (version 1 and later), where stock clients do not look, and Coterie's client
obeys it.

In the same way a Coterie member that can't work on a partition says so behind its subscription
(version 3), and a Coterie leader gives that partition to somebody else.
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

#: The draft's error code in an assignment: rejoin as soon as this assignment is in place.
NEEDS_REJOIN: Final = 1

_INT16: Final = struct.Struct(">h")


@structure()
class TopicPartitions:
    """Some partitions of one topic."""

    topic: str = field(STRING)
    partitions: tuple[int, ...] = field(Array(INT32))


@structure(versions="0-3")
class Subscription:
    """What a member wants, and what it owns when it asks."""

    topics: tuple[str, ...] = field(Array(STRING))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
    owned_partitions: tuple[TopicPartitions, ...] = field(
        Array(TopicPartitions), versions="1+", ignorable=True, default=()
    )
    generation_id: int = field(INT32, versions="2+", ignorable=True, default=-1)
    rack_id: str | None = field(STRING, versions="3+", nullable="3+", ignorable=True, default=None)
    #: In no version that shipped: what the member had, could not work on, and asks to be spared.
    #: Written behind the rest, and only if there is any.
    refused_partitions: tuple[TopicPartitions, ...] = field(
        Array(TopicPartitions), versions="none", ignorable=True, default=()
    )


@structure()
class _Refusals:
    """What follows a subscription of a Coterie member that refuses partitions."""

    partitions: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))


@structure(versions="0-3")
class Assignment:
    """What a member is given."""

    assigned_partitions: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
    #: In no version that shipped: written behind the rest, and only where it is not zero.
    error_code: int = field(INT16, versions="none", ignorable=True, default=0)


@structure(versions="0-1")
class StickyData:
    """A subscription's user data for the eager sticky assignor (KIP-54): what the member had."""

    previous_assignment: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))
    generation: int = field(INT32, versions="1+", ignorable=True, default=-1)


@structure(versions="0")
class CooperativeStickyData:
    """A subscription's user data for the cooperative sticky assignor: when the member had it."""

    generation: int = field(INT32)


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """Write a subscription; fields that the version lacks are left out."""
    body = encode(subscription, version)
    written = _INT16.pack(version) + body
    if not subscription.refused_partitions:
        return written
    newest = declaration_of(Subscription).versions.last
    if version != newest:
        reason = f"refusals can only be said in version {newest}"
        raise EncodeError(
            reason, subject="Subscription", version=version, field="refused_partitions"
        )
    return written + encode(_Refusals(partitions=subscription.refused_partitions), 0)


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version."""
    subscription, version, left = _decode_versioned(Subscription, data)
    # A version to come may put something of its own there, and so may anybody else.
    if not left or version != declaration_of(Subscription).versions.last:
        return subscription
    try:
        refusals, rest = _decode_prefix(_Refusals, 0, left)
    except ProtocolError:
        return subscription
    return subscription if rest else replace(subscription, refused_partitions=refusals.partitions)


def encode_assignment(assignment: Assignment, version: int = 3) -> bytes:
    """Write an assignment, with its error code behind it if it has one."""
    body = encode(assignment, version)
    written = _INT16.pack(version) + body
    if not assignment.error_code:
        return written
    if version < 1:
        reason = f"{assignment.error_code!r} can't be said in this version"
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
    # A version to come may put something of its own there, so only what we could have written
    # counts as an error code.
    if 1 <= version <= declaration_of(Assignment).versions.last and len(left) == _INT16.size:
        return replace(assignment, error_code=_INT16.unpack(left)[0])
    return assignment


def encode_sticky_data(sticky: StickyData, version: int = 1) -> bytes:
    """Write the eager sticky assignor's user data, which has no version in front."""
    return encode(sticky, version)


def decode_sticky_data(data: bytes) -> StickyData:
    """Read the eager sticky assignor's user data: as version 1, or if that fails as version 0."""
    try:
        return _decode_prefix(StickyData, 1, data)[0]
    except ProtocolError:
        return _decode_prefix(StickyData, 0, data)[0]


def decode_cooperative_sticky_data(data: bytes) -> CooperativeStickyData:
    """Read the cooperative sticky assignor's user data."""
    return _decode_prefix(CooperativeStickyData, 0, data)[0]


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    """Put (topic, partition) pairs into the shape that travels, sorted."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(TopicPartitions(topic=t, partitions=tuple(p)) for t, p in by_topic.items())


def flatten(topics: Iterable[TopicPartitions]) -> frozenset[tuple[str, int]]:
    """The (topic, partition) pairs in what travelled."""
    return frozenset((entry.topic, number) for entry in topics for number in entry.partitions)


def _decode_versioned(cls: type[S], data: bytes) -> tuple[S, int, bytes]:
    """Read a structure behind its version; answer it, that version, and what is left.

    Some clients announce version 1 and write what is version 0 (Sarama did for years), so data
    that ends too early is read as the newest older version that it fits exactly.
    """
    if len(data) < _INT16.size:
        raise ProtocolError("cut off", subject=cls.__name__, field="version")
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"version {version}", subject=cls.__name__, field="version")
    known = min(version, declaration_of(cls).versions.last)
    try:
        value, left = _decode_prefix(cls, known, data, _INT16.size)
    except ProtocolError:
        for older in range(known - 1, -1, -1):
            found = _decode_exactly(cls, older, data)
            if found is not None:
                return found, version, b""
        raise
    return value, version, left


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
