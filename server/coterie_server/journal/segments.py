"""The files of one node's journal: begun, rotated, and deleted when they are old.

Everything here blocks, and raises `OSError` when the disk fails; it belongs to the writer's thread.
After an error, the same call can be made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from coterie_protocol.file_errors import naming
from coterie_protocol.journal_text import SEGMENT, segment_name
from coterie_server.log.logger import get_logger

__all__ = ["FOR_EVER", "Segments", "find_segments", "last_numbers"]

_log = get_logger(__name__)

#: The retention with which nothing is deleted.
FOR_EVER: Final = -1

#: Valid names of nodes, as they are part of file names.
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

#: How much of a file's end is read at first, to find the last line.
_TAIL_BYTES: Final = 65_536


def find_segments(
    directory: Path, name_of: Callable[[Path], str] = attrgetter("name")
) -> Iterator[tuple[str, int, Path]]:
    """Each file of a journal with its node and first line number, sorted by these.

    `name_of` says what a file that was compressed was called.  What has such a name and no end,
    as a pipe, is none of them: reading it would wait for ever.
    """
    found = []
    for path in directory.iterdir():
        match = SEGMENT.fullmatch(name_of(path))
        if match is not None and not _is_endless(path):
            found.append((match["node"], int(match["seq"]), path))
    yield from sorted(found)


def _is_endless(path: Path) -> bool:
    """Whether a path is of a pipe, a socket or a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


def last_numbers(path: Path) -> tuple[int, int] | None:
    """The number and the time of a file's last complete and readable line; None without one."""
    with naming(path), path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        size = _TAIL_BYTES
        while True:
            start = max(end - size, 0)
            file.seek(start)
            *lines, _torn = file.read(end - start).split(b"\n")
            # The first piece may be half a line, which is unreadable and skipped.
            for data in reversed(lines):
                numbers = _numbers(data)
                if numbers is not None:
                    return numbers
            if start == 0:
                return None
            size *= 4


def _numbers(data: bytes) -> tuple[int, int] | None:
    """What every version of a line has: a newer Coterie may have written this one."""
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
    """The file that is being written; `size` and `lines` count complete writes only."""

    path: Path
    began_ms: int
    next_seq: int
    size: int = 0
    lines: int = 0
    fd: int = -1
    #: Which file it is, whatever its name.
    identity: tuple[int, int] = (0, 0)

    def take(self, fd: int) -> None:
        """Write to an open file from now on."""
        self.fd, self.identity = fd, _identity(os.fstat(fd))

    def is_in_place(self) -> bool:
        """Whether the file is where it was begun; while it is not open, any file there counts."""
        try:
            found = os.stat(self.path)  # noqa: PTH116  # quick, as it runs four times a second
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self.fd < 0 or _identity(found) == self.identity

    def close(self) -> None:
        """Close the file, as well as that can be done."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = -1


class Segments:
    """The files of one node in a directory.

    Those who write there are its `companions`, and the first of them deletes what others have left.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        segment_bytes: int,
        segment_ms: int,
        retention_ms: int,
        clock: Callable[[], int],
        companions: Sequence[str] = (),
    ) -> None:
        if not _NODE.fullmatch(node):
            raise ValueError(
                f"the node's name must match {_NODE.pattern} for its journal, got {node!r}"
            )
        self._directory = directory
        self._node = node
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._retention_ms = retention_ms
        self._clock = clock
        self._companions = companions
        self._current: _Current | None = None
        self._lost_lines = 0

    @property
    def lost_lines(self) -> int:
        """How many lines were in files that were taken away while they were written to."""
        return self._lost_lines

    def resume(self) -> int:
        """The number for the next line, which follows the last complete line found."""
        self._directory.mkdir(parents=True, exist_ok=True)
        next_seq = 1
        for _, first_seq, path in reversed(self._mine()):
            # The name alone tells of numbers that were given, if the lines before it are gone.
            next_seq = max(next_seq, first_seq)
            numbers = last_numbers(path)
            if numbers is not None:
                next_seq = max(next_seq, numbers[0] + 1)
                break
        # A file that was begun for that number may hold nothing but half a line.
        while (self._directory / segment_name(self._node, next_seq)).exists():
            next_seq += 1
        return next_seq

    def write(self, lines: list[tuple[int, bytes]]) -> None:
        """Write numbered lines, which end with line breaks, and remove them from the list.

        After an error, the lines left on the list were not written; half a line that was is cut
        off before the next write.
        """
        while lines:
            current = self._opened(lines[0][0])
            room = self._segment_bytes - current.size
            count, size = 0, 0
            while count < len(lines) and size < room:
                size += len(lines[count][1])
                count += 1
            self._append(current, b"".join(data for _, data in lines[:count]))
            current.lines, current.next_seq = current.lines + count, lines[count - 1][0] + 1
            del lines[:count]

    def replace_lost(self) -> None:
        """Begin another file if the current one was deleted, moved or replaced.

        It is begun at once, as its name keeps the count if the node is killed before the next line.
        """
        lost = self._current
        if lost is None or lost.is_in_place():
            return
        self._current = self._begin(lost.next_seq)
        self._lost_lines += lost.lines
        lost.close()
        _log.error(
            "journal file was taken away while it was written to, another is begun",
            path=str(lost.path),
            lines=lost.lines,
        )

    def end_if_old(self) -> None:
        """End the current file if it is old enough; the next line begins another."""
        current = self._current
        if current is not None and self._clock() - current.began_ms >= self._segment_ms:
            self.end_current()

    def delete_old(self) -> None:
        """Delete what is old of this node, and of those that write here no longer."""
        if self._retention_ms == FOR_EVER:
            return
        oldest_ms = self._clock() - self._retention_ms
        self._delete_own(oldest_ms)
        if self._node in self._companions[:1]:
            self._delete_of_others(oldest_ms)

    def _delete_own(self, oldest_ms: int) -> None:
        """Delete the oldest files, up to the first whose last line is recent enough."""
        for _, _, path in self._mine():
            is_current = self._current is not None and path == self._current.path
            if is_current or _last_ts(path) >= oldest_ms:
                return
            _delete(path)

    def _delete_of_others(self, oldest_ms: int) -> None:
        """Delete old files of nodes that write here no longer, as with fewer workers than before.

        An empty one keeps their count, in case they come back.
        """
        found = list(find_segments(self._directory))
        for node in {node for node, _, _ in found}.difference(self._companions):
            *earlier, last = (path for name, _, path in found if name == node)
            for path in earlier:
                if _last_ts(path) < oldest_ms:
                    _delete(path)
            numbers = last_numbers(last)
            if numbers is not None and numbers[1] < oldest_ms:
                self._keep_number_only(node, numbers[0], last)

    def _keep_number_only(self, node: str, number: int, path: Path) -> None:
        name = self._directory / segment_name(node, number)
        name.open("wb").close()  # if it is the same file, that empties it
        if name != path:
            _delete(path)

    def end_current(self) -> None:
        """Make sure that the current file is on disk, and close it."""
        current, self._current = self._current, None
        if current is None or current.fd < 0:
            return
        try:
            os.fsync(current.fd)
        except OSError as error:
            # The lines may be on disk all the same; writing them again would not make it surer.
            _log.error("journal file may be incomplete", path=str(current.path), error=str(error))
        current.close()

    # -- the current file ----------------------------------------------------------------------

    def _opened(self, first_seq: int) -> _Current:
        current = self._current
        if current is not None and current.size >= self._segment_bytes:
            self.end_current()
            current = None
        if current is None:
            current = self._current = self._begin(first_seq)
        elif current.fd < 0:
            self._reopen(current)
        return current

    def _reopen(self, current: _Current) -> None:
        """Open the file again after an error."""
        fd = os.open(current.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.ftruncate(fd, current.size)
            current.take(fd)
        except OSError:
            os.close(fd)
            raise

    def _begin(self, first_seq: int) -> _Current:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / segment_name(self._node, first_seq)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o640)
        _sync_directory(self._directory)
        begun = _Current(path, self._clock(), first_seq)
        begun.take(fd)
        return begun

    def _append(self, current: _Current, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(current.fd, left) :]
        except OSError:
            # Whatever is wrong, a new descriptor has the best chance: the old one stays broken
            # even when the disk is mounted again.
            current.close()
            raise
        current.size += len(data)

    def _mine(self) -> list[tuple[str, int, Path]]:
        return [entry for entry in find_segments(self._directory) if entry[0] == self._node]


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    _log.info("old journal file deleted", path=str(path))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _last_ts(path: Path) -> int:
    numbers = last_numbers(path)
    return numbers[1] if numbers is not None else int(path.stat().st_mtime * 1000)


def _sync_directory(directory: Path) -> None:
    """Make the name of a new file durable."""
    try:
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        # Not every file system supports it; the lines are written all the same.
        _log.warning("journal directory not synced", path=str(directory), error=str(error))
