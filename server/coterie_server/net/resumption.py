"""Requests that had to wait for something: handled in the turns of their connection, in its order.

Thousands may have waited for the same thing.  If all were handled where that comes, no heartbeat
would be answered for seconds; so they have no more of a turn of the event loop than others have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from coterie_server.net.exchange import Exchange
from coterie_server.net.outgoing import Outgoing
from coterie_server.net.slices import Slice

__all__ = ["Resumption"]


class _Path(Protocol):
    """What it needs to know of the connection."""

    #: How many answers are being made in turns.
    in_turns: int

    @property
    def gone(self) -> bool:
        """Whether no client waits any more."""


@final
class Resumption:
    """The requests of one connection that are to be gone on with."""

    __slots__ = ("_outgoing", "waiting")

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        #: What is to be done; for a request of which parts have waited, several things.
        self.waiting: dict[Exchange, list[Callable[[], None]]] = {}

    def add(self, exchange: Exchange, action: Callable[[], None]) -> None:
        """Have done what goes on with a request."""
        self.waiting.setdefault(exchange, []).append(action)

    def is_ready(self, path: _Path) -> bool:
        """Whether one can be gone on with."""
        return any(self._may_go_on(exchange, path) for exchange in self.waiting)

    def _may_go_on(self, exchange: Exchange, path: _Path) -> bool:
        """Whether it need not wait for another answer; that never waits for this one in turn."""
        if exchange.takes_turns:
            return True  # the long answer for which the others wait is this one's
        is_first = exchange is self._outgoing.exchanges[0]
        return not path.in_turns and (is_first or not self._outgoing.is_clogged)

    def go_on(self, path: _Path, time: Slice) -> None:
        """Go on with requests until the time is over, but with one at least if any can be.

        Like those that come, they wait while a long answer is made for their client, or too much
        is ready behind one that is awaited.
        """
        for exchange in [each for each in self._outgoing.exchanges if each in self.waiting]:
            if path.gone or time.is_over:
                break
            if self._may_go_on(exchange, path):
                time.is_used = True
                for action in self.waiting.pop(exchange):
                    action()
