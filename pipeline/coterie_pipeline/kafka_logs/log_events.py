"""The meaning of a line of a coordinator's log, whichever version of Kafka wrote it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Assigned",
    "Deleted",
    "Emptied",
    "Failed",
    "Fenced",
    "IdGiven",
    "Joined",
    "Left",
    "Loaded",
    "LoadedMember",
    "LogEvent",
    "MemberInfo",
    "Newer",
    "NotRejoined",
    "Nothing",
    "OffsetsGone",
    "Preparing",
    "Replaced",
    "Stabilized",
    "Started",
    "Stopped",
    "Unclaimed",
    "Version",
]


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What is known of a member; timeouts are 0 and texts empty if they are not known."""

    member: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    session_ms: int = 0
    rebalance_ms: int = 0
    protocols: tuple[str, ...] = ()
    #: The topics that it subscribes to; None if that is not known.
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LogEvent:
    """What a line means."""


@dataclass(frozen=True, slots=True)
class Preparing(LogEvent):
    """A rebalance begins."""

    group: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stabilized(LogEvent):
    """The members have joined; `count` is how many they are."""

    group: str
    generation: int
    count: int | None


@dataclass(frozen=True, slots=True)
class Assigned(LogEvent):
    """The leader's assignment came."""

    group: str
    generation: int
    leader: str | None


@dataclass(frozen=True, slots=True)
class Emptied(LogEvent):
    """The last member is gone."""

    group: str
    generation: int


@dataclass(frozen=True, slots=True)
class NotRejoined(LogEvent):
    """Members did not join in time and are out."""

    group: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdGiven(LogEvent):
    """A client was given a member id; the line does not say whether it came back with it."""

    group: str
    member: str
    #: The state that the group was in.
    state: str


@dataclass(frozen=True, slots=True)
class Unclaimed(LogEvent):
    """A client that was given a member id did not come back."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Joined(LogEvent):
    """A member was taken in."""

    group: str
    member: str
    instance: str | None
    #: The state that the group was in; empty if the line does not say.
    state: str


@dataclass(frozen=True, slots=True)
class Replaced(LogEvent):
    """A static member came back; not every line names the group and the new member id."""

    group: str | None
    instance: str
    former: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Fenced(LogEvent):
    """A request under the instance id of another member was refused."""

    instance: str
    member: str
    holder: str
    request: str


@dataclass(frozen=True, slots=True)
class Failed(LogEvent):
    """A member was silent for too long."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Left(LogEvent):
    """A member left, or an administrator removed it."""

    group: str
    member: str
    reason: str | None
    info: MemberInfo | None


@dataclass(frozen=True, slots=True)
class LoadedMember(LogEvent):
    """A member was read back, in one of the generations that the coordinator reads through."""

    group: str
    generation: int
    info: MemberInfo


@dataclass(frozen=True, slots=True)
class Loaded(LogEvent):
    """A group was read back; the line has either its generation or its number of members."""

    group: str
    generation: int | None
    count: int | None


@dataclass(frozen=True, slots=True)
class Deleted(LogEvent):
    """Groups were deleted, on request or with their last offsets."""

    groups: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class OffsetsGone(LogEvent):
    """Offsets were deleted on request."""

    group: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Started(LogEvent):
    """The coordinator is ready."""


@dataclass(frozen=True, slots=True)
class Stopped(LogEvent):
    """The coordinator stops in good order."""


@dataclass(frozen=True, slots=True)
class Version(LogEvent):
    """Which Kafka this is."""

    version: str


@dataclass(frozen=True, slots=True)
class Newer(LogEvent):
    """Something about a group of a newer kind."""

    group: str


@dataclass(frozen=True, slots=True)
class Nothing(LogEvent):
    """A known line that adds nothing."""
