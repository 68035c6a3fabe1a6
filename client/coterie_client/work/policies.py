"""What to do about work that raises or stalls, and how soon it may start again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from coterie_client import checks
from coterie_client.backoff import RetryOptions

__all__ = ["OnStall", "Policy", "Release", "Restart", "RestartBackoff", "Stop"]


@dataclass(frozen=True, slots=True)
class _Pause:
    """Pauses in seconds that double with each failure; a run longer than `limit` resets them."""

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
    """Restart the work on the same partition, after a pause."""


@dataclass(frozen=True, slots=True)
class Release(_Pause):
    """Give the partition up, so that the group assigns it to another member.

    If it comes back, as it must where there is no other member, the pause still applies.
    """


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancel the work on all partitions, leave the group, and raise the error from `run`."""


Policy: TypeAlias = Restart | Release | Stop

#: What to do about stalled work: only report it, or also restart or release it.
OnStall: TypeAlias = Literal["report", "restart", "release"]


class RestartBackoff:
    """The pauses of one partition's work; outlives the ownership of the partition."""

    def __init__(self, policy: Policy, random: Callable[[], float]) -> None:
        # Stalled work may be restarted even if work that raises stops everything.
        pauses = Restart() if isinstance(policy, Stop) else policy
        self._options = RetryOptions(round(pauses.first * 1000), round(pauses.limit * 1000))
        self._reset_after_s = pauses.limit
        self._random = random
        self._failures = 0
        self._resume_at_s = 0.0

    def failed(self, began_s: float, now_s: float) -> float:
        """Note a failure; return how long to pause."""
        if now_s - began_s >= self._reset_after_s:
            self._failures = 0
        self._failures += 1
        pause_s = self._options.delay_ms(self._failures, self._random()) / 1000
        self._resume_at_s = now_s + pause_s
        return pause_s

    def wait_s(self, now_s: float) -> float:
        """How long work still has to wait."""
        return max(0.0, self._resume_at_s - now_s)
