"""What a keeper of leases can't do at times: the log says so once, and when it is over."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, TypeVar, final

from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["LeaseTroubles", "Trouble"]

T = TypeVar("T")

_log = get_logger(__name__)

#: What may be another each time the same reason is given: how long something is valid, an address
#: that is tried, the place in the database's log.
_NUMBER: Final = re.compile(r"\d+")


@final
class Trouble:
    """One thing that is asked of the store again and again.

    The log is told how its trouble `begins`, once for each reason, and how it `ends`.  It has
    begun, too, if an answer takes longer than `patience_s`; whenever it begins, `doubt` is called.
    """

    __slots__ = ("_begins", "_doubt", "_ends", "_patience_s", "_told", "why")

    def __init__(
        self, begins: str, ends: str, patience_s: float, doubt: Callable[[], None]
    ) -> None:
        self._begins, self._ends = begins, ends
        self._patience_s, self._doubt = patience_s, doubt
        #: The reasons that the log was told since it began, without their numbers.
        self._told: set[str] = set()
        #: Why it can't be done; empty if it can.
        self.why = ""

    def begin(self, why: str) -> None:
        """It can't be done now."""
        reason = _NUMBER.sub("", why)
        if reason not in self._told:
            self._told.add(reason)
            _log.warning(self._begins, error=why)
        self.why = why
        self._doubt()

    def end(self) -> None:
        """It was done."""
        if self.why:
            _log.warning(self._ends)
        self._told.clear()
        self.why = ""

    async def answer_to(self, asking: Coroutine[object, object, T]) -> T:
        """Wait for the store, and say so if that takes too long."""
        asked = asyncio.ensure_future(asking)
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=self._patience_s)
                if not asked.done():
                    self.begin(self.why or "the store does not answer")  # rather what it said last
        except asyncio.CancelledError:
            asked.cancel()
            raise
        return asked.result()


@final
class LeaseTroubles:
    """What is wrong with a node's leases, or with its sight of those of others.

    A node may have the one without the other, and then what goes well must not pass for the end of
    what does not.
    """

    def __init__(self, patience_s: float, doubt: Callable[[], None]) -> None:
        def trouble(begins: str, ends: str) -> Trouble:
            return Trouble(begins, ends, patience_s, doubt)

        self.renewal = trouble("leases can't be renewed", "leases are renewed again")
        self.sight = trouble("other nodes can't be seen", "other nodes are seen again")

    @property
    def sentence(self) -> str:
        """What is wrong, for people; empty if nothing is."""
        if self.renewal.why:
            return f"The node's leases on its shards can't be renewed: {self.renewal.why}."
        if self.sight.why:
            return f"The other nodes, and what they have, can't be seen: {self.sight.why}."
        return ""
