"""What the demo tells a worker, on its command line, and what the worker answers, line by line."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self

__all__ = ["Milestone", "WorkEvent", "WorkEventKind", "WorkerOptions", "send", "send_milestone"]


class Milestone(StrEnum):
    """A point that a worker passes once."""

    #: It has loaded all that it needs.
    READY = "ready"
    #: It has left its group; its process may still take a moment to end.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker behaves."""

    bootstrap: str
    group: str
    topic: str
    assignor: str
    name: str
    #: Whether it joins as a static member, under its name, so that the coordinator waits for it.
    is_static: bool
    session_s: float
    heartbeat_s: float
    #: How long a step of work takes, and so how long it takes to end work, by partition.
    steps_s: tuple[float, ...]
    #: How long it takes to restore one partition's state; 0 if work needs none.
    restore_s: float = 0.0
    #: Whether it restores state beforehand, while another worker works on the partition.
    is_warm: bool = False

    def to_text(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """From a command line."""
        values = json.loads(text)
        return cls(**values | {"steps_s": tuple(values["steps_s"])})


class WorkEventKind(StrEnum):
    """What can happen to the work on a partition."""

    BEGINS = "begins"
    #: The worker was asked to let go, and finishes its step.
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """What happened to a worker's work on a partition."""

    kind: WorkEventKind
    partition: int
    #: On the clock that all processes of a machine share.
    at_s: float

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """Read a line; None if it is something else, such as a part of a traceback."""
        try:
            kind, partition, at_s = text.split()
            return cls(WorkEventKind(kind), int(partition), float(at_s))
        except ValueError:
            return None


def send(kind: WorkEventKind, partition: int) -> None:
    """Tell the demo what happens now."""
    print(kind, partition, time.monotonic(), flush=True)  # noqa: T201  # the demo reads it


def send_milestone(milestone: Milestone) -> None:
    """Tell the demo how far this worker is."""
    print(milestone, flush=True)  # noqa: T201  # likewise
