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
        #: In order, by whom it is for.
        self._waiting: dict[object, Iterator[object]] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, work: Iterator[object], asker: object = None) -> None:
        """Do some work, from the next turn on; it may not raise.

        What is for an asker, who has one such thing at a time, can be forgotten.
        """
        self._waiting[work if asker is None else asker] = work
        self._schedule()

    def forget(self, asker: object) -> None:
        """Do nothing more for one who has gone; nothing is kept until its turn would come."""
        self._waiting.pop(asker, None)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        asker, work = next(iter(self._waiting.items()))
        is_over = True
        try:
            is_over = next(work, self) is self
        finally:
            if is_over and self._waiting.get(asker) is work:
                del self._waiting[asker]
            self._schedule()


@final
class OneByOne:
    """Calls actions soon: in each turn of the event loop one, however many wait.

    What an action itself wants to be called soon goes before all others, so that what it has begun
    is finished first.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        #: In order.
        self._waiting: dict[Callable[[], None], None] = {}
        #: What actions go on with; the last is next.
        self._begun: list[Callable[[], None]] = []
        self._is_scheduled = self._is_calling = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._begun)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Have an action called, once for however often it is wanted until then."""
        if self._is_calling:
            self._begun.append(action)
        else:
            self._waiting[action] = None
        self._schedule()

    def forget(self, action: Callable[[], None]) -> None:
        """Don't call an action that is of no use any more, and that would do nothing if called."""
        self._waiting.pop(action, None)

    def _schedule(self) -> None:
        if len(self) and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)

    def _next(self) -> Callable[[], None] | None:
        if self._begun:
            return self._begun.pop()
        action = next(iter(self._waiting), None)
        if action is not None:
            del self._waiting[action]
        return action

    def _turn(self) -> None:
        action = self._next()
        self._is_scheduled, self._is_calling = False, True
        try:
            if action is not None:
                action()
        finally:
            self._is_calling = False
            self._schedule()
