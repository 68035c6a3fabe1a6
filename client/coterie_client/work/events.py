"""Events about the work on partitions, and about the group as its user sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie_client.log import in_a_line
from coterie_client.membership.actions import Position
from coterie_client.membership.events import Event, Partitions, Severity
from coterie_client.wire.addresses import TopicPartition

__all__ = [
    "GroupFailed",
    "RestoreFailed",
    "RestoreFinished",
    "RestoreStarted",
    "WorkFailed",
    "WorkFailedEnding",
    "WorkFinished",
    "WorkHeldUp",
    "WorkLeftBehind",
    "WorkRecovered",
    "WorkStalled",
    "WorkStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure(Event):
    """An event that carries an exception."""

    severity = Severity.ERROR
    exception: BaseException
    #: Whether it is also raised, by `run` or at the end of the block.
    is_raised: bool = False

    def details(self) -> Mapping[str, Any]:
        """The event's fields for a log line; the exception as one line."""
        hidden = ("exception", "is_raised")
        rest = {k: v for k, v in Event.details(self).items() if k not in hidden}
        return rest | {"error": in_a_line(self.exception)}

    @property
    def untold(self) -> BaseException | None:
        """The exception, unless its traceback is shown where it is raised."""
        is_told = self.is_raised or self.exception.__traceback__ is None
        return None if is_told else self.exception


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFailed(_Failure):
    """The membership ended for a reason that a retry would not change."""

    text = "the group can't go on"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStarted(Event):
    """Work on a partition has begun."""

    severity = Severity.DEBUG
    text = "work started"
    partition: TopicPartition
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFinished(Event):
    """Work returned; the partition rests until it is assigned again."""

    text = "work returned, its partition rests until it is assigned again"
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed(_Failure):
    """Work raised."""

    text = "work failed"
    partition: TopicPartition
    #: "restart", "release" or "stop".
    policy: str
    #: How long it pauses before it may start again; zero for "stop".
    pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailedEnding(_Failure):
    """Work raised after it was cancelled, so no policy applies."""

    text = "work failed while it was ending"
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkHeldUp(Event):
    """Work can't start yet, because a former task of its partition is still running."""

    severity = Severity.WARNING
    text = "work waits for a former task of its partition to end"
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStalled(Event):
    """Work has neither committed nor called `progress` for too long."""

    severity = Severity.ERROR
    text = "work makes no progress"
    partition: TopicPartition
    stalled_s: float
    #: Its last commit, if there is one.
    position: Position | None
    #: "report", "restart" or "release".
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRecovered(Event):
    """Work that had stalled makes progress again."""

    text = "work makes progress again"
    partition: TopicPartition
    stalled_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeftBehind(Event):
    """The group was closed while work on these partitions was still running."""

    severity = Severity.ERROR
    text = "work did not end although the group was closed"
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStarted(Event):
    """The state of a partition is being brought up to date, and kept so."""

    severity = Severity.DEBUG
    text = "restore started"
    partition: TopicPartition
    #: "standby" or "warm-up".
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFinished(Event):
    """A restore returned; the state counts as being as far behind as it said last."""

    text = "restore returned, its state is not brought up to date any more"
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFailed(_Failure):
    """A restore raised; it is started again after a pause."""

    text = "restore failed"
    partition: TopicPartition
    #: How long it pauses; zero if the partition is not kept up to date any more.
    pause_s: float
