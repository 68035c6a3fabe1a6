"""Keeping shards for a while in which groups are about to begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Sparing"]

#: For how long at most. A group that begins waits for further members for
#: `group.initial.rebalance.delay.ms`, which is 3 s by default, and again if some come meanwhile.
_LONGEST_S: Final = 30.0


@final
class Sparing:
    """Which shards a node does not give away yet, though it has too many.

    Members that wait for the first generation of their group are not stored.  If it moves, they
    have to join again, and the group waits for others from the beginning.  Nodes that run inside of
    workers come together with the members of a group, and are given shards a lease later: just as
    the group is about to begin.

    Where groups begin all the time, each shard may have one, so a node that can't get rid of what
    it has too much of spares none after a while.
    """

    __slots__ = ("_has_too_much_since_s", "_is_forming")

    def __init__(self, is_forming: Callable[[int], bool]) -> None:
        self._is_forming = is_forming
        #: None if it has not.
        self._has_too_much_since_s: float | None = None

    def look(self, surplus: int, now_s: float) -> None:
        """Take note of how many shards the node has too much."""
        if surplus <= 0:
            self._has_too_much_since_s = None
        elif self._has_too_much_since_s is None:
            self._has_too_much_since_s = now_s

    def spares(self, shard: int, now_s: float) -> bool:
        """Whether a shard is to stay for now."""
        since_s = self._has_too_much_since_s
        is_patient = since_s is None or now_s - since_s < _LONGEST_S
        return is_patient and self._is_forming(shard)
