"""How soon work that failed may start again."""

from __future__ import annotations

from collections.abc import Callable

from coterie_client.wire import RetryOptions
from coterie_client.work.policies import Policy, Restart, Stop

__all__ = ["Pace"]


class Pace:
    """The pauses of one partition's work; it outlives the ownership of the partition."""

    def __init__(self, policy: Policy, random: Callable[[], float]) -> None:
        # Stalled work may be restarted although work that raises ends everything.
        pauses = Restart() if isinstance(policy, Stop) else policy
        self._options = RetryOptions(round(pauses.first * 1000), round(pauses.limit * 1000))
        self._long_s = pauses.limit
        self._random = random
        self._failures = 0
        self._resume_at_s = 0.0

    def failed(self, began_s: float, now_s: float) -> float:
        """Note a failure; answer how long to pause."""
        if now_s - began_s >= self._long_s:
            self._failures = 0
        self._failures += 1
        pause_s = self._options.delay_ms(self._failures, self._random()) / 1000
        self._resume_at_s = now_s + pause_s
        return pause_s

    def wait_s(self, now_s: float) -> float:
        """How long work still has to wait."""
        return max(0.0, self._resume_at_s - now_s)
