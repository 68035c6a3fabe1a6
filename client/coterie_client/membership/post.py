"""What goes out: requests under their tickets, and everything else that is to be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from coterie_client.membership.actions import Action, Report, Send
from coterie_client.membership.events import Event
from coterie_client.wire.addresses import Anybody, Lane, NodeAddress

__all__ = ["Handler", "Post"]

#: Takes a request's answer, or why there is none, and the time.
Handler: TypeAlias = Callable[[Any, int], None]


class Post:
    """Collects actions, and knows who waits for which answer."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._handlers: dict[int, Handler] = {}
        self._tickets = 0

    def send(
        self,
        message: object,
        to: NodeAddress | Anybody,
        lane: Lane,
        timeout_ms: int,
        handler: Handler,
    ) -> int:
        """Have a request sent; the handler gets its answer or a `Failure`."""
        self._tickets += 1
        self._handlers[self._tickets] = handler
        self.do(Send(self._tickets, message, to, lane, timeout_ms))
        return self._tickets

    def drop(self, ticket: int | None) -> None:
        """Nobody waits for this answer any more."""
        if ticket is not None:
            self._handlers.pop(ticket, None)

    def close(self) -> None:
        """Nobody waits for any answer any more."""
        self._handlers.clear()

    def deliver(self, ticket: int, answer: object, now_ms: int) -> None:
        """Hand an answer to who waits for it; what nobody waits for is dropped."""
        handler = self._handlers.pop(ticket, None)
        if handler is not None:
            handler(answer, now_ms)

    def do(self, action: Action) -> None:
        """Have something done."""
        self._actions.append(action)

    def report(self, event: Event) -> None:
        """Tell what happened."""
        self.do(Report(event))

    def take(self) -> list[Action]:
        """What is to be done, in its order."""
        actions, self._actions = self._actions, []
        return actions
