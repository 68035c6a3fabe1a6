"""A small file beside the store that remembers how far the store has come.

SQLite takes a damaged write-ahead log for one that ends where the damage begins: it silently drops
what follows, and it does not notice a file that was replaced by an older copy.  So each transaction
increments a number in the store, and the mark says which number was reached.  A store that is
behind its mark has lost something that was acknowledged.

The mark is written after a transaction is durable and before it is acknowledged.  It is not synced:
a process that dies loses nothing of it, and after a power failure it may be older than the store,
which does no harm, but never newer.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coterie_server.log.logger import get_logger

__all__ = ["Mark", "Progress", "mark_path"]

_log = get_logger(__name__)

_MAGIC: Final = b"coterie\x01"
#: The store's identity and its number; a checksum follows.
_ENTRY: Final = struct.Struct(">8s32sQ")
_CHECK: Final = struct.Struct(">I")
_SIZE: Final = _ENTRY.size + _CHECK.size
#: Places that are written in turn, each in a block of its own: a torn write spoils only one.
#: Two would do for one process.  But processes that share a store write in the order in which they
#: get to it, and one that is late must not put its number over the highest.
_PLACES: Final = tuple(block * 4096 for block in range(16))


@dataclass(frozen=True, slots=True)
class Progress:
    """Which store it is, and how many transactions it has committed."""

    store: str
    commits: int


def mark_path(path: Path) -> Path:
    """The path of the mark of a store."""
    return path.with_name(f"{path.name}-mark")


class Mark:
    """The mark of one store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._is_failing = False

    def read(self) -> Progress | None:
        """What the mark says; None if it is missing or unreadable."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        found = [entry for place in _PLACES if (entry := _read(data[place : place + _SIZE]))]
        if not found:
            _log.warning("the store's mark can't be read", path=str(self._path))
        return max(found, key=lambda entry: entry.commits, default=None)

    def write(self, progress: Progress) -> None:
        """Remember how far the store has come; a failure is logged, and nothing else."""
        entry = _ENTRY.pack(_MAGIC, progress.store.encode(), progress.commits)
        place = _PLACES[progress.commits % len(_PLACES)]
        try:
            if place == _PLACES[0] and not self._is_in_place():
                self.close()
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o640)
            os.pwrite(self._fd, entry + _CHECK.pack(zlib.crc32(entry)), place)
        except OSError as error:
            if not self._is_failing:
                _log.error("the store's mark can't be written", error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False

    def _is_in_place(self) -> bool:
        """Whether the open file is still the one that a start will read."""
        try:
            return self._fd < 0 or os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False

    def begin_anew(self, progress: Progress) -> None:
        """Replace the mark, whatever it said before."""
        # In place, as other processes may have the file open.
        with contextlib.suppress(OSError):  # which `write` tells
            os.truncate(self._path, 0)
        self.write(progress)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read(data: bytes) -> Progress | None:
    entry, check = data[: _ENTRY.size], data[_ENTRY.size :]
    if len(data) < _SIZE or check != _CHECK.pack(zlib.crc32(entry)):
        return None
    magic, store, commits = _ENTRY.unpack(entry)
    return Progress(store.decode("ascii"), commits) if magic == _MAGIC else None
