"""A coordinator in virtual time with somebody who watches its events, as a node's observers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie_protocol.journal import Event
from tests.support.group_harness import World

__all__ = ["Observe", "WatchedWorld"]

Observe = Callable[[int, Event], None]


class WatchedWorld(World):
    """Hands every event to observers, in the order in which they are given."""

    def __init__(self, *observers: Observe, **settings: Any) -> None:
        self._observers = observers
        super().__init__(**settings)

    def _note(self, event: Event) -> None:
        super()._note(event)
        for observe in self._observers:
            observe(self.now_ms, event)
