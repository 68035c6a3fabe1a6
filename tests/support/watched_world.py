"""A coordinator in virtual time with somebody who watches its events, as a node's observers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie_protocol.journal import Event
from tests.support.group_harness import Client, World

__all__ = ["Observe", "WatchedWorld"]

Observe = Callable[[int, Event], None]


class WatchedWorld(World):
    """Hands every event to observers, in the order in which they are given."""

    def __init__(self, *observers: Observe, **settings: Any) -> None:
        self._observers = observers
        super().__init__(**settings)

    def pair(self, **attributes: Any) -> tuple[Client, Client]:
        """Form a group of two; the first leads and has 0 and 2, the second has 1 and 3."""
        first, second = self.member("a", **attributes), self.member("b", **attributes)
        self.form(first)
        second.join()
        first.join()
        self.share(first, second)
        return first, second

    def _note(self, event: Event) -> None:
        super()._note(event)
        for observe in self._observers:
            observe(self.now_ms, event)
