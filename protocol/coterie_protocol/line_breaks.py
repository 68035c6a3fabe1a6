"""Finds where lines begin and end in files that are too long to be read for it."""

from __future__ import annotations

from typing import BinaryIO, Final

__all__ = ["first_line_end", "line_start"]

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
