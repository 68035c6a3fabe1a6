"""The files of journals that are looked at afterwards: of any nodes, plain and compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from coterie_server.journal.packed import ArchiveError, is_packed, plain_name

__all__ = ["find_files"]

#: The names of a node's files, before they are compressed.
_SEGMENT: Final = re.compile(r"journal-.*\.jsonl")


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those of journals in and beneath the folders.

    They come in an order in which those of a node follow each other by their numbers.  If one is
    there both plain and compressed, the plain one counts.  Raises `ArchiveError`, also if a folder
    may not be read, as what is in it would be missing without a word.
    """
    try:
        return _find(paths)
    except OSError as error:
        raise ArchiveError(f"{error.filename} can't be read: {error.strerror}.") from None


def _find(paths: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise ArchiveError(
                f"There is no {path}. Give a data directory, or a journal's folder or files."
            )
        if path.is_dir():
            inside = sorted(each for each in _beneath(path) if _is_segment(each))
            if not inside:
                raise ArchiveError(
                    f"There is no journal in {path}: no file there is called"
                    " journal-NODE-NUMBER.jsonl. A node keeps its journal in the folder journal of"
                    " its --data-dir."
                )
            found |= dict.fromkeys(inside)
        else:
            found[path] = None
    plain = {path for path in found if not is_packed(path)}
    files = [path for path in found if not is_packed(path) or path.with_suffix("") not in plain]
    return sorted(files, key=lambda path: (path.name, path))


def _beneath(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in names)


def _is_segment(path: Path) -> bool:
    return _SEGMENT.fullmatch(plain_name(path)) is not None and path.is_file()
