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
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol._journal_events import (
    CAUSES,
    DEATHS,
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
    OperationEnded,
    OperationStarted,
    OwnershipConflict,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    ShardGiven,
    ShardTaken,
    TopicChanged,
)
from coterie_protocol._journal_offsets import OffsetsForm, OffsetsOfTopic, text_of
from coterie_protocol._journal_text import event_writer
from coterie_protocol._journal_values import DATE_MS_MAX, SEQ_MAX, misfit
from coterie_protocol.exceptions import CoterieError

__all__ = [
    "CAUSES",
    "DEATHS",
    "KINDS",
    "LINE_LENGTH_MAX",
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
    "OffsetsForm",
    "OffsetsOfTopic",
    "OperationEnded",
    "OperationStarted",
    "OwnershipConflict",
    "Partitions",
    "PhaseJoined",
    "RebalanceCompleted",
    "RebalanceStarted",
    "ShardGiven",
    "ShardTaken",
    "TopicChanged",
    "event_of",
    "read_line",
    "read_values",
    "why_unended",
    "write_around_number",
    "write_line",
]

#: The only version of the schema that is written and read.
SCHEMA_VERSION: Final = 1


class JournalError(CoterieError):
    """Text that is not a journal line of the known version and a known kind.

    `node` and `seq` are the line's own, if they could be read.  `why` is one of torn (it begins
    like a line and is no JSON), foreign (it is not a line of a journal), newer (its version is),
    unknown_kind, misfit (a field is missing or has a value that it can't have).
    """

    def __init__(
        self,
        reason: str,
        *,
        why: str = "foreign",
        node: str | None = None,
        seq: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.why = why
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


def _nullable(cls: type[Event | MemberPhase]) -> tuple[str, ...]:
    """The fields that are null in lines without them."""
    hints = typing.get_type_hints(cls)
    return tuple(name for name in _names(cls) if type(None) in typing.get_args(hints[name]))


_FIELDS: Final = {cls: _names(cls) for cls in KINDS.values()}
_NULLABLE: Final = {cls: _nullable(cls) for cls in KINDS.values()}
_PHASE_FIELDS: Final = _names(MemberPhase)
_PHASE_NULLABLE: Final = _nullable(MemberPhase)


def write_line(line: Line) -> str:
    """Return the JSON text of a line, without a line break."""
    before, after = write_around_number(line.ts, line.node, line.event)
    return f"{before}{line.seq}{after}"


def write_around_number(ts: int, node: str, event: Event) -> tuple[str, str]:
    """Return the text of a line before its number, and after it: for who gets to know that last."""
    before = f'{{"v":{SCHEMA_VERSION},"ts":{ts},"node":{text_of(node)},"seq":'
    return before, event_writer(type(event))(event)


def read_line(text: str | bytes) -> Line:
    """Read a line, ignoring fields that are not in the schema."""
    values = read_values(text)
    return Line(values["ts"], values["node"], values["seq"], event_of(values))


def event_of(values: Mapping[str, Any]) -> Event:
    """The event of a line that was read as JSON's values."""
    cls = KINDS[values["kind"]]
    fields: dict[str, Any] = dict.fromkeys(_NULLABLE[cls])
    fields |= {name: _frozen(values[name]) for name in _FIELDS[cls] if name in values}
    return _with_phases(cls(**fields))


def read_values(text: str | bytes) -> dict[str, Any]:
    """Read a line as JSON's values, all of which are of their right types and within limits.

    This is what decides whether a line counts, for every reader of journals.
    """
    values = _object(text)
    ts, node, seq = (values.get(name) for name in ("ts", "node", "seq"))
    if not (type(ts) is int and type(node) is str and type(seq) is int and 0 <= seq <= SEQ_MAX):
        raise JournalError("it lacks ts, node or seq")
    version, kind = values.get("v"), values.get("kind")
    if type(version) is not int or version != SCHEMA_VERSION:
        is_newer = type(version) is int and version > SCHEMA_VERSION
        reason = f"its version is {version!r}; this Coterie reads version {SCHEMA_VERSION}"
        raise JournalError(reason, why="newer" if is_newer else "misfit", node=node, seq=seq)
    cls = KINDS.get(kind) if type(kind) is str else None
    if cls is None:
        raise JournalError(f"unknown kind {kind!r}", why="unknown_kind", node=node, seq=seq)
    name = misfit(cls, values) if 0 <= ts <= DATE_MS_MAX else "ts"
    if name is not None:
        what = f"has {values[name]!r:.60}" if name in values else "is missing"
        reason = f"not a {cls.kind}: its field {name} {what}"
        raise JournalError(reason, why="misfit", node=node, seq=seq)
    return values


#: How every line of every version begins.
_BEGINNING: Final = '{"v":'

#: Longer lines are not journals': no group has that many members.
LINE_LENGTH_MAX: Final = 64 * 1024 * 1024


def why_unended(text: bytes) -> str:
    """The `why` of a last line without a line break, which does not count whatever it says.

    A node that restarts after a crash begins a new file, and uses that line's number again.
    """
    beginning = _BEGINNING.encode()
    return "torn" if beginning.startswith(text[: len(beginning)]) else "foreign"


def _object(text: str | bytes) -> dict[str, Any]:
    if len(text) > LINE_LENGTH_MAX:
        raise JournalError(f"it is longer than {LINE_LENGTH_MAX:,} bytes")
    if isinstance(text, bytes):
        text = _decoded(text)
    try:
        values = _decode(text)
    except json.JSONDecodeError as error:
        # What follows a whole value was not cut off.
        is_cut = text.startswith(_BEGINNING) and not error.msg.startswith("Extra data")
        reason = f"it is not JSON: {error}"
        raise JournalError(reason, why="torn" if is_cut else "foreign") from error
    except (ValueError, RecursionError) as error:
        raise JournalError(f"it is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise JournalError("it is not a JSON object")
    if _HALF_CHARACTER.search(text) and not _is_encodable(values):
        raise JournalError("it has half of a character")
    return values


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_cut = data.startswith(_BEGINNING.encode()) and error.end == len(data)
        raise JournalError("it is not UTF-8", why="torn" if is_cut else "foreign") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_constant=_refuse).decode

#: An escaped half of a character, which is none without the other half.
_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _is_encodable(values: dict[str, Any]) -> bool:
    # Not by recursion: what can be decoded may nest more deeply than Python's stack allows then.
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return True


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
    members = tuple(MemberPhase(**_of_phase(row)) for row in rows)
    return dataclasses.replace(event, members=members)


def _of_phase(row: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = dict.fromkeys(_PHASE_NULLABLE)
    return known | {name: row[name] for name in _PHASE_FIELDS if name in row}
