"""What the membership asks of its driver, and how a request's failure is told to it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from coterie_client.membership.events import Event
from coterie_client.wire.addresses import AnyNode, Lane, NodeAddress, TopicPartition

__all__ = [
    "Abandon",
    "Action",
    "Assign",
    "Committed",
    "Failure",
    "FailureKind",
    "Fetched",
    "Hangup",
    "KeepWarm",
    "Lose",
    "Position",
    "ReportEvent",
    "Revoke",
    "Role",
    "Send",
    "Stop",
]


class FailureKind(Enum):
    """Why a request got no answer."""

    #: The connection broke, or none could be made.  Whether the request arrived is not known.
    LOST = auto()
    #: No answer came in time.
    TIMED_OUT = auto()
    #: It can't be sent at all, and sending it again would not help.
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no answer."""

    kind: FailureKind
    error: Exception | None = None

    @property
    def reason(self) -> Exception:
        """The error that says why."""
        return self.error or ConnectionError(self.kind.name.lower().replace("_", " "))

    def __str__(self) -> str:
        return str(self.reason)


@dataclass(frozen=True, slots=True)
class Position:
    """A committed offset."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; answer with `answered` or `failed` under the same ticket."""

    ticket: int
    message: Any
    to: NodeAddress | AnyNode
    lane: Lane
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the connections to a node, or the one of a lane, because it does not answer."""

    node: NodeAddress
    #: None for all lanes.
    lane: Lane | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Start work on these partitions, each with its fencing token."""

    partitions: Mapping[TopicPartition, int]
    generation: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """End work on these partitions in order, then call `released`.  Commits still pass."""

    partitions: frozenset[TopicPartition]
    #: When they are no longer owned, whether the work has ended or not.
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """These were not released in time: work on them goes on without owning them."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Lose:
    """Stop work on these partitions at once: other members may own them already."""

    partitions: frozenset[TopicPartition]
    reason: str


class Role(Enum):
    """Why a member keeps the state of a partition up to date that another one works on."""

    #: To take over at once when the other one fails.
    STANDBY = "standby"
    #: To take over as soon as it has caught up.
    WARM_UP = "warm-up"


@dataclass(frozen=True, slots=True)
class KeepWarm:
    """Keep the state of these up to date from now on, and of no others.

    What is to be worked on as well is named by an `Assign` that follows.
    """

    roles: Mapping[TopicPartition, Role]
    generation: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit: it is stored if there is no error."""

    key: Hashable
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """The outcome of a fetch; no position and no error if nothing was committed yet."""

    key: Hashable
    position: Position | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ReportEvent:
    """Tell the log, the counters and the user of an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class Stop:
    """The membership is over: it was closed, or cannot go on."""

    error: Exception | None = None


Action: TypeAlias = (
    Send
    | Hangup
    | Assign
    | Revoke
    | Abandon
    | Lose
    | KeepWarm
    | Committed
    | Fetched
    | ReportEvent
    | Stop
)
