"""What coordinators write down: one JSON object a line, of one of the kinds declared here.

Each line has an envelope (`v`, `ts`, `node`, `seq`, `group`, `kind`) and then the kind's fields.
The lines of a node, in the order of `seq`, answer with no other source which rebalance was started
by what, who was waited for and for how long, who was dropped, and what everybody owned before and
was given after.  `docs/journal.md` explains every field.

Partitions are written as `{"topic": [0, 1]}`, times in milliseconds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

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
    "Line",
    "MemberFenced",
    "MemberGone",
    "MemberJoined",
    "MemberPhase",
    "MemberReplaced",
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
    "TopicChanged",
    "read_line",
    "write_line",
]

SCHEMA_VERSION: Final = 1

#: Partitions by topic.
Partitions = Mapping[str, tuple[int, ...]]

#: Every cause that a rebalance can have, and what it means.  No rebalance has any other.
CAUSES: Final[Mapping[str, str]] = {
    "member_joined": "a member came that was not in the group",
    "member_left": "a member said that it leaves",
    "member_removed": "an administrator removed a static member",
    "session_expired": "a member was silent for longer than its session timeout",
    "join_expired": "a new member's join was parked for too long and its client gave up",
    "sync_expired": "a member joined the generation but never asked for its assignment",
    "subscription_changed": "a member joined again with other topics, protocols or user data",
    "revocation_follow_up": "members had to give up partitions before others could get them",
    "leader_rejoined": "the leader joined again, as it does when it sees topics change",
    "static_replaced": "a static member came back in a way that changed the generation",
    "static_expansion": "static members came, and the time to collect them was over",
    "topic_changed": "a topic that the group subscribes to appeared, grew or went away",
    "admin": "an administrator asked for it",
    "over_capacity": "the group was read back with more members than group.max.size allows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a group, or to the node if `group` is empty."""

    kind: ClassVar[str]

    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """A node is ready to serve; it read this many groups and offsets back."""

    kind: ClassVar[str] = "node_started"

    version: str
    groups: int
    offsets: int
    load_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it was told to go on though its store had lost something that was acknowledged.
    accepted_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """A node stopped in good order; a journal that goes on without this line saw a crash."""

    kind: ClassVar[str] = "node_stopped"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaused(Event):
    """A node did not run for a while: its process or machine was suspended, or its loop blocked.

    No session, rebalance or other deadline counts that time.
    """

    kind: ClassVar[str] = "node_paused"

    paused_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Event):
    """The system's clock of a node was set; the journal's times follow, and never go back."""

    kind: ClassVar[str] = "clock_stepped"

    #: Negative if it was set back.
    stepped_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecovered(Event):
    """A group was read back after a restart; the same generation, no rebalance."""

    kind: ClassVar[str] = "group_recovered"

    state: str
    generation: int
    members: tuple[str, ...]
    #: What each member had been given last; None if that can't be read.
    assigned: Mapping[str, Partitions] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Event):
    """A member was taken into the group."""

    kind: ClassVar[str] = "member_joined"

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    topics: tuple[str, ...] | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdUnclaimed(Event):
    """A client was told its member id and never came back with it; a rebalance waits for those."""

    kind: ClassVar[str] = "id_unclaimed"

    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReplaced(Event):
    """A static member came back under a new member id and took its old place."""

    kind: ClassVar[str] = "member_replaced"

    instance: str
    member: str
    host: str
    former_member: str
    former_host: str
    #: How long the former one had not been heard of.
    silent_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFenced(Event):
    """A request under an instance id that somebody else holds by now was refused."""

    kind: ClassVar[str] = "member_fenced"

    instance: str
    member: str
    host: str
    holder: str
    holder_host: str
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberGone(Event):
    """A member is no longer in the group.

    `how` is one of left, removed (by its instance id), session_expired, join_expired,
    rebalance_expired (did not join in time), sync_expired, turned_away (the group is full).
    """

    kind: ClassVar[str] = "member_gone"

    member: str
    instance: str | None
    host: str
    how: str
    silent_ms: int
    session_timeout_ms: int
    reason: str = ""
    #: What it was given last; these partitions have nobody until the next assignment.
    owned: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(Event):
    """The first phase begins: the group asks its members to join again."""

    kind: ClassVar[str] = "rebalance_started"

    generation: int
    from_state: str
    cause: str
    detail: str
    #: The members whose joins are awaited, and until when at most.
    awaited: tuple[str, ...]
    deadline: int | None
    #: The generation that called for this rebalance, if one did.
    follows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPhase:
    """One member in the first phase."""

    member: str
    instance: str | None
    host: str
    #: From the start of the rebalance to this member's join; None for a static one that was away.
    joined_after_ms: int | None
    topics: tuple[str, ...] | None = None
    #: What it says that it owns as it joins; None if that can't be read.
    owned: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseJoined(Event):
    """The first phase is over: a new generation has its members, protocol and leader."""

    kind: ClassVar[str] = "phase_joined"

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[MemberPhase, ...]
    dropped: tuple[str, ...]
    #: The member that everybody waited for longest.
    last: str | None
    cause: str
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted(Event):
    """The second phase is over: the leader's assignment is in place."""

    kind: ClassVar[str] = "rebalance_completed"

    generation: int
    cause: str
    #: By member; None if the assignment can't be read.
    assigned: Mapping[str, Partitions] | None
    #: Partitions that changed hands or were taken away, compared with what was given last.
    moved: int
    revoked: int
    needs_rejoin: bool
    took_ms: int
    total_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEmptied(Event):
    """The last member is gone."""

    kind: ClassVar[str] = "group_emptied"

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(Event):
    """A group and its offsets were deleted, or expired."""

    kind: ClassVar[str] = "group_deleted"

    generation: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipConflict(Event):
    """A partition was given to a member while another still held it, or to two at once."""

    kind: ClassVar[str] = "ownership_conflict"

    generation: int
    topic: str
    partition: int
    holder: str
    given_to: str
    #: Whether the guard kept it from the new member.
    withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Event):
    """Offsets were stored."""

    kind: ClassVar[str] = "offsets_committed"

    member: str
    generation: int
    #: By topic and partition number (as text, as JSON has it).
    offsets: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Event):
    """Offsets were deleted by request, or with their topic."""

    kind: ClassVar[str] = "offsets_deleted"

    partitions: Partitions
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired(Event):
    """Offsets had not been used for longer than they are kept."""

    kind: ClassVar[str] = "offsets_expired"

    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanged(Event):
    """A topic was created, grew or was deleted."""

    kind: ClassVar[str] = "topic_changed"

    topic: str
    change: str
    partitions_before: int
    partitions: int


KINDS: Final[Mapping[str, type[Event]]] = {cls.kind: cls for cls in Event.__subclasses__()}


class JournalError(CoterieError):
    """A line that is no journal line of a known version and kind.

    `node` and `seq` are the line's if at least they could be read.
    """

    def __init__(self, reason: str, *, node: str | None = None, seq: int | None = None) -> None:
        super().__init__(reason)
        self.node = node
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Line:
    """An event with its envelope."""

    ts: int
    node: str
    seq: int
    event: Event


def _names(cls: type[Event | MemberPhase]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


_FIELDS: Final = {cls: _names(cls) for cls in KINDS.values()}
_PHASE_FIELDS: Final = _names(MemberPhase)


def _plain(value: Any) -> dict[str, Any]:  # what JSON has no word for
    if not isinstance(value, MemberPhase):
        raise TypeError(f"{type(value).__name__} has no place in a journal line")
    return {name: getattr(value, name) for name in _PHASE_FIELDS}


#: One encoder for all lines: `json.dumps` with these arguments would make one for each.
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


def write_line(line: Line) -> str:
    """The JSON text of a line, without a line break."""
    event = line.event
    values: dict[str, Any] = {
        "v": SCHEMA_VERSION,
        "ts": line.ts,
        "node": line.node,
        "seq": line.seq,
        "group": event.group,
        "kind": event.kind,
    }
    # `group` is there already, so it keeps its place.
    for name in _FIELDS[type(event)]:
        values[name] = getattr(event, name)
    return _encode(values)


def read_line(text: str) -> Line:
    """Read a line; fields that a newer writer added are passed over."""
    values = _object(text)
    version, ts, node, seq = (values.get(name) for name in ("v", "ts", "node", "seq"))
    if not (isinstance(ts, int) and isinstance(node, str) and isinstance(seq, int)):
        raise JournalError("it has no ts, node and seq")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        reason = f"version {version!r} is newer than {SCHEMA_VERSION}"
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
