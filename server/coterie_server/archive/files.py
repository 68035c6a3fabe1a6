"""The files of journals that are looked at afterwards: of any nodes, plain and compressed."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, cast

__all__ = ["DAMAGED", "ArchiveError", "find_files", "is_packed", "opened"]

#: The names of a node's files, plain and compressed.
_SEGMENT: Final = re.compile(r"journal-.*\.jsonl(\.gz|\.zst)?")
_PACKED: Final = (".gz", ".zst")

#: What reading a file may raise that is not whole.
DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error)

#: Python has the module from this version on.
_HAS_ZSTD: Final = sys.version_info >= (3, 14)


class ArchiveError(Exception):
    """Journals can't be read; the text is a sentence that says why, and what to do."""


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those of journals in and beneath the folders.

    They come in an order in which those of a node follow each other by their numbers.  If one is
    there both plain and compressed, the plain one counts.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise ArchiveError(
                f"There is no {path}. Give a data directory, or a journal's folder or files."
            )
        if path.is_dir():
            inside = sorted(each for each in path.rglob("journal-*") if _is_segment(each))
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


def _is_segment(path: Path) -> bool:
    return path.is_file() and _SEGMENT.fullmatch(path.name) is not None


def is_packed(path: Path) -> bool:
    """Whether a file is compressed."""
    return path.suffix in _PACKED


def opened(path: Path) -> IO[bytes]:
    """A file's text; raises `ArchiveError` if there is nothing to unpack it with."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return _opened_zst(path)
    return path.open("rb")


def _opened_zst(path: Path) -> IO[bytes]:
    try:
        if _HAS_ZSTD:
            return cast("IO[bytes]", import_module("compression.zstd").open(path, "rb"))
        arrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise ArchiveError(
            f"{path} is compressed by zstd, and there is nothing here to unpack it with: unpack it"
            " with `zstd -d`, or install coterie[pipeline]."
        ) from error
    return cast("IO[bytes]", arrow.input_stream(str(path), compression="zstd"))


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """A file's lines, each with its line break."""
    return iter(file.readline, b"")
