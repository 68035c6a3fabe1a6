"""Files and parts of files as pieces of work, put together by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["grouped"]

T = TypeVar("T")


def grouped(items: Iterable[T], weigh: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Put items together, in their order, as long as they weigh no more than that."""
    group: list[T] = []
    room = most
    for item in items:
        weight = weigh(item)
        if group and weight > room:
            yield group
            group, room = [], most
        group.append(item)
        room -= weight
    if group:
        yield group
