"""Errors of files, which say which file it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["naming"]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give the file's name to errors that have none: those of reading, as from a damaged disk.

    Only a file that can't be opened is named by Python.  Who reads and prints at once takes an
    error without a name for one of the output.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
