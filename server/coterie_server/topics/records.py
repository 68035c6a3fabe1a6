"""What the catalogue keeps on disk: one row for each topic, under a key of its own.

A record puts a row in place or takes it away.  Recovery applies the rows that are left through the
same code that applied them when they were made.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from coterie_protocol import decode, encode
from coterie_protocol.schema import INT32, INT64, STRING, UUID, field
from coterie_protocol.schema import struct as structure
from coterie_server.later_version import LaterVersionError
from coterie_server.security import records as rights
from coterie_server.security.records import RightsRecord

__all__ = ["Gone", "Record", "Row", "TopicRow", "from_stored", "to_stored"]


@structure(versions="0")
class TopicRow:
    """A topic: a name for a number of partitions."""

    name: str = field(STRING)
    #: Stays the same for as long as the topic lives; one that is made anew gets another.
    topic_id: uuid.UUID = field(UUID)
    partitions: int = field(INT32)
    created_at_ms: int = field(INT64)
    #: When it was made or grew last.
    changed_at_ms: int = field(INT64, default=0)


@dataclass(frozen=True, slots=True)
class Gone:
    """That a topic is no more."""

    name: str


#: What is stored.
Row = TopicRow | RightsRecord
#: What becomes of a row.
Record = Row | Gone

#: In front of the keys of topics; those of rights begin otherwise.
_TOPIC: Final = b"\x01"
#: In front of every value; a row of any other version is refused.
_ROW_VERSION: Final = 0


def to_stored(record: Record) -> tuple[bytes, bytes | None]:
    """The key and value under which a record is stored; the value is None if it is gone."""
    if isinstance(record, RightsRecord):
        return rights.to_stored(record)
    key = _TOPIC + record.name.encode()
    if isinstance(record, Gone):
        return key, None
    return key, bytes((_ROW_VERSION,)) + encode(record, _ROW_VERSION)


def from_stored(key: bytes, value: bytes) -> Row:
    """The row stored under a key."""
    if key[:1] in (rights.ACL_KEY, rights.CREDENTIAL_KEY, rights.FIRST_USER_KEY):
        return rights.from_stored(key, value)
    if key[:1] != _TOPIC:
        raise LaterVersionError(f"a row of kind {key[0]}")
    if value[0] != _ROW_VERSION:
        raise LaterVersionError(f"a row in version {value[0]}")
    return decode(TopicRow, _ROW_VERSION, value[1:])
