"""Errors that keep nothing but what they say.

An error holds the frames in which it was raised, and those hold what they worked on, up to whole
requests; often also the error, and then only the garbage collector would free any of it, which the
daemon lets look seldom.  What keeps an error, or hands it to someone who waits, has it forget them.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["without_frames"]

E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """The same error, which has forgotten its frames, as have all errors that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [each.__cause__, each.__context__]
    return error
