"""Where a member stands: its identity, its phase, and what it owns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from coterie_assignors.base import NO_GENERATION
from coterie_client.wire.addresses import TopicPartition

__all__ = ["CONVERSING", "NO_MEMBER_ID", "Identity", "Phase", "Standing"]

NO_MEMBER_ID: Final = ""


class Phase(Enum):
    """What a member is about."""

    #: In no generation, and not asking for one yet.
    OUT = auto()
    #: Letting go of what it may not keep while it joins.
    PREPARING = auto()
    #: Asking to take part in the next generation, or about to.
    JOINING = auto()
    #: Leading, and looking at the topics before it decides.
    LEADING = auto()
    #: Handing in the assignment, or asking for it.
    SYNCING = auto()
    #: Knowing its assignment, but not yet whether the coordinator still counts on it.
    PROVING = auto()
    #: At work.
    STABLE = auto()
    #: Saying goodbye.
    LEAVING = auto()
    OVER = auto()


#: The phases in which an answer on its way tells more than an error from beside it: the coordinator
#: may be a generation ahead of what we know.
CONVERSING: Final = frozenset({Phase.JOINING, Phase.LEADING, Phase.SYNCING})


@dataclass(frozen=True, slots=True)
class Identity:
    """What the coordinator knows a member by."""

    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION

    @property
    def is_in_generation(self) -> bool:
        """Whether the member takes part in one."""
        return self.generation != NO_GENERATION


@dataclass(slots=True)
class Standing:
    """The state that the parts of a membership share."""

    identity: Identity = field(default_factory=Identity)
    phase: Phase = Phase.OUT
    #: The topics that the member wants.
    wanted: frozenset[str] = frozenset()
    #: Whether commits are numbered: the coordinator has issued a fencing token, so it is Coterie's,
    #: and knows what the numbers are.
    numbers_commits: bool = False
    #: What is owned, with its fencing token; what is being let go of still is.
    owned: dict[TopicPartition, int] = field(default_factory=dict)
    #: What is being let go of: its work has not ended yet.
    finishing: set[TopicPartition] = field(default_factory=set)
    #: What is being let go of: its work has ended, its last commits are on their way.
    draining: set[TopicPartition] = field(default_factory=set)
    #: What was given up, until somebody else was asked to take it.
    refused: set[TopicPartition] = field(default_factory=set)
    #: Why to join again, if so.
    rejoin: str | None = None
    is_leader: bool = False
    is_closing: bool = False

    @property
    def releasing(self) -> set[TopicPartition]:
        """What is being let go of."""
        return self.finishing | self.draining

    def want_rejoin(self, reason: str) -> None:
        """Remember to join again; the first reason stays, as it is the one that started it."""
        if self.rejoin is None and not self.is_closing:
            self.rejoin = reason

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Own these no longer."""
        for partition in partitions:
            self.owned.pop(partition, None)
            self.finishing.discard(partition)
            self.draining.discard(partition)
