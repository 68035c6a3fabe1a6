"""The journal: coordinators write each event as a line with one JSON object.

Each line has an envelope (`v`, `ts`, `node`, `seq`, `group`, `kind`), followed by the fields of its
kind.  In the order of `seq`, the lines of a node tell, without any other source, why each rebalance
was started, which members it waited for and how long, which ones it dropped, and what every member
owned before and was given after.  `docs/journal.md` explains every field.

Partitions are written as `{"topic": [0, 1]}`, times in milliseconds.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol._journal_events import (
    CAUSES,
    KINDS,
    ClockStepped,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    Lags,
    MemberAway,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    MemberReturned,
    NodePaused,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OwnershipConflict,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    ShardGiven,
    ShardTaken,
    TopicChanged,
)
from coterie_protocol.exceptions import CoterieError

__all__ = [
    "CAUSES",
    "KINDS",
    "SCHEMA_VERSION",
    "ClockStepped",
    "Event",
    "GroupDeleted",
    "GroupEmptied",
    "GroupRecovered",
    "IdUnclaimed",
    "JournalError",
    "Lags",
    "Line",
    "MemberAway",
    "MemberFenced",
    "MemberGone",
    "MemberJoined",
    "MemberPhase",
    "MemberReplaced",
    "MemberReturned",
    "NodePaused",
    "NodeStarted",
    "NodeStopped",
    "OffsetsCommitted",
    "OffsetsDeleted",
    "OffsetsExpired",
    "OwnershipConflict",
    "Partitions",
    "PhaseJoined",
    "RebalanceCompleted",
    "RebalanceStarted",
    "ShardGiven",
    "ShardTaken",
    "TopicChanged",
    "read_line",
    "write_line",
]

#: The only version of the schema that is written and read.
SCHEMA_VERSION: Final = 1


class JournalError(CoterieError):
    """Text that is not a journal line of the known version and a known kind.

    `node` and `seq` are the line's own, if they could be read.
    """

    def __init__(self, reason: str, *, node: str | None = None, seq: int | None = None) -> None:
        super().__init__(reason)
        self.node = node
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Line:
    """An event and its envelope."""

    ts: int
    node: str
    seq: int
    event: Event


def _names(cls: type[Event | MemberPhase]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


_FIELDS: Final = {cls: _names(cls) for cls in KINDS.values()}
_PHASE_FIELDS: Final = _names(MemberPhase)


def _plain(value: Any) -> dict[str, Any]:  # called for values that JSON does not have
    if not isinstance(value, MemberPhase):
        raise TypeError(f"{type(value).__name__} has no place in a journal line")
    return {name: getattr(value, name) for name in _PHASE_FIELDS}


#: Shared by all lines; `json.dumps` with these arguments would make an encoder for each.
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


def write_line(line: Line) -> str:
    """Return the JSON text of a line, without a line break."""
    event = line.event
    values: dict[str, Any] = {
        "v": SCHEMA_VERSION,
        "ts": line.ts,
        "node": line.node,
        "seq": line.seq,
        "group": event.group,
        "kind": event.kind,
    }
    # `group` is there already and keeps its place.
    for name in _FIELDS[type(event)]:
        values[name] = getattr(event, name)
    return _encode(values)


def read_line(text: str) -> Line:
    """Read a line, ignoring fields that are not in the schema."""
    values = _object(text)
    version, ts, node, seq = (values.get(name) for name in ("v", "ts", "node", "seq"))
    if not (isinstance(ts, int) and isinstance(node, str) and isinstance(seq, int)):
        raise JournalError("it lacks ts, node or seq")
    if version != SCHEMA_VERSION:
        reason = f"its version is {version!r}; this Coterie reads version {SCHEMA_VERSION}"
        raise JournalError(reason, node=node, seq=seq)
    cls = KINDS.get(str(values.get("kind")))
    if cls is None:
        raise JournalError(f"unknown kind {values.get('kind')!r}", node=node, seq=seq)
    try:
        event = cls(**{name: _frozen(values[name]) for name in _FIELDS[cls] if name in values})
        return Line(ts, node, seq, _with_phases(event))
    except (AttributeError, RecursionError, TypeError) as error:
        raise JournalError(f"not a {cls.kind}: {error}", node=node, seq=seq) from error


def _object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JournalError(f"it is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise JournalError("it is not a JSON object")
    return values


def _frozen(value: Any) -> Any:  # any JSON value
    """JSON's lists as the tuples that events have."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def _with_phases(event: Event) -> Event:
    if not isinstance(event, PhaseJoined):
        return event
    rows: Any = event.members
    members = tuple(MemberPhase(**{k: row[k] for k in _PHASE_FIELDS if k in row}) for row in rows)
    return dataclasses.replace(event, members=members)
