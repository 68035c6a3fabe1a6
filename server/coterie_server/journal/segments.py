"""The files of one node's journal: begun, rotated, deleted when they are old.

Everything here blocks, and raises `OSError` when the disk does; it belongs to the writer's thread.
After an error the same call can be made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coterie_protocol.journal_text import SEGMENT, segment_name
from coterie_server.log.logger import get_logger

__all__ = ["FOR_EVER", "Segments", "find_segments", "last_numbers"]

_log = get_logger(__name__)

#: A retention that deletes nothing.
FOR_EVER: Final = -1

#: What a node may be called: its name is part of the names of files.
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

#: How much of a file's end is read at first to find its last line.
_TAIL_BYTES: Final = 65_536


def find_segments(directory: Path) -> Iterator[tuple[str, int, Path]]:
    """Each file of a journal with its node and first number; in that order."""
    found = []
    for path in directory.iterdir():
        match = SEGMENT.fullmatch(path.name)
        if match is not None:
            found.append((match["node"], int(match["seq"]), path))
    yield from sorted(found)


def last_numbers(path: Path) -> tuple[int, int] | None:
    """The number and the time of a file's last whole line that can be read; None without one."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        size = _TAIL_BYTES
        while True:
            start = max(end - size, 0)
            file.seek(start)
            *lines, _torn = file.read(end - start).split(b"\n")
            # If the first piece is half a line, it can't be read.
            for data in reversed(lines):
                numbers = _numbers(data)
                if numbers is not None:
                    return numbers
            if start == 0:
                return None
            size *= 4


def _numbers(data: bytes) -> tuple[int, int] | None:
    """Only what every version of a line has: a newer Coterie may have written it."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    seq, ts = values.get("seq"), values.get("ts")
    return (seq, ts) if isinstance(seq, int) and isinstance(ts, int) else None


@dataclass(slots=True)
class _Current:
    """The file that is being written; `size` counts only what was written whole."""

    path: Path
    began_ms: int
    size: int = 0
    fd: int = -1


class Segments:
    """The files of one node in a directory."""

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        segment_bytes: int,
        segment_ms: int,
        retention_ms: int,
        clock: Callable[[], int],
    ) -> None:
        if not _NODE.fullmatch(node):
            raise ValueError(f"a journal's files can't be named after a node called {node!r}")
        self._directory = directory
        self._node = node
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._retention_ms = retention_ms
        self._clock = clock
        self._current: _Current | None = None

    def resume(self) -> int:
        """The number for the next line: it follows the last whole one that is found."""
        self._directory.mkdir(parents=True, exist_ok=True)
        next_seq = 1
        for _, _, path in reversed(self._mine()):
            numbers = last_numbers(path)
            if numbers is not None:
                next_seq = numbers[0] + 1
                break
        # A file may have been begun for that very number and have nothing but half a line.
        while (self._directory / segment_name(self._node, next_seq)).exists():
            next_seq += 1
        return next_seq

    def write(self, lines: list[tuple[int, bytes]]) -> None:
        """Write lines with their numbers, each with its line break, and take them off the list.

        What is left on the list after an error was not written: half a line that was is cut off
        before the next one.
        """
        while lines:
            current = self._opened(lines[0][0])
            room = self._segment_bytes - current.size
            count, size = 0, 0
            while count < len(lines) and size < room:
                size += len(lines[count][1])
                count += 1
            self._append(current, b"".join(data for _, data in lines[:count]))
            del lines[:count]

    def end_if_old(self) -> None:
        """End the present file if it is old enough; the next line begins another."""
        current = self._current
        if current is not None and self._clock() - current.began_ms >= self._segment_ms:
            self.end_current()

    def delete_old(self) -> None:
        """Delete files from the oldest on, as long as their last lines are too old."""
        if self._retention_ms == FOR_EVER:
            return
        oldest_ms = self._clock() - self._retention_ms
        for _, _, path in self._mine():
            is_current = self._current is not None and path == self._current.path
            if is_current or _last_ts(path) >= oldest_ms:
                return
            path.unlink(missing_ok=True)
            _log.info("old journal file deleted", path=str(path))

    def end_current(self) -> None:
        """Make sure that the present file is on disk, and close it."""
        current, self._current = self._current, None
        if current is None or current.fd < 0:
            return
        try:
            os.fsync(current.fd)
        except OSError as error:
            # The lines may be there all the same; writing them again would not make it surer.
            _log.error("journal file may be incomplete", path=str(current.path), error=str(error))
        with contextlib.suppress(OSError):
            os.close(current.fd)

    # -- the present file ----------------------------------------------------------------------

    def _opened(self, first_seq: int) -> _Current:
        current = self._current
        if current is not None and current.size >= self._segment_bytes:
            self.end_current()
            current = None
        if current is None or not self._reopen(current):
            current = self._current = self._begin(first_seq)
        return current

    def _reopen(self, current: _Current) -> bool:
        """Open the file again after an error; False if somebody has taken it away."""
        if current.fd >= 0:
            return True
        try:
            fd = os.open(current.path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return False
        try:
            os.ftruncate(fd, current.size)
        except OSError:
            os.close(fd)
            raise
        current.fd = fd
        return True

    def _begin(self, first_seq: int) -> _Current:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / segment_name(self._node, first_seq)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o640)
        _sync_directory(self._directory)
        return _Current(path, self._clock(), fd=fd)

    def _append(self, current: _Current, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(current.fd, left) :]
        except OSError:
            # Whatever is wrong with the file, or with the disk, a new descriptor has the best
            # chance; a disk that was mounted anew does not come back to an old one.
            with contextlib.suppress(OSError):
                os.close(current.fd)
            current.fd = -1
            raise
        current.size += len(data)

    def _mine(self) -> list[tuple[str, int, Path]]:
        return [entry for entry in find_segments(self._directory) if entry[0] == self._node]


def _last_ts(path: Path) -> int:
    numbers = last_numbers(path)
    return numbers[1] if numbers is not None else int(path.stat().st_mtime * 1000)


def _sync_directory(directory: Path) -> None:
    """Make a new file's name as durable as its lines will be."""
    try:
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        # Not every file system can; the lines are written all the same.
        _log.warning("journal directory not synced", path=str(directory), error=str(error))
