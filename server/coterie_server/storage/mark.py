"""A small file beside the store that remembers how far the store has come.

SQLite takes a write-ahead log that is damaged for one that ends there: what comes behind is passed
over without a word, and so is a file that somebody replaced by an older one.  Each transaction
counts up a number in the file, and the mark says which number was reached.  A store that is behind
its mark has lost something that was acknowledged.

The mark is written once a transaction is durable and before anybody hears of it.  It is not synced:
a process that dies loses nothing of it, and after a loss of power it may be older than the store,
which is no fault, but never newer.
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

__all__ = ["Mark", "Reached", "mark_path"]

_log = get_logger(__name__)

_MAGIC: Final = b"coterie\x01"
#: The store's identity and its number; a checksum follows.
_ENTRY: Final = struct.Struct(">8s32sQ")
_CHECK: Final = struct.Struct(">I")
_SIZE: Final = _ENTRY.size + _CHECK.size
#: Two places, written in turn, each in a block of its own: a torn write spoils only one.
_PLACES: Final = (0, 4096)


@dataclass(frozen=True, slots=True)
class Reached:
    """Which store it is, and how many transactions it has seen."""

    store: str
    commits: int


def mark_path(path: Path) -> Path:
    """Where the mark of a store's file is."""
    return path.with_name(f"{path.name}-mark")


class Mark:
    """The mark of one store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._is_failing = False

    def read(self) -> Reached | None:
        """What the mark says; None if there is none that can be read."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        found = [entry for place in _PLACES if (entry := _read(data[place : place + _SIZE]))]
        if not found:
            _log.warning("the store's mark can't be read", path=str(self._path))
        return max(found, key=lambda entry: entry.commits, default=None)

    def write(self, reached: Reached) -> None:
        """Remember how far the store has come; that it can't be is logged and no more."""
        entry = _ENTRY.pack(_MAGIC, reached.store.encode(), reached.commits)
        place = _PLACES[reached.commits % len(_PLACES)]
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o640)
            os.pwrite(self._fd, entry + _CHECK.pack(zlib.crc32(entry)), place)
        except OSError as error:
            if not self._is_failing:
                _log.error("the store's mark can't be written", error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False

    def begin_anew(self, reached: Reached) -> None:
        """Forget what the mark said before."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self.write(reached)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read(data: bytes) -> Reached | None:
    entry, check = data[: _ENTRY.size], data[_ENTRY.size :]
    if len(data) < _SIZE or check != _CHECK.pack(zlib.crc32(entry)):
        return None
    magic, store, commits = _ENTRY.unpack(entry)
    return Reached(store.decode("ascii"), commits) if magic == _MAGIC else None
