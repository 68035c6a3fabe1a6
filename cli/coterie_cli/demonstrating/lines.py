"""What the demo and its workers tell each other: a role on the command line, then lines."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self

__all__ = ["Line", "Mark", "Role", "What", "say", "say_passed"]


class Mark(StrEnum):
    """What a worker passes on its way, each once."""

    #: It has loaded all that it needs.
    READY = "ready"
    #: It has left its group; its process may still take a moment to end.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Role:
    """What a worker is to be."""

    bootstrap: str
    group: str
    topic: str
    assignor: str
    name: str
    #: Whether the coordinator knows it by its name, and so waits for it.
    is_static: bool
    session_s: float
    heartbeat_s: float
    #: How long a step of work takes, and so how long it takes to end work, by partition.
    steps_s: tuple[float, ...]

    def to_text(self) -> str:
        """Write it down for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read it from a command line."""
        values = json.loads(text)
        return cls(**values | {"steps_s": tuple(values["steps_s"])})


class What(StrEnum):
    """What happens to the work on a partition."""

    BEGINS = "begins"
    #: It was asked to end, and finishes its step.
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Line:
    """What a worker tells."""

    what: What
    partition: int
    #: On the clock that all processes of a machine share.
    at_s: float

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """Read a line; None if it is something else, such as a part of a traceback."""
        try:
            what, partition, at_s = text.split()
            return cls(What(what), int(partition), float(at_s))
        except ValueError:
            return None


def say(what: What, partition: int) -> None:
    """Tell the demo, now."""
    print(what, partition, time.monotonic(), flush=True)  # noqa: T201  # a pipe is read


def say_passed(mark: Mark) -> None:
    """Tell the demo how far this worker is."""
    print(mark, flush=True)  # noqa: T201  # a pipe is read
