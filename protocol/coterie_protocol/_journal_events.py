"""The events of a journal, for import from `coterie_protocol.journal`.

`docs/journal.md` explains every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from coterie_protocol._journal_base import Event, Lags, Partitions
from coterie_protocol._journal_node_events import (
    ClockStepped,
    NodePaused,
    NodeStarted,
    NodeStopped,
    ShardGiven,
    ShardTaken,
)
from coterie_protocol._journal_operation_events import OperationEnded, OperationStarted
from coterie_protocol._twin import made_as_twin

__all__ = [
    "CAUSES",
    "DEATHS",
    "KINDS",
    "ClockStepped",
    "Event",
    "GroupDeleted",
    "GroupEmptied",
    "GroupRecovered",
    "IdUnclaimed",
    "Lags",
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
]

#: All causes that a rebalance can have, and what they mean.
CAUSES: Final[Mapping[str, str]] = {
    "member_joined": "a member came that was not in the group",
    "member_left": "a member said that it leaves",
    "member_removed": "an administrator removed a member",
    "session_expired": "a member was silent for longer than its session timeout",
    "registration_expired": "a static member was away for longer than its registration timeout",
    "join_expired": "a new member's join was parked for too long and its client gave up",
    "sync_expired": "a member joined the generation but never asked for its assignment",
    "subscription_changed": "a member joined again with other topics, protocols or user data",
    "revocation_follow_up": "members had to give up partitions before others could get them",
    "probing": "the leader looked whether copies of state have caught up",
    "warm": "a member's copies of state have caught up, or it began to report them",
    "load": "loads are out of balance by what the leader knows, or a member's own has changed",
    "leader_rejoined": "the leader joined again, as it does when it sees topics change",
    "static_replaced": "a static member came back in a way that changed the generation",
    "static_expansion": "static members came, and the time to collect them was over",
    "topic_changed": "a topic that the group subscribes to appeared, grew or went away",
    "admin": "an administrator asked for it",
    "drain": "an administrator drained a member, or let it work again",
    "pin": "an administrator pinned partitions to a member, kept them from one, or ended that",
    "freeze": "a freeze began while the leader was at work, or it ended",
    "over_capacity": "the group was read back with more members than group.max.size allows",
}

#: How members go whose session was over.
DEATHS: Final = ("session_expired", "registration_expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecovered(Event):
    """A group was loaded after a restart: in the same generation, without a rebalance."""

    kind: ClassVar[str] = "group_recovered"

    state: str
    generation: int
    members: tuple[str, ...]
    #: Each member's last assignment; None if the assignments can't be read.
    assigned: Mapping[str, Partitions] | None = None
    #: Those of the members whose session is over and whose place is kept.
    away: tuple[str, ...] = ()
    #: Grows each time that a node takes the group over; 0 if that is not known.
    fence: int = 0


@made_as_twin
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Event):
    """A new member was added to the group."""

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
    #: How long it may be silent before its place is given up: a static member for a session or
    #: longer; 0 for a dynamic one, and in older journals.
    registration_timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IdUnclaimed(Event):
    """A client was given a member id, for which a rebalance waits, and never joined with it."""

    kind: ClassVar[str] = "id_unclaimed"

    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReplaced(Event):
    """A static member returned under a new member id and took its old place."""

    kind: ClassVar[str] = "member_replaced"

    instance: str
    member: str
    host: str
    former_member: str
    former_host: str
    #: Time since the last request under the former member id.
    silent_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAway(Event):
    """The session of a static member is over, and its place is kept until it is back.

    It ends with a MemberReturned or a MemberGone.
    """

    kind: ClassVar[str] = "member_away"

    member: str
    instance: str
    host: str
    silent_ms: int
    session_timeout_ms: int
    #: How long it may be silent in all.
    registration_timeout_ms: int
    #: When its place is given up.
    until: int
    #: Its last assignment; None if that can't be read.
    owned: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReturned(Event):
    """A static member that was away is back, under whichever member id it has now."""

    kind: ClassVar[str] = "member_returned"

    member: str
    instance: str
    host: str
    #: Since its session ended.
    away_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFenced(Event):
    """A request was refused because another member has taken over its instance id."""

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

    `how` is one of left, removed (by its instance id), session_expired, registration_expired (it
    was static and away for too long), join_expired, rebalance_expired (did not join in time),
    sync_expired, turned_away (the group is full).
    """

    kind: ClassVar[str] = "member_gone"

    member: str
    instance: str | None
    host: str
    how: str
    silent_ms: int
    session_timeout_ms: int
    reason: str = ""
    #: Its last assignment; these partitions have no owner until the next one.
    owned: Partitions | None = None
    #: Since its session ended, if its place was kept after that.
    away_ms: int = 0

    @property
    def was_silent(self) -> bool:
        """Whether its session was over: nothing shows that it still worked."""
        return self.how in DEATHS or self.away_ms > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(Event):
    """The first phase begins: the group asks its members to join again."""

    kind: ClassVar[str] = "rebalance_started"

    generation: int
    from_state: str
    cause: str
    detail: str
    #: The members that have not joined yet, and until when the group waits for them at most.
    awaited: tuple[str, ...]
    deadline: int | None
    #: The generation that called for this rebalance, if one did.
    follows: int | None = None


@made_as_twin
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPhase:
    """One member's part in the first phase."""

    member: str
    instance: str | None
    host: str
    #: From the start of the rebalance to this member's join; None if it is static and was away.
    joined_after_ms: int | None
    topics: tuple[str, ...] | None = None
    #: The partitions that it claims as it joins; None if they can't be read.
    owned: Partitions | None = None
    #: How far behind its copies of state are; None if it reports none that can be read.
    lags: Lags | None = None


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
    #: The member that joined last.
    last: str | None
    cause: str
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted(Event):
    """The second phase is over: the leader's assignment is in effect."""

    kind: ClassVar[str] = "rebalance_completed"

    generation: int
    cause: str
    #: By member; None if the assignment can't be read.
    assigned: Mapping[str, Partitions] | None
    #: Partitions that changed hands, or were taken away, compared with the last assignment.
    moved: int
    revoked: int
    needs_rejoin: bool
    took_ms: int
    total_ms: int
    #: By member, the partitions of which it is to keep a copy, and those of which it makes one in
    #: order to work on them; None if the leader ordered nothing that can be read.
    standbys: Mapping[str, Partitions] | None = None
    warming: Mapping[str, Partitions] | None = None
    #: By member, what it is to work on in the end, where another member does now.
    targets: Mapping[str, Partitions] | None = None
    #: When the group is to look again whether copies have caught up; None if it need not.
    next_probing: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEmptied(Event):
    """The last member has left."""

    kind: ClassVar[str] = "group_emptied"

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(Event):
    """A group and its offsets were deleted, or they expired."""

    kind: ClassVar[str] = "group_deleted"

    generation: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipConflict(Event):
    """A partition was given to a member while another one held it, or to two members at once."""

    kind: ClassVar[str] = "ownership_conflict"

    generation: int
    topic: str
    partition: int
    holder: str
    given_to: str
    #: Whether the guard withheld it from the new member.
    withheld: bool


@made_as_twin
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Event):
    """Offsets were stored."""

    kind: ClassVar[str] = "offsets_committed"

    member: str
    generation: int
    #: By topic and partition number (a string, because JSON's keys are).
    offsets: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Event):
    """Offsets were deleted by request, or with their topic."""

    kind: ClassVar[str] = "offsets_deleted"

    partitions: Partitions
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired(Event):
    """Offsets were deleted because they had not been used for the retention time."""

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
