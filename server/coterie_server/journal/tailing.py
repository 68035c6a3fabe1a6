"""The last lines of a journal, and those that come after them.

A journal may hold gigabytes, so it is read from its end backwards, and what was read of a file is
not read again when it has grown.  Blocking.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, final

from coterie_protocol.file_errors import naming
from coterie_protocol.journal import Line
from coterie_protocol.journal_text import BadLine, read_lines
from coterie_protocol.line_breaks import line_start
from coterie_server.journal.backwards import blocks_of, files_by_node, list_segments

__all__ = ["JournalTail"]


@final
class JournalTail:
    """Reads each wanted line of a directory or a file once; may raise `OSError`.

    Lines of several nodes are in the order of their dates; those of one node stay as they are.
    """

    def __init__(self, journal: Path, is_wanted: Callable[[Line], bool]) -> None:
        self._journal = journal
        self._is_wanted = is_wanted
        #: How much of each file was read, or will be by reading backwards.
        self._ends: dict[Path, int] = {}
        #: The groups that any line is about which was looked at.
        self.groups: set[str] = set()
        #: How many lines that were looked at are none.
        self.bad = 0

    def newest_first(self) -> Iterator[Line]:
        """The lines that are there now."""
        nodes = self._files()
        for path in chain.from_iterable(nodes):
            with self._passing_over_lost(), naming(path), path.open("rb") as file:
                self._ends[path] = line_start(file, file.seek(0, 2))
        by_node = (self._backwards(paths) for paths in nodes)
        return heapq.merge(*by_node, key=_date, reverse=True)

    def new_lines(self) -> Iterator[Line]:
        """The lines that were not there before, the oldest first."""
        return heapq.merge(*map(self._forwards, self._files()), key=_date)

    # -- files ---------------------------------------------------------------------------------

    @property
    def _is_folder(self) -> bool:
        return self._journal.is_dir()

    def _files(self) -> list[list[Path]]:
        """The files of each node, in the order of their numbers."""
        if not self._is_folder:
            return [[self._journal]]
        return files_by_node(list_segments(self._journal))

    def _backwards(self, paths: list[Path]) -> Iterator[Line]:
        for path in reversed(paths):
            with self._passing_over_lost():
                for block in blocks_of(path, self._ends.get(path, 0)):
                    texts = [text + b"\n" for text in block.split(b"\n")[:-1]]
                    yield from reversed(list(self._wanted(texts)))

    def _forwards(self, paths: list[Path]) -> Iterator[Line]:
        for path in paths:
            with self._passing_over_lost(), naming(path), path.open("rb") as file:
                yield from self._wanted(self._whole(path, file))

    def _whole(self, path: Path, file: IO[bytes]) -> Iterator[bytes]:
        """The lines after those that were read; one that does not end yet is left for later."""
        size, end = file.seek(0, 2), self._ends.get(path, 0)
        # A file that is shorter than what was read of it is another one.
        file.seek(end if end <= size else 0)
        for text in iter(file.readline, b""):
            if not text.endswith(b"\n"):
                return
            self._ends[path] = file.tell()
            yield text

    def _wanted(self, texts: Iterable[bytes]) -> Iterator[Line]:
        for entry in read_lines(texts):
            if isinstance(entry, BadLine):
                self.bad += 1
                continue
            if entry.event.group:
                self.groups.add(entry.event.group)
            if self._is_wanted(entry):
                yield entry

    def _passing_over_lost(self) -> contextlib.AbstractContextManager[Any]:
        """A node deletes files of its folder that are old enough, at any moment."""
        return contextlib.suppress(*[FileNotFoundError] * self._is_folder)


def _date(line: Line) -> int:
    return line.ts
