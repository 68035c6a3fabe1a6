"""What is done about work that raises, and about work that stalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from coterie_client import checks

__all__ = ["OnStall", "Policy", "Release", "Restart", "Stop"]


@dataclass(frozen=True, slots=True)
class _Pause:
    """Pauses in seconds that double with each failure; a run that outlasts `limit` starts over."""

    first: float = 1.0
    limit: float = 60.0

    def __post_init__(self) -> None:
        for name in ("first", "limit"):
            checks.seconds(f"{type(self).__name__}.{name}", getattr(self, name))
        if self.first > self.limit:
            name = f"{type(self).__name__}.first"
            checks.must_be(name, f"at most limit, which is {self.limit:g} s", self.first)


@dataclass(frozen=True, slots=True)
class Restart(_Pause):
    """Start the work anew on the same partition, after a pause."""


@dataclass(frozen=True, slots=True)
class Release(_Pause):
    """Give the partition up, so that the group gives it to another member.

    The pause is kept if it comes back, as it must where there is no other member.
    """


@dataclass(frozen=True, slots=True)
class Stop:
    """End the work on all partitions, leave the group, and have `run` raise the error."""


Policy: TypeAlias = Restart | Release | Stop

#: What is done about stalled work: tell, or tell and do what a policy of that name does.
OnStall: TypeAlias = Literal["report", "restart", "release"]
