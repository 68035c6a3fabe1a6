"""Leaving shards to the nodes that had them, when the store was away from all nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Patience"]

#: After more of the time between two renewals than this, some may have been missed.
_MISSED_RENEWALS: Final = 1.5


@final
class Patience:
    """Whether a node leaves shards alone whose leases have expired.

    When the store was away from this node for a while, it may have been away from all, and all
    leases have run out.  The first node to come back would take all shards, only to share them out
    again a moment later, and every group would move twice.  So for the time between two renewals,
    it takes none from the others: who is alive has come back by then.
    """

    __slots__ = ("_renew_every_s", "_until_s", "renewed_s")

    def __init__(self, renew_every_s: float) -> None:
        self._renew_every_s = renew_every_s
        self._until_s = -math.inf
        #: When the leases were renewed last, or rather asked for.
        self.renewed_s = -math.inf

    def renewed(self, asked_s: float, now_s: float) -> None:
        """The node's leases were renewed, by a request of that moment."""
        away_s = asked_s - self.renewed_s
        if _MISSED_RENEWALS * self._renew_every_s < away_s < math.inf:
            self._until_s = now_s + self._renew_every_s
        self.renewed_s = asked_s

    def left_alone(
        self, expired: Iterable[int], owners: Mapping[int, str], now_s: float
    ) -> dict[int, str]:
        """Of the shards whose leases have expired, those that are still left to their owners."""
        if now_s >= self._until_s:
            return {}
        return {shard: owners.get(shard, "") for shard in expired}
