"""Until when a node may act on its leases without asking the store."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from coterie_server.serving.waiters import Waiters

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LeaseTrust"]

#: This part of a lease is left unused: clocks of two machines don't run at quite the same speed.
_MARGIN: Final = 10


class LeaseTrust:
    """Until when the node may act as the owner of its shards."""

    __slots__ = ("_asked", "_elapsed_s", "doubt", "until_s")

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        #: Who waits to know whether the leases hold.
        self._asked = Waiters()
        #: Has the leases confirmed, or says at once that they can't be.
        self.doubt: Callable[[], None] = self.decide
        self.until_s = math.inf

    @property
    def holds(self) -> bool:
        """Whether no other node can have the shards yet."""
        return self._elapsed_s() < self.until_s

    @property
    def left_s(self) -> float | None:
        """How long the leases hold yet; None if nothing limits that."""
        return None if self.until_s == math.inf else max(self.until_s - self._elapsed_s(), 0.0)

    async def until_known(self) -> bool:
        """Have the leases confirmed if need be; whether they hold."""
        if not self.holds:
            asked = self._asked.add()
            self.doubt()
            await asked
        return self.holds

    def decide(self) -> None:
        """Tell those who wait how it stands: the leases are confirmed, or can't be."""
        self._asked.let_all_go()

    def extend(self, asked_s: float, ttl_ms: int) -> None:
        """All leases were asked for at a moment, or later, and last for so long."""
        self.until_s = self.end_of(asked_s, ttl_ms)

    def include(self, asked_s: float, ttl_ms: int) -> None:
        """One more lease was asked for at a moment: trust ends with the first of them."""
        self.until_s = min(self.until_s, self.end_of(asked_s, ttl_ms))

    def end_of(self, asked_s: float, ttl_ms: int) -> float:
        """Until when a lease that was asked for at a moment can be trusted."""
        return asked_s + (ttl_ms - ttl_ms / _MARGIN) / 1000

    def now_s(self) -> float:
        """The moment, for `extend`."""
        return self._elapsed_s()
