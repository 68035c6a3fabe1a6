"""What the records of `__consumer_offsets` mean: commits, and groups in their generations."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from coterie_pipeline.kafka_logs.said import Card
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    flatten,
)
from coterie_protocol.exceptions import ProtocolError

__all__ = [
    "Generation",
    "Key",
    "Partition",
    "StoredMember",
    "read_key",
    "read_offset",
    "read_value",
]

T = TypeVar("T")

#: A topic and the number of one of its partitions.
Partition = tuple[str, int]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

#: Keys of these versions are commits; of the next one, groups; of later ones, groups of KIP-848
#: and other things that are no classic groups.
_COMMIT_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_NEWEST_VALUE: Final = 4
_FLEXIBLE: Final = 4


@dataclass(frozen=True, slots=True)
class Key:
    """What a record is about: a commit if it has a partition, otherwise a group.

    If it is about a group that is no classic one, or about something unknown, `is_newer` is set.
    """

    group: str
    partition: Partition | None = None
    is_newer: bool = False


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member in a generation."""

    card: Card
    #: What it said that it owns as it joined, in which generation; None if that can't be read.
    owned: frozenset[Partition] | None
    owned_in: int
    #: What it was given; None if that can't be read.
    given: frozenset[Partition] | None


@dataclass(frozen=True, slots=True)
class Generation:
    """A group as it is stored when an assignment came, a static member came back, or all went."""

    number: int
    protocol_type: str
    protocol: str
    leader: str
    members: Mapping[str, StoredMember]

    @property
    def given(self) -> Mapping[str, frozenset[Partition]] | None:
        """What each member was given; None if that can't be read."""
        known = {name: m.given for name, m in self.members.items() if m.given is not None}
        return known if len(known) == len(self.members) else None


def read_key(data: bytes) -> Key | None:
    """Read a key; None if it can't be read."""
    try:
        cursor = _Cursor(data)
        version = cursor.int16()
        group = cursor.text()
        if version in _COMMIT_KEYS:
            return Key(group, (cursor.text(), cursor.int32()))
        return Key(group, is_newer=version != _GROUP_KEY)
    except (struct.error, ValueError):
        return None


def read_offset(data: bytes) -> int | None:
    """The offset in a commit's value; None if it can't be read."""
    try:
        cursor = _Cursor(data)
        cursor.int16()
        return cursor.int64()  # in all versions it comes first
    except struct.error:
        return None


def read_value(data: bytes) -> Generation | None:
    """Read a group's value; None if it can't be read."""
    try:
        cursor = _Cursor(data)
        version = cursor.int16()
        if not 0 <= version <= _NEWEST_VALUE:
            return None
        cursor.is_flexible = version >= _FLEXIBLE
        return _generation(cursor, version)
    except (struct.error, ValueError):
        return None


def _generation(cursor: _Cursor, version: int) -> Generation:
    protocol_type, number = cursor.text(), cursor.int32()
    protocol, leader = cursor.optional() or "", cursor.optional() or ""
    if version >= 2:
        cursor.int64()  # when it came into its state
    is_consumer = protocol_type == "consumer"
    members = [_member(cursor, version, protocol, is_consumer) for _ in range(cursor.count())]
    return Generation(
        number, protocol_type, protocol, leader, {member.card.member: member for member in members}
    )


def _member(cursor: _Cursor, version: int, protocol: str, is_consumer: bool) -> StoredMember:  # noqa: FBT001 - a fact, no switch
    name = cursor.text()
    instance = cursor.optional() if version >= 3 else None
    client_id, host = cursor.text(), cursor.text()
    rebalance_ms = cursor.int32() if version >= 1 else 0
    session_ms = cursor.int32()
    said, given = cursor.data(), cursor.data()
    cursor.skip_tags()
    subscription = _parsed(decode_subscription, said) if is_consumer else None
    assignment = _parsed(_assignment, given) if is_consumer else None
    card = Card(
        name,
        instance,
        client_id,
        host,
        session_ms,
        rebalance_ms if rebalance_ms > 0 else session_ms,  # before 0.10.1 they were one
        (protocol,) if protocol else (),
        _topics(subscription),
    )
    return StoredMember(
        card,
        None if subscription is None else flatten(subscription.owned_partitions),
        -1 if subscription is None else subscription.generation_id,
        None if assignment is None else flatten(assignment.assigned_partitions),
    )


def _topics(subscription: Subscription | None) -> tuple[str, ...] | None:
    return None if subscription is None else tuple(sorted(subscription.topics))


def _assignment(data: bytes) -> Assignment:
    # Nothing at all is what the coordinator stores for a member that the leader left out.
    return decode_assignment(data) if data else Assignment(assigned_partitions=())


def _parsed(decode: Callable[[bytes], T], data: bytes) -> T | None:
    try:
        return decode(data)
    except ProtocolError:
        return None


class _Cursor:
    """Reads one field after the other; text and lists have other lengths in flexible versions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.is_flexible = False

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def text(self) -> str:
        text = self.optional()
        if text is None:
            raise ValueError("no text where there has to be one")
        return text

    def optional(self) -> str | None:
        size = self._size(_INT16)
        return None if size < 0 else self._take(size).decode()

    def data(self) -> bytes:
        return self._take(max(self._size(_INT32), 0))

    def count(self) -> int:
        return self._size(_INT32)

    def skip_tags(self) -> None:
        """Pass over fields that only newer versions know."""
        for _ in range(self._varint() if self.is_flexible else 0):
            self._varint()
            self._take(self._varint())

    def _size(self, form: struct.Struct) -> int:
        return self._varint() - 1 if self.is_flexible else self._number(form)

    def _number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("cut off")
        self._at += size
        return taken
