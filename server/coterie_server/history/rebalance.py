"""What is kept of one rebalance."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = ["NAMES_MAX", "Late", "Outcome", "Rebalance", "Some", "seconds"]

#: How many members a rebalance names in each of its lists; it counts all of them.
NAMES_MAX: Final = 10


class Outcome(StrEnum):
    """How a rebalance ended."""

    RUNNING = "running"
    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    """Another one began before the leader's assignment was in place."""
    EMPTIED = "emptied"
    """The last member went."""
    INTERRUPTED = "interrupted"
    """The node went down before it wrote down how it ended."""


@dataclass(frozen=True, slots=True)
class Some:
    """How many there are, and the names of the first of them."""

    count: int = 0
    names: tuple[str, ...] = ()

    def __add__(self, name: str) -> Some:
        names = (*self.names, name) if self.count < NAMES_MAX else self.names
        return Some(self.count + 1, names)

    def __str__(self) -> str:
        left = self.count - len(self.names)
        return ", ".join(self.names) + (f" and {left} more" if left else "")

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class Late:
    """A member that the others waited for."""

    member: str
    instance: str | None
    host: str
    #: How long, from the start of the rebalance.
    after_ms: int
    #: How that ended: `joined`; `away` for a static one that keeps its place without having come;
    #: or how it left the group, as in the journal's `member_gone`.
    how: str

    def __str__(self) -> str:
        named = f"{self.member} ({self.instance})" if self.instance else self.member
        at = f" at {self.host}" if self.host else ""
        end = "" if self.how == "joined" else f", which did not come ({self.how})"
        return f"{named}{at}, {seconds(self.after_ms)}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance, as far as it has come."""

    group: str
    outcome: Outcome
    cause: str
    detail: str
    from_state: str
    #: The generation that it led to, or leads away from as long as it is in its first phase.
    generation: int
    #: The generation that called for it, if one did.
    follows: int | None
    started_ms: int
    #: When the first phase was over, and when all was.
    joined_ms: int | None = None
    ended_ms: int | None = None
    protocol: str = ""
    leader: str = ""
    members: int = 0
    #: Who came and who went since the generation before, and who was dropped for not joining.
    came: Some = field(default_factory=Some)
    went: Some = field(default_factory=Some)
    dropped: Some = field(default_factory=Some)
    #: Who was in the group and had not joined when it started.
    awaited: Some = field(default_factory=Some)
    #: The few of them who took longest, longest first.
    late: tuple[Late, ...] = ()
    moved: int = 0
    revoked: int = 0
    needs_rejoin: bool = False
    #: For how many milliseconds partitions were without anybody who works on them, added up over
    #: the partitions; None if that can't be told.
    stopped_partition_ms: int | None = None

    @property
    def total_ms(self) -> int | None:
        """How long all of it took."""
        return None if self.ended_ms is None else self.ended_ms - self.started_ms

    @property
    def prepare_ms(self) -> int | None:
        """How long the first phase took: until the members had joined."""
        return None if self.joined_ms is None else self.joined_ms - self.started_ms

    @property
    def complete_ms(self) -> int | None:
        """How long the second phase took: until the assignment was in place."""
        if self.joined_ms is None or self.ended_ms is None:
            return None
        return self.ended_ms - self.joined_ms


def seconds(milliseconds: int) -> str:
    """A time as people read it: `0.025 s`, `3.1 s`, `180 s`."""
    value = milliseconds / 1000
    if value < 1:
        return f"{value:.3f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
