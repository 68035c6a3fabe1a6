"""Lock files: one process at a time holds one, and gives it up when it ends, in whatever way."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

__all__ = [
    "DirectoryInUseError",
    "DirectoryUnusableError",
    "FileLock",
    "HeldError",
    "hold_directory",
    "locks_of_names",
    "remove_stale",
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
        self._file = _held(path)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self, *, delete: bool = False) -> None:
        """Give the file up, and delete it if it is not to be left behind."""
        if delete:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._file.close()


def _held(path: Path, mode: str = "a+") -> IO[str]:
    """Open a file and hold it."""
    while True:
        with contextlib.ExitStack() as undo:
            file = undo.enter_context(path.open(mode))
            _hold(path, file)
            # Who held it before may have deleted it, and another process holds the next one.
            if _is_in_place(path, file):
                undo.pop_all()
                return file


def _hold(path: Path, file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise HeldError(path, file.read().strip() or "unknown") from None


def _is_in_place(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def locks_of_names(file: Path) -> dict[str, Path]:
    """The lock files beside a store, by the names that they keep, whether or not they are held."""
    before, after = f"{file.name}-", ".lock"
    found = file.parent.glob(f"{glob.escape(before)}*{after}")
    return {each.name.removeprefix(before).removesuffix(after): each for each in found}


def remove_stale(paths: Iterable[Path]) -> None:
    """Delete those of some lock files that no process holds, as after its process was killed.

    Each is held for a moment, so that no other process takes it meanwhile.
    """
    for path in paths:
        with contextlib.suppress(HeldError, OSError), _held(path, "r+"):
            path.unlink()


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
            " directory."
        ) from None
    except OSError as error:
        raise DirectoryUnusableError(
            f"can't keep data in {directory}: {error.strerror}. Choose another directory."
        ) from error
    try:
        yield
    finally:
        lock.release()
