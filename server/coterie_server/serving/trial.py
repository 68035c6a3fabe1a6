"""Giving no shards to a node that would soon lose them."""

from __future__ import annotations

import math
from typing import Final, final

__all__ = ["Trial"]

#: How long a trial is at most, unless a lease is longer.
_LONGEST_S: Final = 60.0
#: After so many times its length a trial is forgotten.
_FORGOTTEN_AFTER: Final = 20


@final
class Trial:
    """For how long a node shows that it stays, before others give it what they have.

    It is on trial for the length of a lease when it comes, and when it has let its leases run out.
    If that happens again and again, as to a node that is suspended every few seconds, each trial is
    twice as long as the one before: the groups that such a node is given are away again and again,
    for as long as its leases last.
    """

    __slots__ = ("_came_s", "_lease_s", "_length_s", "_since_s")

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._came_s = self._since_s = -math.inf
        self._length_s = lease_s

    def come(self, now_s: float) -> None:
        """The node has come."""
        self._came_s = self._since_s = now_s

    def has_just_come(self, now_s: float) -> bool:
        """Whether the node came less than a lease ago."""
        return now_s - self._came_s < self._lease_s

    def begin_again(self, now_s: float) -> None:
        """The node has let its leases run out."""
        is_forgotten = now_s - self._since_s > _FORGOTTEN_AFTER * self._length_s
        longer_s = min(2 * self._length_s, max(_LONGEST_S, self._lease_s))
        self._length_s = self._lease_s if is_forgotten else longer_s
        self._since_s = now_s

    def is_over(self, now_s: float) -> bool:
        """Whether the node may be given shards."""
        return now_s - self._since_s >= self._length_s
