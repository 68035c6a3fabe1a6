"""Answers to many clients leave together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

__all__ = ["Outbox"]


class Sender(Protocol):
    """A connection that has answers to send."""

    def post(self) -> None:
        """Send them."""


@final
class Outbox:
    """The connections with answers that leave together, in the loop's next turn.

    An answer that leaves alone wakes its client, which handles it and sleeps again before the next
    one comes.  Waking someone up takes several times as long as sending.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: list[Sender] = []

    def add(self, sender: Sender) -> None:
        """Have a connection send what it has."""
        self._waiting.append(sender)
        if len(self._waiting) == 1:
            self._call_soon(self._post)

    def _post(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.post()
