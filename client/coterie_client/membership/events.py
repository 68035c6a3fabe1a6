"""What happens to a membership, for the log, the counters and the user's `on_event`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

__all__ = [
    "AssignmentReceived",
    "CommitsUnconfirmed",
    "CoordinatorFound",
    "CoordinatorLost",
    "CoordinatorReached",
    "Event",
    "Fenced",
    "GroupJoined",
    "GroupLeft",
    "JoinStarted",
    "LeaderDecided",
    "PartitionsAssigned",
    "PartitionsLost",
    "PartitionsReleased",
    "ProbingScheduled",
    "ReportUnreadable",
    "ReportVersionChanged",
    "RetryPlanned",
    "RevocationOverran",
    "RevocationStarted",
    "Severity",
    "StandbysChanged",
    "StandbysPromoted",
    "SubscriptionUnreadable",
    "TopicMissing",
    "TopicsChanged",
    "WarmUpReady",
]

Partitions = tuple[tuple[str, int], ...]


class Severity:
    """How loud an event is, in the words of logging."""

    DEBUG: Final = "debug"
    INFO: Final = "info"
    WARNING: Final = "warning"
    ERROR: Final = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of all events."""

    severity: ClassVar[str] = Severity.INFO
    #: What the log line says.
    text: ClassVar[str] = ""

    def details(self) -> Mapping[str, Any]:
        """The event's fields, for a log line."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def untold(self) -> BaseException | None:
        """The error whose traceback belongs in the log, because it is raised nowhere."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFound(Event):
    """The node that coordinates the group is known."""

    text = "found the coordinator"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLost(Event):
    """The coordinator has to be found again."""

    severity = Severity.WARNING
    text = "lost the coordinator"
    node: str
    reason: str
    #: Whether it had served this member since it was found.
    had_served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReached(Event):
    """A coordinator serves the member, after it was lost or could not be found."""

    # As loud as what it puts an end to: a log that shows only warnings shows both.
    severity = Severity.WARNING
    text = "reached the coordinator"
    node: str
    #: Since it was lost, or first looked for in vain.
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlanned(Event):
    """A request failed that may succeed later."""

    severity = Severity.WARNING
    text = "will try again"
    what: str
    reason: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStarted(Event):
    """The member asks to take part in the next generation."""

    text = "joining"
    reason: str
    #: How many partitions it keeps working on meanwhile.
    keeping: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Event):
    """The member is part of a generation, and does not know yet what it owns in it."""

    severity = Severity.DEBUG
    text = "joined"
    member_id: str
    generation: int
    is_leader: bool
    assignor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDecided(Event):
    """The member leads, and has decided who is to own what."""

    text = "shared out the partitions"
    generation: int
    members: int
    partitions: int
    #: How many partitions are not given away yet, because their owners have to let go of them.
    withheld: int
    #: How many partitions stay with their owners until another member has caught up.
    warming_up: int = 0
    #: How many other copies are kept up to date.
    standbys: int = 0

    def details(self) -> Mapping[str, Any]:
        """The event's fields, without those of state if there is none."""
        of_state = ("warming_up", "standbys")
        return {k: v for k, v in Event.details(self).items() if v or k not in of_state}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived(Event):
    """The member knows what it owns in this generation."""

    text = "received an assignment"
    generation: int
    owned: int
    added: Partitions
    revoked: Partitions
    #: Whether the leader asked all members to join again at once.
    needs_rejoin: bool
    #: Since the member began to join.
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAssigned(Event):
    """Work on partitions may start."""

    severity = Severity.DEBUG
    text = "assigned"
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationStarted(Event):
    """The member is letting go of partitions."""

    text = "revoking"
    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsReleased(Event):
    """Work on partitions has ended, and their last commits are in."""

    text = "released"
    partitions: Partitions
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsUnconfirmed(Event):
    """Work on partitions has ended, and its last commits were not answered in time."""

    severity = Severity.WARNING
    text = "released, and the last commits may not be stored"
    partitions: Partitions
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationOverran(Event):
    """Work on partitions did not end in time, and goes on although they are not owned any more."""

    severity = Severity.ERROR
    text = "work did not end in time and goes on without owning its partitions"
    partitions: Partitions
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsLost(Event):
    """The member has lost partitions, without the time to end its work on them."""

    severity = Severity.WARNING
    text = "lost"
    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged(Event):
    """Topics of the group were created, grew or were deleted."""

    text = "topics changed"
    #: How many partitions each has now; None if the topic is gone.
    topics: Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMissing(Event):
    """A topic that the member subscribed to does not exist (yet)."""

    severity = Severity.WARNING
    text = "subscribed to a topic that does not exist"
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionUnreadable(Event):
    """The leader can't read another member's subscription, and gives it nothing."""

    severity = Severity.WARNING
    text = "a member's subscription is unreadable, it gets nothing"
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced(Event):
    """Another process joined under this member's instance id, and took its place."""

    severity = Severity.ERROR
    text = "fenced: another process uses our instance id"
    instance_id: str
    member_id: str
    #: Where this process runs.
    host: str | None
    #: The id of the member that has the instance id now, if the coordinator told it.
    successor: str | None
    successor_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLeft(Event):
    """The member has left its group, or stays in it by its instance id for its next start."""

    text = "left the group"
    member_id: str
    stays: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbysChanged(Event):
    """The member keeps the state of other partitions up to date than before."""

    text = "standbys changed"
    #: All of both kinds, from now on.
    standbys: Partitions
    warm_ups: Partitions
    #: Those of them that are new.
    added: Partitions
    #: What is not kept up to date any more, some of which may be worked on from now on.
    ended: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbysPromoted(Event):
    """The member works on partitions from now on whose state it has kept up to date."""

    text = "promoted"
    partitions: Partitions
    #: How far behind their state was last known to be, at most; None if that is not known of all.
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpReady(Event):
    """Warm-ups have caught up, so the member joins again to get their partitions."""

    text = "warm-ups have caught up"
    partitions: Partitions
    #: The greatest of their lags.
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingScheduled(Event):
    """The member leads, and will have the group rebalance to see who has caught up."""

    severity = Severity.DEBUG
    text = "will look again who has caught up"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportVersionChanged(Event):
    """The member reports its state in another version, which all members of the group know."""

    text = "reports go on in another version"
    version: int
    former: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUnreadable(Event):
    """The leader can't read a member's report of its state, and counts it as not ready."""

    severity = Severity.WARNING
    text = "a member's report of its state is unreadable, so it counts as not ready"
    member_id: str
    reason: str
