"""Lock files: one process at a time holds one, and gives it up when it ends, in whatever way."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = [
    "DirectoryInUseError",
    "DirectoryUnusableError",
    "FileLock",
    "HeldError",
    "hold_directory",
]


class HeldError(Exception):
    """Another process holds the file; `holder` is its process id, or `unknown`."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder


class FileLock:
    """A file that is created if need be and held until `release`.

    Raises `HeldError` or `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.ExitStack() as undo:
            file = undo.enter_context(path.open("a+"))
            _hold(path, file)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            undo.pop_all()
        self._file = file

    def release(self) -> None:
        """Give the file up; it is not deleted, as then two processes could each hold one."""
        self._file.close()


def _hold(path: Path, file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise HeldError(path, file.read().strip() or "unknown") from None


class DirectoryInUseError(Exception):
    """Another process on this machine uses the data directory."""


class DirectoryUnusableError(Exception):
    """The data directory can't be created or written to."""


@contextlib.contextmanager
def hold_directory(directory: Path) -> Iterator[None]:
    """Keep other processes out of a data directory, which is created if need be.

    The leases in the store can't do that alone: a node that comes back after a crash gets its own
    shards again at once, and so would a second process that was started by mistake.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / "lock")
    except HeldError as error:
        raise DirectoryInUseError(
            f"{directory} is in use by process {error.holder}. Stop it, or choose another"
            " --data-dir."
        ) from None
    except OSError as error:
        raise DirectoryUnusableError(
            f"can't keep data in {directory}: {error.strerror}. Choose another --data-dir."
        ) from error
    try:
        yield
    finally:
        lock.release()
