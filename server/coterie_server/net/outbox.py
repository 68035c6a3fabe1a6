"""Answers to many clients leave together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, final

__all__ = ["Outbox"]

#: So many clients do not wait for others any more: more would hardly be cheaper, and in one turn of
#: the loop there may be a thousand.
_CLIENTS_TOGETHER_MAX: Final = 64


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
        self._is_due = False  # The loop posts in its next turn what has not left before.

    def add(self, sender: Sender) -> None:
        """Have a connection send what it has."""
        waiting = self._waiting
        waiting.append(sender)
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._post_due)
        elif len(waiting) >= _CLIENTS_TOGETHER_MAX:
            self.post()

    def _post_due(self) -> None:
        self._is_due = False
        self.post()

    def post(self) -> None:
        """Have all send what they have."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.post()
