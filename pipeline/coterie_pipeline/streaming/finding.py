"""The files beneath directories, as they are at a moment: segments of journals, and others."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from coterie_pipeline.streaming.offsets import Segment, survey, writer_of

__all__ = ["find", "passed_over"]


def find(journals: Iterable[str]) -> tuple[Segment, ...]:
    """The segments in directories and all that is beneath them."""
    return survey(_files(journals).items())


def passed_over(journals: Iterable[str]) -> list[str]:
    """The other files there: those whose names are not a segment's."""
    others = (path for path in _files(journals) if writer_of(path) is None)
    return sorted(path for path in others if not path.rpartition("/")[2].startswith((".", "_")))


def _files(journals: Iterable[str]) -> dict[str, int]:
    """The size of each file; pipes and the like are left out, as they have no end."""
    found: dict[str, int] = {}
    for journal in journals:
        for folder, names in _folders(os.path.abspath(journal)):  # noqa: PTH100
            # The names are listed before any size is read: a file with a later one beside it is
            # complete.
            for name in filter(_is_text, names):
                path = f"{folder}/{name}"
                with contextlib.suppress(FileNotFoundError):  # too old, and deleted by its node
                    status = os.stat(path)  # noqa: PTH116  # done for every file
                    if stat.S_ISREG(status.st_mode):
                        found[path] = status.st_size
    return found


def _folders(top: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """A folder and all beneath it, by links too unless they lead back, with the names of files."""
    real = os.path.realpath(top)
    if real in above:
        return
    folder, within, names = next(os.walk(top), (top, [], []))
    yield folder, names
    for name in within:
        yield from _folders(f"{folder}/{name}", (*above, real))


def _is_text(name: str) -> bool:
    """Whether a name is in the file system's encoding: Java can open no other files."""
    return name.encode(errors="replace").decode() == name
