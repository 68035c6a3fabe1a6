"""Reading journals from disk: all of one, or what its end says was acknowledged."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coterie_protocol.file_errors import naming
from coterie_protocol.journal import Line
from coterie_protocol.journal_text import Audit, BadLine, JournalReport, read_lines
from coterie_server.journal.packed import DamagedError, lines_of, plain_name
from coterie_server.journal.segments import find_segments

__all__ = [
    "AcknowledgedState",
    "StoredOffset",
    "list_files",
    "read_acknowledged",
    "read_journal",
    "verify",
]

#: How much of a journal's end is read: enough for all that a damaged write-ahead log can have held.
_READ_BYTES_MAX: Final = 8 * 1024 * 1024

#: A group, a topic and a partition.
_Place = tuple[str, str, int]

StoredOffset = Callable[[str, str, int], int | None]
"""When the offset stored for a group, topic and partition was committed; None without an offset."""


def read_journal(where: Path | Iterable[Path]) -> Iterator[Line | BadLine]:
    """Read a journal's directory, or files in the order given.

    Lines of a directory come node by node, each node's by number; files that are not segments are
    ignored.  Files may be compressed; may raise `ArchiveError`.  Nothing of the journal is held in
    memory.
    """
    if isinstance(where, Path) and where.is_dir():
        for path in list_files(where):
            # The node may delete a file that is old enough at any moment.
            with contextlib.suppress(FileNotFoundError):
                yield from _read(path)
    else:
        for path in (where,) if isinstance(where, Path) else where:
            yield from _read(path)


def list_files(directory: Path) -> list[Path]:
    """The files of a journal, node by node and each node's by number.

    They may be compressed; if one is there both plain and compressed, the plain one counts.
    """
    found: dict[tuple[str, int], Path] = {}
    for node, number, path in find_segments(directory, plain_name):
        found.setdefault(
            (node, number), path
        )  # The shortest name, which is the plain one, is first.
    return list(found.values())


def _read(path: Path) -> Iterator[Line | BadLine]:
    number = 1
    with contextlib.closing(lines_of(path)) as texts:
        try:
            for entry in read_lines(texts, str(path)):
                yield entry
                number += 1
        except DamagedError as error:
            yield BadLine(str(path), number, str(error), "")


def verify(where: Path | Iterable[Path]) -> JournalReport:
    """Report whether a journal is readable and complete."""
    audit = Audit()
    for entry in read_journal(where):
        audit.note(entry)
    return audit.report()


# -- what was acknowledged -------------------------------------------------------------------------


@dataclass(slots=True)
class AcknowledgedState:
    """The newest generations and commits that a journal tells of, as far back as it was read.

    A line is written only once what it tells is durable.  So a store that was opened again has at
    least these generations, and for each offset this commit or a later one, unless the offset was
    deleted since; a store that has less has lost something.
    """

    generations: dict[str, int] = field(default_factory=dict)
    #: When each offset was committed last.
    commits: dict[_Place, int] = field(default_factory=dict)
    _next_seq: int | None = None

    def find_loss(
        self,
        generation_of: Callable[[str], int],
        stored: StoredOffset,
        forgot_at: Callable[[str], int],
    ) -> str | None:
        """What a store lacks, in words; None if nothing is missing.

        The last lines of a process that was killed are missing from its journal, so an offset that
        is gone may have been deleted: `forgot_at` is the date of the last deletion in the shard of
        a group.
        """
        for group, generation in self.generations.items():
            found = generation_of(group)
            if found < generation:
                return f"group {group!r} was in generation {generation}, and is in {found}"
        for (group, topic, partition), at_ms in self.commits.items():
            committed_ms = stored(group, topic, partition)
            if committed_ms is None and at_ms <= forgot_at(group):
                continue
            if committed_ms is None or committed_ms < at_ms:
                what = "is gone" if committed_ms is None else "is older than the last commit"
                return f"the offset of group {group!r} for {topic}[{partition}] {what}"
        return None

    def add(self, values: Mapping[str, Any]) -> None:
        """Take in the next line of the journal."""
        seq = values.get("seq")
        if seq != self._next_seq:
            self.commits.clear()  # one of the missing lines may tell of a deletion
        self._next_seq = seq + 1 if isinstance(seq, int) else None
        group = str(values.get("group", ""))
        generation = values.get("generation")
        if isinstance(generation, int) and generation >= 0 and group:
            self.generations[group] = max(self.generations.get(group, 0), generation)
        self._apply(group, values)

    def _apply(self, group: str, values: Mapping[str, Any]) -> None:
        match values.get("kind"):
            case "node_started":
                self._begin_life(values["ts"], has_accepted_loss=bool(values.get("accepted_loss")))
            case "offsets_committed":
                for topic, offsets in values["offsets"].items():
                    for partition in offsets:
                        self.commits[group, topic, int(partition)] = values["ts"]
            case "offsets_deleted" | "offsets_expired":
                for topic, partitions in values["partitions"].items():
                    for partition in partitions:
                        self.commits.pop((group, topic, partition), None)
            case "group_deleted":
                self._drop(lambda place: place[0] == group)
            case "topic_changed" if values["change"] == "deleted":
                self._drop(lambda place: place[1] == values["topic"])

    def _begin_life(self, date_ms: int, *, has_accepted_loss: bool) -> None:
        if has_accepted_loss:
            self.generations.clear()
            self.commits.clear()
        # If the system's clock was set back while the node was down, later commits have earlier
        # dates, and the journal of a process that is killed may not tell of them.
        self.commits = {place: min(ts, date_ms) for place, ts in self.commits.items()}

    def _drop(self, is_gone: Callable[[_Place], bool]) -> None:
        self.commits = {place: ts for place, ts in self.commits.items() if not is_gone(place)}


def read_acknowledged(directory: Path, node: str) -> AcknowledgedState:
    """Read the end of a node's journal; unreadable lines count as missing."""
    found = AcknowledgedState()
    for line in _last_lines(directory, node):
        try:
            values = json.loads(line)
            if isinstance(values, dict):
                found.add(values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found


def _last_lines(directory: Path, node: str) -> Iterator[bytes]:
    if not directory.is_dir():
        return
    paths = [path for name, _, path in find_segments(directory) if name == node]
    left, chosen = _READ_BYTES_MAX, []
    for path in reversed(paths):
        if left <= 0:
            break
        size = path.stat().st_size
        chosen.append((path, max(size - left, 0)))
        left -= size
    for path, start in reversed(chosen):
        with naming(path), path.open("rb") as file:
            file.seek(start)
            yield from file
