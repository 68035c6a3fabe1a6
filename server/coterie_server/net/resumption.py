"""Requests that had to wait for something: handled in the turns of their connection, in its order.

Thousands may have waited for the same thing.  If all were handled where that comes, no heartbeat
would be answered for seconds; so they have no more of a turn of the event loop than others have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, final

from coterie_server.net.exchange import Exchange
from coterie_server.net.slices import Slice

__all__ = ["Resumption"]


class _Path(Protocol):
    """What it needs to know of the connection."""

    #: How many answers are being made in turns.
    in_turns: int
    exchanges: deque[Exchange]

    @property
    def gone(self) -> bool:
        """Whether no client waits any more."""


@final
class Resumption:
    """The requests of one connection that are to be gone on with."""

    __slots__ = ("_actions",)

    def __init__(self) -> None:
        #: A request of which parts have waited has several.
        self._actions: dict[Exchange, list[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._actions)

    def add(self, exchange: Exchange, action: Callable[[], None]) -> None:
        """Have done what goes on with a request."""
        self._actions.setdefault(exchange, []).append(action)

    def is_ready(self, path: _Path) -> bool:
        """Whether one can be gone on with."""
        return bool(self._actions) and (
            not path.in_turns or any(exchange.takes_turns for exchange in self._actions)
        )

    def clear(self) -> None:
        """Go on with nothing."""
        self._actions.clear()

    def go_on(self, path: _Path, time: Slice) -> None:
        """Go on with requests until the time is over, but with one at least if any can be.

        Like those that come, they wait while a long answer is made for their client, except for
        the request that this answer is for.
        """
        for exchange in [each for each in path.exchanges if each in self._actions]:
            if path.gone or time.is_over:
                break
            if path.in_turns and not exchange.takes_turns:
                continue
            time.is_used = True
            for action in self._actions.pop(exchange):
                action()
