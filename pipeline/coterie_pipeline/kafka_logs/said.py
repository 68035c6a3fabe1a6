"""What a line of a coordinator's log says, whichever version of Kafka wrote it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Assigned",
    "Card",
    "Deleted",
    "Emptied",
    "Failed",
    "Fenced",
    "IdGiven",
    "Joined",
    "Left",
    "Loaded",
    "LoadedMember",
    "Newer",
    "NotRejoined",
    "Nothing",
    "OffsetsGone",
    "Preparing",
    "Replaced",
    "Said",
    "Stabilized",
    "Started",
    "Stopped",
    "Unclaimed",
    "Version",
]


@dataclass(frozen=True, slots=True)
class Card:
    """A member as far as it is described; timeouts are 0 and texts empty if they are not known."""

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
class Said:
    """Something that was said."""


@dataclass(frozen=True, slots=True)
class Preparing(Said):
    """A rebalance begins."""

    group: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stabilized(Said):
    """The members have joined; `count` is how many they are."""

    group: str
    generation: int
    count: int | None


@dataclass(frozen=True, slots=True)
class Assigned(Said):
    """The leader's assignment came."""

    group: str
    generation: int
    leader: str | None


@dataclass(frozen=True, slots=True)
class Emptied(Said):
    """The last member is gone."""

    group: str
    generation: int


@dataclass(frozen=True, slots=True)
class NotRejoined(Said):
    """Members did not join in time and are out."""

    group: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdGiven(Said):
    """A client was told its member id; whether it came back with it is not said."""

    group: str
    member: str
    #: The state that the group was in.
    state: str


@dataclass(frozen=True, slots=True)
class Unclaimed(Said):
    """Such a client did not come back."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Joined(Said):
    """A member was taken in."""

    group: str
    member: str
    instance: str | None
    #: The state that the group was in; empty if that is not said.
    state: str


@dataclass(frozen=True, slots=True)
class Replaced(Said):
    """A static member came back; the group and its new member id are not always said."""

    group: str | None
    instance: str
    former: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Fenced(Said):
    """A request under a name that somebody else holds was refused."""

    instance: str
    member: str
    holder: str
    request: str


@dataclass(frozen=True, slots=True)
class Failed(Said):
    """A member was silent for too long."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Left(Said):
    """A member said that it leaves, or somebody else said so of it."""

    group: str
    member: str
    reason: str | None
    card: Card | None


@dataclass(frozen=True, slots=True)
class LoadedMember(Said):
    """A member was read back, in one of the generations that the coordinator reads through."""

    group: str
    generation: int
    card: Card


@dataclass(frozen=True, slots=True)
class Loaded(Said):
    """A group was read back; of its generation and the count of its members one is said."""

    group: str
    generation: int | None
    count: int | None


@dataclass(frozen=True, slots=True)
class Deleted(Said):
    """Groups are gone, as somebody asked or with their last offsets."""

    groups: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class OffsetsGone(Said):
    """Offsets were deleted on request."""

    group: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Started(Said):
    """The coordinator is ready."""


@dataclass(frozen=True, slots=True)
class Stopped(Said):
    """The coordinator stops in good order."""


@dataclass(frozen=True, slots=True)
class Version(Said):
    """Which Kafka this is."""

    version: str


@dataclass(frozen=True, slots=True)
class Newer(Said):
    """Something about a group that is no classic one."""

    group: str


@dataclass(frozen=True, slots=True)
class Nothing(Said):
    """Known, and of no use."""
