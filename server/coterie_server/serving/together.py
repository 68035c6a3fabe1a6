"""Requests that come in one turn of the event loop, to be taken at once in its next.

What comes of them is told at once as well, but a bug in telling of one costs none of the others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Together", "for_each"]

#: As many are taken at once at most: the first is not answered before the last one was taken.
_AT_MOST: Final = 64

Q = TypeVar("Q")
T = TypeVar("T")


@final
class Together(Generic[Q]):
    """Collects requests until they are taken, in their order."""

    __slots__ = ("_take", "waiting")

    def __init__(self, take: Callable[[list[Q]], None]) -> None:
        self._take = take
        self.waiting: list[Q] = []

    def add(self, request: Q) -> None:
        """Have a request taken in the next turn, with others that come in this one."""
        waiting = self.waiting
        waiting.append(request)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self.take)
        elif len(waiting) >= _AT_MOST:
            self.take()

    def take(self) -> None:
        """Have them taken now, so that something else may follow."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            self._take(waiting)

    def forget(self) -> None:
        """Have none of them taken."""
        self.waiting = []


def for_each(things: Iterable[T], do: Callable[[T], None]) -> None:
    """Do something with each, in order, and raise what was raised only after the last one."""
    rest = iter(things)
    try:
        for thing in rest:
            do(thing)
    finally:
        if others := tuple(rest):
            for_each(others, do)
