"""Work that would keep others waiting: done in pieces, with a turn of the event loop for each.

There may be a hundred thousand groups, and as many topics, members or offsets.  A request about all
of them takes as long as thousands of others, and meanwhile no heartbeat would be answered.  So what
is made of many things is made by a generator, which yields when it has made a piece.

- A core settles in its step what the answer says, which is quick, and has a generator put it into
  words.  `begin` makes the first piece, and with most answers that is all.
- Of a longer one there is an `Unfinished`, which goes the way of other answers.  At its end, the
  exchange has `Turns` finish it, and encodes it likewise.
- Requests that change many groups can't be finished later.  They are divided (`fan_out`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, TypeVar, final

__all__ = ["AT_ONCE", "Making", "OneByOne", "Piece", "Turns", "Unfinished", "begin", "each"]

T = TypeVar("T")
R = TypeVar("R")

#: How many things make a piece; it takes about half a millisecond.
AT_ONCE: Final = 500

#: Yields after each piece, and returns what was made.
Making = Generator[None, None, T]


@final
class Piece:
    """Counts what is made, to tell when a piece is whole."""

    __slots__ = ("_made", "_size")

    def __init__(self, size: int = AT_ONCE) -> None:
        self._size = size
        self._made = 0

    def is_whole(self, made: int = 1) -> bool:
        """Count so many more; if that makes a piece whole, say so and begin the next one."""
        self._made += made
        if self._made < self._size:
            return False
        self._made = 0
        return True


def each(things: Iterable[T], make: Callable[[T], R], piece: Piece) -> Making[tuple[R, ...]]:
    """What is made of each thing."""
    made = []
    for thing in things:
        made.append(make(thing))
        if piece.is_whole():
            yield
    return tuple(made)


@final
class Unfinished:
    """An answer of which only the first piece is made.

    What it will say is settled, so it may be finished whatever happens meanwhile.
    """

    __slots__ = ("making",)

    def __init__(self, making: Making[Any]) -> None:
        self.making = making


def begin(making: Making[T]) -> T | Unfinished:
    """Make the first piece; return the whole if there is no more to it."""
    try:
        next(making)
    except StopIteration as made:
        whole: T = made.value
        return whole
    return Unfinished(making)


@final
class Turns:
    """Does what takes long a piece at a time, and in each turn of the event loop one piece.

    One thing is finished before the next is begun, so that many at once neither slow each turn
    down nor all lie about half done.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[tuple[Iterator[object], Callable[[], bool]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, work: Iterator[object], is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Do some work, from the next turn on, for as long as it is wanted; it may not raise."""
        if not self._waiting:
            self._call_soon(self._turn)
        self._waiting.append((work, is_wanted))

    def _turn(self) -> None:
        work, is_wanted = self._waiting[0]
        is_over = True
        try:
            is_over = not is_wanted() or next(work, self) is self
        finally:
            if is_over:
                self._waiting.popleft()
            if self._waiting:
                self._call_soon(self._turn)


@final
class OneByOne:
    """Calls actions soon: in each turn of the event loop one, however many wait.

    What an action itself wants to be called soon goes before all others, so that what it has begun
    is finished first.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = self._is_calling = False

    def call_soon(self, action: Callable[[], None]) -> None:
        """Have an action called."""
        if self._is_calling:
            self._waiting.appendleft(action)
        else:
            self._waiting.append(action)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled, self._is_calling = False, True
        try:
            self._waiting.popleft()()
        finally:
            self._is_calling = False
            self._schedule()
