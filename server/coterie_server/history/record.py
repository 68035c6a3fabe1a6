"""What is kept of one rebalance."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

__all__ = [
    "DETAIL_CHARACTERS",
    "LATE_MAX",
    "NAMES_MAX",
    "NAME_CHARACTERS",
    "Beginning",
    "CountedNames",
    "HistoryLimit",
    "LateMember",
    "RebalanceOutcome",
    "RebalanceRecord",
    "in_seconds",
    "remembered",
    "seconds",
]

#: How many members a record names in each of its lists; it counts all of them.
NAMES_MAX: Final = 10
#: How many late members it keeps.
LATE_MAX: Final = 5
#: How much is kept of each name: of one that a client makes up, Kafka takes 32 kilobytes.
NAME_CHARACTERS: Final = 500
#: A detail can name every member of a group.
DETAIL_CHARACTERS: Final = 500


class RebalanceOutcome(StrEnum):
    """How a rebalance ended, if it has."""

    RUNNING = "running"
    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    """Another rebalance began before the leader's assignment was in place."""
    EMPTIED = "emptied"
    """The last member left the group."""
    INTERRUPTED = "interrupted"
    """The node went down before it journalled an end, or the journal lacks the lines of the end."""


class HistoryLimit(StrEnum):
    """Why no earlier rebalances of a group are known."""

    COMPLETE = "complete"
    """There were none."""
    KEPT = "kept"
    """Only the last ones are kept."""
    JOURNAL = "journal"
    """The journal goes back no further."""
    READ_BACK = "read_back"
    """The journal goes back further than it is read."""
    UNREADABLE = "unreadable"
    """The journal can't be read."""
    READING = "reading"
    """The journal is still being read."""
    NO_JOURNAL = "no_journal"
    """The node keeps no journal."""
    TAKEN_OVER = "taken_over"
    """Another node coordinated the group before."""
    MISSING = "missing"
    """The journal lacks what was right before: another node has it, or it was never written."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """From when on all rebalances of a group are known."""

    #: None if all there ever were are known.
    since_ms: int | None
    limit: HistoryLimit


@dataclass(frozen=True, slots=True)
class CountedNames:
    """The number of some members, and the names of the first `NAMES_MAX` of them."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: tuple[str, ...]) -> CountedNames:
        """Count all names and keep the first ones."""
        return cls(len(names), tuple(name[:NAME_CHARACTERS] for name in names[:NAMES_MAX]))

    def __add__(self, name: str) -> CountedNames:
        is_kept = self.count < NAMES_MAX
        names = (*self.names, name[:NAME_CHARACTERS]) if is_kept else self.names
        return CountedNames(self.count + 1, names)

    def __str__(self) -> str:
        left = self.count - len(self.names)
        return ", ".join(self.names) + (f" and {left} more" if left else "")

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class LateMember:
    """A member that the others waited for."""

    member: str
    instance: str | None
    host: str
    #: How long they waited, from the start of the rebalance.
    after_ms: int
    #: How the wait ended: `joined`; `away` for a static member that keeps its place without having
    #: come; `unclaimed` for a member id that no client came back with; or the way the member left
    #: the group, as in the journal's `member_gone`.
    how: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "member", self.member[:NAME_CHARACTERS])
        if self.instance is not None:
            object.__setattr__(self, "instance", self.instance[:NAME_CHARACTERS])

    def __str__(self) -> str:
        named = f"{self.member} ({self.instance})" if self.instance else self.member
        at = f" at {self.host}" if self.host else ""
        end = "" if self.how == "joined" else f", which did not come ({self.how})"
        return f"{named}{at}, {seconds(self.after_ms)}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """One rebalance, as far as it has come."""

    group: str
    outcome: RebalanceOutcome
    cause: str
    detail: str
    from_state: str
    #: The generation that the rebalance led to; during the first phase, the one before it.
    generation: int
    #: The generation that called for this rebalance, if one did.
    follows: int | None
    started_ms: int
    #: When the first phase ended, and when the rebalance did.
    joined_ms: int | None = None
    ended_ms: int | None = None
    #: How long the first phase took, until the members had joined, and the whole rebalance, also if
    #: the clock was set meanwhile.
    prepare_ms: int | None = None
    total_ms: int | None = None
    protocol: str = ""
    leader: str = ""
    members: int = 0
    #: Members that came and went since the generation before, and those dropped for not joining.
    came: CountedNames = field(default_factory=CountedNames)
    went: CountedNames = field(default_factory=CountedNames)
    dropped: CountedNames = field(default_factory=CountedNames)
    #: Members of the group that had not joined when the rebalance started.
    awaited: CountedNames = field(default_factory=CountedNames)
    #: The few that took longest, longest first.
    late: tuple[LateMember, ...] = ()
    moved: int = 0
    revoked: int = 0
    needs_rejoin: bool = False
    #: Moves that wait until a copy of the state has caught up, in words.
    waiting_moves: CountedNames = field(default_factory=CountedNames)
    #: For how many milliseconds partitions were without an owner at work, added up over the
    #: partitions; None if that is unknown.
    stopped_partition_ms: int | None = None
    #: For how many milliseconds before that their owners had been silent when they were given up,
    #: added up likewise; None if that is unknown.
    silent_partition_ms: int | None = None

    @property
    def complete_ms(self) -> int | None:
        """How long the second phase took: until the assignment was in place."""
        if self.prepare_ms is None or self.total_ms is None:
            return None
        return self.total_ms - self.prepare_ms


def in_seconds(milliseconds: int | None) -> float | None:
    """A duration that may be unknown."""
    return None if milliseconds is None else milliseconds / 1000


def seconds(milliseconds: int) -> str:
    """A duration for people to read: `0.025 s`, `3.1 s`, `180 s`."""
    value = milliseconds / 1000
    if value < 1:
        return f"{value:.3f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def remembered(group: str) -> str:
    """What stands for the name of a deleted group, of which many are remembered."""
    return (
        group
        if len(group) <= NAME_CHARACTERS
        else sha256(group.encode(errors="surrogatepass")).hexdigest()
    )
