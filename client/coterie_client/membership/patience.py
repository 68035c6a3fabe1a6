"""How long a member may take for what the others wait for, and when it has to worry."""

from __future__ import annotations

from typing import Final

from coterie_client.membership.config import MembershipConfig
from coterie_client.membership.heart import Heart

__all__ = ["Patience"]

#: With less left of a rebalance timeout than one part in that many, it is too late to ask again.
_LATE: Final = 20


class Patience:
    """Reckons with a rebalance that began as early as it can have.

    The coordinator waits for us no longer than a rebalance timeout, and it may have begun to wait
    right after it last told us that all was calm.
    """

    def __init__(self, config: MembershipConfig, heart: Heart) -> None:
        self._config = config
        self._heart = heart

    def release_deadline_ms(self, now_ms: int) -> int:
        """When what we let go of has to be gone."""
        return max(self._calm_ms(now_ms) + self._config.release_ms, now_ms + 1)

    def doubtful_ms(self, now_ms: int) -> int:
        """When to ask once more, if there is no answer.

        Half-way to the end of the rebalance, so often there is time for another attempt; after
        that there is no hurry.
        """
        whole_ms = self._config.rebalance_timeout_ms
        left_ms = self._calm_ms(now_ms) + whole_ms - now_ms
        return now_ms + max((left_ms if left_ms >= whole_ms // _LATE else whole_ms) // 2, 1)

    def _calm_ms(self, now_ms: int) -> int:
        """When a rebalance may have begun, at the earliest."""
        return min(self._heart.calm_at_ms, now_ms) or now_ms
