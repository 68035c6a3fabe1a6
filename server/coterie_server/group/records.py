"""What a group keeps on disk: rows that are written whole, each under a key of its own.

A record puts a row in place or takes one away.  Recovery applies the rows that are left, in the
order of their keys, through the same code that applied them when they were made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from coterie_protocol import decode, encode
from coterie_protocol.schema import BYTES, INT32, INT64, STRING, Array, field
from coterie_protocol.schema import struct as structure

__all__ = [
    "Gone",
    "GroupRow",
    "MemberRow",
    "OffsetRow",
    "Record",
    "Row",
    "SupportedProtocol",
    "from_stored",
    "to_stored",
]


@structure(versions="0")
class GroupRow:
    """A group as a whole."""

    group_id: str = field(STRING)
    state: str = field(STRING)
    generation: int = field(INT32)
    protocol_type: str | None = field(STRING, nullable="0+", default=None)
    protocol_name: str | None = field(STRING, nullable="0+", default=None)
    leader: str | None = field(STRING, nullable="0+", default=None)
    changed_at_ms: int = field(INT64, default=0)
    #: Why the rebalance that is going on, or the last one, was started.
    cause: str = field(STRING, default="")


@structure()
class SupportedProtocol:
    """A protocol that a member can follow, and its subscription in that protocol."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@structure(versions="0")
class MemberRow:
    """A member of a generation."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32)
    protocols: tuple[SupportedProtocol, ...] = field(Array(SupportedProtocol))
    assignment: bytes = field(BYTES, default=b"")


@structure(versions="0")
class OffsetRow:
    """How far a group has come in a partition."""

    group_id: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)
    leader_epoch: int = field(INT32, default=-1)
    metadata: str = field(STRING, default="")
    committed_at_ms: int = field(INT64, default=0)
    #: When it is to go whatever the group does, as old clients ask for; -1 if nobody asked.
    expires_at_ms: int = field(INT64, default=-1)


Row = GroupRow | MemberRow | OffsetRow


@dataclass(frozen=True, slots=True)
class Gone:
    """That a row is no more."""

    row: type[Row]
    group_id: str
    #: The member id or the topic; a group's row has neither.
    name: str = ""
    partition: int = 0


Record = Row | Gone

_KINDS: Final[dict[type[Row], int]] = {GroupRow: 1, MemberRow: 2, OffsetRow: 3}
_ROWS: Final = {kind: row for row, kind in _KINDS.items()}
_KEY: Final = struct.Struct(">BH")
_PARTITION: Final = struct.Struct(">i")
#: Stored in front of every value, so that rows can change their shape.
_ROW_VERSION: Final = 0
_MARK: Final = bytes((_ROW_VERSION,))
#: For how many topics of groups the beginnings of keys are remembered.
_PREFIXES_MAX: Final = 4_096


def to_stored(record: Record) -> tuple[bytes, bytes | None]:
    """The key and value under which a record is stored; the value is None if the row is gone."""
    # Offsets come first, as there are more of them than of all the others.
    if isinstance(record, OffsetRow):
        key = _offset_key(record.group_id, record.topic, record.partition)
    elif isinstance(record, MemberRow):
        key = _key(MemberRow, record.group_id, record.member_id)
    elif isinstance(record, GroupRow):
        key = _key(GroupRow, record.group_id)
    elif record.row is OffsetRow:
        return _offset_key(record.group_id, record.name, record.partition), None
    else:
        return _key(record.row, record.group_id, record.name), None
    return key, _MARK + encode(record, _ROW_VERSION)


def from_stored(key: bytes, value: bytes) -> Row:
    """The row stored under a key."""
    row: type[Any] = _ROWS[key[0]]
    found: Row = decode(row, value[0], value[1:])
    return found


def _key(row: type[Row], group_id: str, name: str = "") -> bytes:
    """A key that sorts groups before their members, and those before their offsets."""
    group = group_id.encode()
    return _KEY.pack(_KINDS[row], len(group)) + group + name.encode()


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _offset_prefix(group_id, topic) + _PARTITION.pack(partition)


@lru_cache(_PREFIXES_MAX)
def _offset_prefix(group_id: str, topic: str) -> bytes:
    """A commit is of many partitions of one topic, and the next one of the same."""
    return _key(OffsetRow, group_id, topic)
