"""Reading journals from disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie_protocol.journal import Line
from coterie_protocol.journal_text import Audit, BadLine, JournalReport, read_lines
from coterie_server.journal.segments import find_segments

__all__ = ["read_journal", "verify"]


def read_journal(where: Path | Iterable[Path]) -> Iterator[Line | BadLine]:
    """Read a journal's directory, or files in the order given.

    Of a directory, the lines come node by node, each node's in the order of their numbers; files
    that are no segments are passed over.  Nothing of the journal is held in memory.
    """
    if isinstance(where, Path) and where.is_dir():
        for _, _, path in find_segments(where):
            # The node may delete a file that is old enough at any moment.
            with contextlib.suppress(FileNotFoundError):
                yield from _read(path)
    else:
        for path in (where,) if isinstance(where, Path) else where:
            yield from _read(path)


def _read(path: Path) -> Iterator[Line | BadLine]:
    # Whatever is no UTF-8 can't be read as a line either, and is reported as such.
    with path.open(encoding="utf-8", errors="replace", newline="\n") as texts:
        yield from read_lines(texts, str(path))


def verify(where: Path | Iterable[Path]) -> JournalReport:
    """Report whether a journal can be read and is whole."""
    audit = Audit()
    for entry in read_journal(where):
        audit.note(entry)
    return audit.report()
