"""Files and parts of files as pieces of work: cut where lines end, and put together by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final, TypeVar

__all__ = ["first_line_end", "grouped", "line_start"]

T = TypeVar("T")

#: How much is read at a time to find a line feed.
_BLOCK_BYTES: Final = 65_536


def line_start(file: BinaryIO, position: int) -> int:
    """The beginning of the line that contains a position."""
    end = position
    while end > 0:
        begin = max(end - _BLOCK_BYTES, 0)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def first_line_end(file: BinaryIO, position: int) -> int | None:
    """The end of the first line that ends after a position; None if none does."""
    file.seek(position)
    while block := file.read(_BLOCK_BYTES):
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(block)
    return None


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
