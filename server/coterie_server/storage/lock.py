"""Files that one process at a time can hold, and that its end lets go of, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

__all__ = ["FileLock", "HeldError"]


class HeldError(Exception):
    """Another process holds the file; `holder` is what it wrote into it, mostly its number."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder


class FileLock:
    """A file that is made if need be, and held until `release`; raises `HeldError` or `OSError`."""

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
        """Let go of the file; it stays where it is, as removing it could part two holders."""
        self._file.close()


def _hold(path: Path, file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise HeldError(path, file.read().strip() or "unknown") from None
