"""An event loop that turns when it is told to, and answers that need its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from coterie_server.turns import Unfinished

__all__ = ["PerTurn", "SlowLoop", "finished"]


class PerTurn:
    """Counts something, all of it and the most of it in one turn of the running event loop."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0
        self._before = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.most, self._before = max(self.most, self.count - self._before), self.count
        self._loop.call_soon(self._turn)


class SlowLoop:
    """Keeps what is to be called soon."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_soon(self, action: Callable[[], None], /, **_: bool) -> None:
        """Keep a call for the next turn, whatever is said of those who go."""
        self.waiting.append(action)

    def turn(self) -> None:
        """Make the calls that wait."""
        waiting, self.waiting = self.waiting, []
        for action in waiting:
            action()

    def run(self) -> int:
        """Turn until nothing waits; return how many turns that took."""
        turns = 0
        while self.waiting:
            self.turn()
            turns += 1
        return turns


def finished(answer: Any) -> Any:
    """An answer, after all the turns that it takes."""
    if not isinstance(answer, Unfinished):
        return answer
    making = answer.making
    while True:
        try:
            next(making)
        except StopIteration as made:
            return made.value
