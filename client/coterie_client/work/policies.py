"""What is done about work that raises, and about work that stalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from coterie_client.errors import ConfigurationError

__all__ = ["OnStall", "Policy", "Release", "Restart", "Stop"]


@dataclass(frozen=True, slots=True)
class _Pause:
    """Pauses in seconds that double with each failure; a run that outlasts `limit` starts over."""

    first: float = 1.0
    limit: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.limit < float("inf"):
            name = type(self).__name__
            raise ConfigurationError(
                f"{name}(first={self.first}, limit={self.limit}) makes no pauses: the first must"
                " be longer than nothing and not longer than the limit."
            )


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
