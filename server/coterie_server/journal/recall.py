"""What a journal knows of groups: a store that knows less has lost something.

A line is written only when what it tells is durable.  So a store that was opened again has at least
the generations that its node's journal tells, and for each offset the last commit or a later one,
unless it deleted it since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coterie_server.journal.segments import find_segments

__all__ = ["Recollection", "StoredOffset", "recall"]

#: How much of a journal's end is read: enough for what a damaged log can have held.
_READ_BYTES_MAX: Final = 8 * 1024 * 1024

#: A group, a topic and a partition.
_Place = tuple[str, str, int]

StoredOffset = Callable[[str, str, int], int | None]
"""When the offset was committed that is stored for a group, a topic and a partition, if one is."""


@dataclass(slots=True)
class Recollection:
    """The newest that a journal tells, as far back as it was read."""

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

        A process that was killed did not write the last lines, so an offset that is gone may have
        been deleted: `forgot_at` says when offsets were, where that of a group is kept.
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
                what = "is gone" if committed_ms is None else "is an older one"
                return f"the offset of group {group!r} for {topic}[{partition}] {what}"
        return None

    def note(self, values: Mapping[str, Any]) -> None:
        """Take in a line of the journal."""
        seq = values.get("seq")
        if seq != self._next_seq:
            self.commits.clear()  # A deletion may be among the lines that are missing.
        self._next_seq = seq + 1 if isinstance(seq, int) else None
        note = _NOTES.get(str(values.get("kind")))
        group = str(values.get("group", ""))
        generation = values.get("generation")
        if isinstance(generation, int) and generation >= 0 and group:
            self.generations[group] = max(self.generations.get(group, 0), generation)
        if note is not None:
            note(self, group, values)

    def _started(self, _group: str, values: Mapping[str, Any]) -> None:
        if values.get("accepted_loss"):
            self.generations.clear()
            self.commits.clear()

    def _committed(self, group: str, values: Mapping[str, Any]) -> None:
        for topic, offsets in values["offsets"].items():
            for partition in offsets:
                self.commits[group, topic, int(partition)] = values["ts"]

    def _forgotten(self, group: str, values: Mapping[str, Any]) -> None:
        for topic, partitions in values["partitions"].items():
            for partition in partitions:
                self.commits.pop((group, topic, partition), None)

    def _deleted(self, group: str, _values: Mapping[str, Any]) -> None:
        self.commits = {place: ts for place, ts in self.commits.items() if place[0] != group}

    def _topic_changed(self, _group: str, values: Mapping[str, Any]) -> None:
        if values["change"] == "deleted":
            topic = values["topic"]
            self.commits = {place: ts for place, ts in self.commits.items() if place[1] != topic}


_Note = Callable[[Recollection, str, Mapping[str, Any]], None]

_NOTES: Final[Mapping[str, _Note]] = {
    "group_deleted": Recollection._deleted,  # noqa: SLF001  # a table of its own methods
    "node_started": Recollection._started,  # noqa: SLF001
    "offsets_committed": Recollection._committed,  # noqa: SLF001
    "offsets_deleted": Recollection._forgotten,  # noqa: SLF001
    "offsets_expired": Recollection._forgotten,  # noqa: SLF001
    "topic_changed": Recollection._topic_changed,  # noqa: SLF001
}


def recall(directory: Path, node: str) -> Recollection:
    """Read the end of a node's journal; lines that can't be read count as missing."""
    found = Recollection()
    for line in _last_lines(directory, node):
        try:
            values = json.loads(line)
            if isinstance(values, dict):
                found.note(values)
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
        with path.open("rb") as file:
            file.seek(start)
            yield from file
