"""What a group counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie_client.membership import events as m
from coterie_client.wire import Counters
from coterie_client.work import events as w

__all__ = ["GroupCounters"]


@dataclass(slots=True)
class GroupCounters:
    """How often what has happened to a group so far; the numbers only grow."""

    #: Generations that the member became part of.
    generations: int = 0
    #: Partitions that became ours.
    assigned: int = 0
    #: Partitions that were let go of in good order.
    released: int = 0
    #: Partitions that were lost, without a chance to finish.
    lost: int = 0
    #: Partitions whose work did not end in time.
    overran: int = 0
    coordinator_losses: int = 0
    retries: int = 0
    #: Calls of `commit` that succeeded, and that failed.
    commits: int = 0
    commit_failures: int = 0
    work_started: int = 0
    work_finished: int = 0
    work_failed: int = 0
    work_stalled: int = 0
    #: Partitions that this member began to keep up to date, as standbys or warm-ups.
    standbys: int = 0
    #: Standbys and warm-ups that became ours.
    promoted: int = 0
    #: Times at which this member made the group rebalance because warm-ups had caught up.
    warm_ups_ready: int = 0
    restores_started: int = 0
    restores_failed: int = 0
    #: Errors that the `on_event` hook raised.
    hook_failures: int = 0
    #: What went over the wire.
    wire: Counters = field(default_factory=Counters)

    def count(self, event: m.Event) -> None:
        """Take note of an event."""
        match event:
            case m.PartitionsAssigned():
                self.assigned += len(event.partitions)
            case m.PartitionsReleased() | m.CommitsUnconfirmed():
                self.released += len(event.partitions)
            case m.PartitionsLost():
                self.lost += len(event.partitions)
            case m.StandbysPromoted():
                self.promoted += len(event.partitions)
            case m.StandbysChanged():
                self.standbys += len(event.added)
            case m.RevocationOverran():
                self.overran += len(event.partitions)
            case _:
                name = _COUNTED.get(type(event))
                if name is not None:
                    setattr(self, name, getattr(self, name) + 1)


#: Events that count once each.
_COUNTED: dict[type[m.Event], str] = {
    m.GroupJoined: "generations",
    m.CoordinatorLost: "coordinator_losses",
    m.RetryPlanned: "retries",
    w.WorkStarted: "work_started",
    w.WorkFinished: "work_finished",
    w.WorkFailed: "work_failed",
    w.WorkFailedEnding: "work_failed",
    w.WorkStalled: "work_stalled",
    m.WarmUpReady: "warm_ups_ready",
    w.RestoreStarted: "restores_started",
    w.RestoreFailed: "restores_failed",
}
