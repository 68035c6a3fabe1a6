"""What a group remembers of a rebalance while it goes on; none of it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["InitialDelay", "OngoingRebalance"]


@dataclass(slots=True)
class OngoingRebalance:
    """What the journal will want to know of the rebalance that is going on."""

    cause: str
    started_at_ms: int
    #: When the first phase was over.
    joined_at_ms: int = 0
    #: The members that did not join in time.
    dropped: list[str] = field(default_factory=list)


@dataclass(slots=True)
class InitialDelay:
    """How the first rebalance of an empty group gives more members the time to come.

    It waits for a delay, and for another one if a member came meanwhile, up to the first member's
    rebalance timeout.
    """

    step_ms: int
    remaining_ms: int
    has_newcomers: bool = False
