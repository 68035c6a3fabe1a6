"""Lists that are longer than memory: kept in a temporary file from some size on, and sorted there.

Items are what JSON has, and tuples of that.
"""

from __future__ import annotations

import heapq
import marshal
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

__all__ = ["SortedSpool", "Spool"]

#: A frame is what is written and read at once.
_FRAME_ITEMS: Final = 1_000
_FRAME_BYTES: Final = 1_048_576

#: How much text is held in memory as objects, which take several times as much.
_HELD_BYTES: Final = 8 * 1_048_576

#: How many rows are sorted in memory.
_HELD_ROWS: Final = 20_000

#: How many rows of each sorted run are in memory while runs are merged.
_MERGED_ROWS: Final = 200


class _File:
    """Frames in a temporary file, which begins with the first one."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0

    def write(self, items: list[Any]) -> tuple[int, int]:
        """Add a frame, and return its place."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object
            weakref.finalize(self, self._file.close)
        data = marshal.dumps(items)
        place = self._end, len(data)
        self._file.seek(self._end)
        self._file.write(data)
        self._end += len(data)
        return place

    def read(self, place: tuple[int, int]) -> list[Any]:
        """The frame at a place."""
        assert self._file is not None
        self._file.seek(place[0])
        items: list[Any] = marshal.loads(self._file.read(place[1]))  # noqa: S302  # written here
        return items


class Spool:
    """A list to append to and to read from; only a part of it is in memory."""

    def __init__(self) -> None:
        self._left_bytes = _HELD_BYTES
        self._file = _File()
        #: Each frame, or its place in the file.
        self._frames: list[list[Any] | tuple[int, int]] = []
        #: The number of the first item of each frame.
        self._begins: list[int] = []
        self._items: list[Any] = []
        self._items_bytes = 0
        self._length = 0
        #: The frame that was read from the file last.
        self._read_index: int | None = None
        self._read: list[Any] = []

    def __len__(self) -> int:
        return self._length

    def append(self, item: Any, size: int) -> None:  # anything that marshal writes
        """Add an item, which is about as large as a text of this size."""
        self._items.append(item)
        self._items_bytes += size
        self._length += 1
        if len(self._items) >= _FRAME_ITEMS or self._items_bytes >= _FRAME_BYTES:
            self._end_frame()

    def slice(self, begin: int, end: int) -> Iterator[Any]:
        """The items from one number up to another one."""
        index = max(bisect_right(self._begins, begin) - 1, 0)
        while begin < end:
            items = self._frame(index)
            first = self._begins[index] if index < len(self._begins) else self._rest
            yield from items[begin - first : end - first]
            begin = first + len(items)
            index += 1

    @property
    def _rest(self) -> int:
        """The number of the first item of the frame that is not full."""
        return self._length - len(self._items)

    def _frame(self, index: int) -> list[Any]:
        if index >= len(self._frames):
            return self._items
        frame = self._frames[index]
        if isinstance(frame, list):
            return frame
        if self._read_index != index:
            self._read_index, self._read = index, self._file.read(frame)
        return self._read

    def _end_frame(self) -> None:
        self._begins.append(self._rest)
        self._left_bytes -= self._items_bytes
        fits = self._left_bytes >= 0
        self._frames.append(self._items if fits else self._file.write(self._items))
        self._items, self._items_bytes = [], 0


class SortedSpool:
    """Rows that are added in any order, and read in the order of a key."""

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._file = _File()
        self._runs: list[list[tuple[int, int]]] = []
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:  # anything that marshal writes
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _HELD_ROWS:
            self._rows.sort(key=self._key)
            frames = range(0, len(self._rows), _MERGED_ROWS)
            self._runs.append(
                [self._file.write(self._rows[begin : begin + _MERGED_ROWS]) for begin in frames]
            )
            self._rows = []

    def __iter__(self) -> Iterator[Any]:
        self._rows.sort(key=self._key)
        runs = [self._read(run) for run in self._runs]
        return heapq.merge(*runs, iter(self._rows), key=self._key)

    def _read(self, run: list[tuple[int, int]]) -> Iterator[Any]:
        for place in run:
            yield from self._file.read(place)
