"""Reading the segment files of `__consumer_offsets`: batches of records, and what they mean.

Only what this topic needs is read: record batches of the format that Kafka writes since 0.11, plain
or compressed by gzip.  Brokers compress this topic only if `offsets.topic.compression.codec` says
so.  The records are commits, and groups in their generations.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from coterie_pipeline.kafka_logs.log_events import MemberInfo
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    flatten,
)
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.file_errors import naming

__all__ = [
    "Batch",
    "Generation",
    "Key",
    "Partition",
    "StoredMember",
    "StoredRecord",
    "Unreadable",
    "read_batches",
    "read_key",
    "read_offset",
    "read_value",
]

_START: Final = struct.Struct(">qi")
#: Leader epoch, magic, CRC, attributes, last offset delta, base and last time, producer's id and
#: epoch, base sequence, count.
_HEADER: Final = struct.Struct(">ibIhiqqqhii")
_MAGIC: Final = 2
_MAGIC_AT: Final = 4
_CODEC_MASK: Final = 0x07
_CODECS: Final = {0: "", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_GZIP_WINDOW: Final = 31


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record."""

    ts_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were written at once; `producer_id` is one if they are of a transaction."""

    offset: int
    producer_id: int | None
    #: Whether it only says how a transaction ended.
    is_control: bool
    records: tuple[StoredRecord, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A batch that can't be read, and why."""

    offset: int
    why: str


def read_batches(path: Path) -> Iterator[Batch | Unreadable]:
    """The batches of a segment; a last one that is cut off, as in a copy, ends it."""
    with naming(path), path.open("rb") as file:
        while True:
            start = file.read(_START.size)
            if len(start) < _START.size:
                return
            offset, size = _START.unpack(start)
            body = _body(file, size)
            if body is None:
                return
            yield _batch(offset, body)


def _body(file: BinaryIO, size: int) -> bytes | None:
    """The rest of a batch; None at the end, behind which a segment can have zeros."""
    if size <= 0:
        return None
    body = file.read(size)
    return body if len(body) == size else None


def _batch(offset: int, body: bytes) -> Batch | Unreadable:
    if len(body) < _HEADER.size or body[_MAGIC_AT] != _MAGIC:
        return Unreadable(offset, "a format older than Kafka 0.11")
    _, _, _, attributes, _, base_ms, last_ms, producer_id, _, _, count = _HEADER.unpack_from(body)
    codec = _CODECS.get(attributes & _CODEC_MASK, "something newer")
    if codec not in ("", "gzip"):
        return Unreadable(offset, f"packed by {codec}")
    try:
        data = body[_HEADER.size :]
        if codec:
            data = zlib.decompress(data, _GZIP_WINDOW)
        appended_ms = last_ms if attributes & _APPEND_TIME else None
        records = tuple(_records(data, count, base_ms, appended_ms))
    except (IndexError, zlib.error):
        return Unreadable(offset, "damaged")
    is_transactional = bool(attributes & _TRANSACTIONAL)
    return Batch(
        offset, producer_id if is_transactional else None, bool(attributes & _CONTROL), records
    )


def _records(
    data: bytes, count: int, base_ms: int, appended_ms: int | None
) -> Iterator[StoredRecord]:
    position = 0
    for _ in range(count):
        size, start = _varint(data, position)
        position = start + size
        delta_ms, at = _varint(data, start + 1)  # behind its attributes, which mean nothing
        _, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, _ = _bytes(data, at)
        yield StoredRecord(base_ms + delta_ms if appended_ms is None else appended_ms, key, value)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, the sign in its last bit; and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


# -- keys and values -------------------------------------------------------------------------------


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

    info: MemberInfo
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
        number, protocol_type, protocol, leader, {member.info.member: member for member in members}
    )


def _member(cursor: _Cursor, version: int, protocol: str, is_consumer: bool) -> StoredMember:  # noqa: FBT001 - a fact, no switch
    name = cursor.text()
    instance = cursor.optional() if version >= 3 else None
    client_id, host = cursor.text(), cursor.text()
    rebalance_ms = cursor.int32() if version >= 1 else 0
    session_ms = cursor.int32()
    claimed, given = cursor.data(), cursor.data()
    cursor.skip_tags()
    subscription = _parsed(decode_subscription, claimed) if is_consumer else None
    assignment = _parsed(_assignment, given) if is_consumer else None
    info = MemberInfo(
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
        info,
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
