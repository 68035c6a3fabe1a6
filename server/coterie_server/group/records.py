"""What a group keeps on disk: rows that are written whole, each under a key of its own.

A record puts a row in place or takes one away.  Recovery applies the rows that are left, in the
order of their keys, through the same code that applied them when they were made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol import decode, encode
from coterie_protocol.operations import Operation
from coterie_protocol.schema import BOOL, BYTES, INT32, INT64, STRING, Array, field
from coterie_protocol.schema import struct as structure
from coterie_server.group.bundle import BUNDLE_KIND, BundleRow, read_bundle
from coterie_server.later_version import LaterVersionError

__all__ = [
    "END_OF_TIME_MS",
    "FloorRow",
    "Gone",
    "GroupRow",
    "MemberRow",
    "OperationsRow",
    "Record",
    "Row",
    "StoredRow",
    "SupportedProtocol",
    "TopicSize",
    "from_stored",
    "to_stored",
]


@structure()
class TopicSize:
    """A topic, and how many partitions it has; 0 if it does not exist."""

    name: str = field(STRING)
    partitions: int = field(INT32)


@structure(versions="0-3")
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
    #: The generation that was last given an assignment; -1 if none was.
    assigned_in: int = field(INT32, default=-1)
    #: How often members were let go on in this generation as if it had just begun for them: the
    #: low half of its fencing tokens.  After a fail-over of the database it may reach into the
    #: high half, over the generations that may be lost.
    renewals: int = field(INT64, default=0)
    #: The topics that its members subscribe to, as they were when the generation formed, so that a
    #: coordinator that takes over sees what has changed since; None if that is not known.
    topics: tuple[TopicSize, ...] | None = field(
        Array(TopicSize), versions="1+", nullable="1+", default=None
    )
    #: The database's timeline on which the generation formed; 0 if it has none.
    timeline: int = field(INT32, versions="2+", default=0)
    #: The principal that made it; empty if that did not say who it is.
    owner: str = field(STRING, versions="3+", default="")


@structure(versions="0-1")
class FloorRow:
    """What a shard remembers of all that was deleted."""

    #: Where groups begin to count whose name says nothing about generations used before: the
    #: highest generation of all deleted groups that are not remembered by name.
    generation: int = field(INT32, default=0)
    #: When offsets were deleted last. What is missing since was not lost, whatever a journal says
    #: whose last lines were.
    forgot_at_ms: int = field(INT64, default=-1)
    #: The database's timeline on which all of this was so; 0 if it has none.
    timeline: int = field(INT32, versions="1+", default=0)


@structure()
class SupportedProtocol:
    """A protocol that a member can follow, and its subscription in that protocol."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@structure(versions="0-2")
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
    #: What it was given last.
    assignment: bytes = field(BYTES, default=b"")
    #: Its assignment is not shown any more: a later one was on its way and came to nothing.
    is_void: bool = field(BOOL, default=False)
    #: A static member that did not join this generation; it has not let go of anything.
    has_not_joined: bool = field(BOOL, default=False)
    #: The last generation whose assignment asked it to join once more; -1 if none did.
    asked_to_rejoin_in: int = field(INT32, default=-1)
    #: How long it asked to keep its place for; 0 for its session, -1 if it did not ask.
    registration_timeout_ms: int = field(INT32, versions="1+", default=-1)
    #: The date on which the session of a static member ended that keeps its place; -1 if it runs.
    away_since_ms: int = field(INT64, versions="1+", default=-1)
    #: Whether it would follow what administrators have ordered, if it led.
    follows_operations: bool = field(BOOL, versions="2+", default=False)


@structure()
class OperationsRow:
    """What administrators have ordered of a group; there is none while that is nothing."""

    group_id: str = field(STRING)
    operations: tuple[Operation, ...] = field(Array(Operation))


#: The last moment that can be stored; old clients ask for offsets to be kept that long and longer.
END_OF_TIME_MS: Final = 2**63 - 1


#: What belongs to a group.
Row = GroupRow | MemberRow | BundleRow | OperationsRow


@dataclass(frozen=True, slots=True)
class Gone:
    """That a row is no more; bundles of offsets say so themselves."""

    row: type[GroupRow | MemberRow | OperationsRow]
    group_id: str
    #: The member id; the rows of a group as a whole have none.
    name: str = ""


#: What a store holds.
StoredRow = Row | FloorRow
Record = StoredRow | Gone

#: All but bundles of offsets, which see to their bytes themselves.
_KINDS: Final[dict[type[StoredRow], int]] = {
    GroupRow: 1,
    MemberRow: 2,
    FloorRow: 3,
    OperationsRow: 4,
}
_ROWS: Final = {kind: row for row, kind in _KINDS.items()}
_KEY: Final = struct.Struct(">BH")
#: The version in which each kind is written, in front of every value.  Earlier ones are read, and
#: later ones refused.
_VERSIONS: Final[dict[type[StoredRow], int]] = {
    GroupRow: 3,
    MemberRow: 2,
    FloorRow: 1,
    OperationsRow: 0,
}


def to_stored(record: Record) -> tuple[bytes, bytes | None]:
    """The key and value under which a record is stored; the value is None if the row is gone."""
    if type(record) is BundleRow:  # most are
        return record.stored()
    if isinstance(record, Gone):
        return _key(record.row, record.group_id, record.name), None
    if isinstance(record, MemberRow):
        # One without anything new is written as it always was, so that former versions read it.
        version = int(record.registration_timeout_ms >= 0 or record.away_since_ms >= 0)
        version = 2 if record.follows_operations else version
        value = bytes((version,)) + encode(record, version)
        return _key(MemberRow, record.group_id, record.member_id), value
    version = _VERSIONS[type(record)]
    value = bytes((version,)) + encode(record, version)
    return _key(type(record), "" if isinstance(record, FloorRow) else record.group_id), value


def from_stored(key: bytes, value: bytes) -> StoredRow:
    """The row stored under a key."""
    if key[0] == BUNDLE_KIND:
        return read_bundle(key, value)
    row: type[Any] | None = _ROWS.get(key[0])
    if row is None:
        raise LaterVersionError(f"a row of kind {key[0]}")
    version = value[0]
    if version > _VERSIONS[row]:
        raise LaterVersionError(f"a row in version {version}")
    found: StoredRow = decode(row, version, value[1:])
    return found


def _key(row: type[StoredRow], group_id: str, name: str = "") -> bytes:
    """A key that sorts groups before their members."""
    group = group_id.encode()
    return _KEY.pack(_KINDS[row], len(group)) + group + name.encode()
