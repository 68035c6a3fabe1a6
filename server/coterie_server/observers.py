"""Those who are told what happens in a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coterie_protocol.journal import Event
    from coterie_server.history import History
    from coterie_server.serving.node import Node

__all__ = ["Observer", "Observers", "have_know"]


class Observer(Protocol):
    """Is told of events; it may neither block nor raise."""

    def observe(self, ts_ms: int, event: Event) -> None:
        """Take in an event that is durable by now."""
        ...


class Observers:
    """Tells all observers of each event, but holds events back until `release`.

    Until the store is known to be the right one, its events are not to be journalled: the journal
    would tell of a past that it is about to refuse.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = list(observers)
        self._held: list[tuple[int, Event]] | None = []

    def add(self, observer: Observer) -> None:
        """Tell another observer of all further events."""
        self._observers.append(observer)

    def observe(self, ts_ms: int, event: Event) -> None:
        """Tell all of an event, or hold it back."""
        if self._held is not None:
            self._held.append((ts_ms, event))
            return
        for observer in self._observers:
            observer.observe(ts_ms, event)

    def release(self) -> None:
        """Tell what was held back, and hold back nothing more."""
        held, self._held = self._held, None
        for ts_ms, event in held or ():
            self.observe(ts_ms, event)


def have_know(history: History, node: Node) -> None:
    """Have a history know of its node what no event tells."""
    node.forget = history.forget
    history.topics = node.topics
    node.topics.on_others_change = lambda change: history.observe(node.date_ms(), change)
