"""What members of a soak have recorded, and what its nodes have journalled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie_protocol.journal import Event, Line
from coterie_protocol.journal_text import Audit, BadLine
from coterie_server.journal import read_journal

__all__ = [
    "Fault",
    "GroupPlan",
    "JournalLines",
    "Record",
    "Story",
    "events_of",
    "read_journals",
    "read_records",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of what a member recorded; times are of the monotonic clock."""

    at_s: float
    member: str
    life: int
    what: str
    #: When a request was made that was answered at `at_s`.
    asked_s: float = 0.0
    partitions: tuple[int, ...] = ()
    offsets: Mapping[int, int] = field(default_factory=dict)
    error: str = ""
    token: int | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to the nodes or to their database."""

    kind: str
    #: What it was done to.
    target: str
    at_s: float
    #: When the process ran again and, if it was started anew, was ready.
    over_s: float
    #: How long the target was away: stopped, or not running.
    away_s: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group of the soak."""

    name: str
    #: The client library of each member.
    libraries: Mapping[str, str]
    #: Whether a member leaves and comes back again and again.
    is_restless: bool = False


@dataclass(frozen=True, slots=True)
class JournalLines:
    """The journals of all nodes: their lines in the order of their times, and what is amiss."""

    lines: tuple[Line, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that is known of a soak when it is over."""

    groups: tuple[GroupPlan, ...]
    #: In any order.
    records: tuple[Record, ...]
    faults: tuple[Fault, ...]
    journal: JournalLines
    #: What was committed in the end, by group and partition, as a node that was started then tells.
    final: Mapping[tuple[str, int], int]
    #: When that was asked for.
    final_s: float
    #: Since when all groups had formed, by the monotonic clock and by the wall's.
    formed_s: float
    formed_ms: int
    #: When the members were told to end, by both clocks.
    ended_s: float
    ended_ms: int
    lease_s: float


def read_records(paths: Iterable[Path]) -> Iterator[Record]:
    """Read what members recorded; a last line that does not end was cut off and is left out."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield _record(json.loads(line))


def _record(found: Mapping[str, Any]) -> Record:
    offsets = found.get("offsets", {})
    return Record(
        at_s=found["at"],
        member=found["member"],
        life=found["life"],
        what=found["what"],
        asked_s=found.get("asked", 0.0),
        partitions=tuple(found.get("partitions", ())),
        offsets={int(partition): int(offset) for partition, offset in offsets.items()},
        error=found.get("error", ""),
        token=found.get("token"),
        generation=found.get("number"),
    )


def read_journals(folders: Iterable[Path]) -> JournalLines:
    """Read the journals of all nodes, and see whether each is whole."""
    lines: list[Line] = []
    problems: list[str] = []
    for folder in folders:
        audit = Audit()
        for entry in read_journal(folder):
            audit.note(entry)
            if not isinstance(entry, BadLine):
                lines.append(entry)
        report = audit.report()
        if not report.is_whole:
            problems.append(f"the journal in {folder} is not whole: {report}")
    lines.sort(key=lambda line: (line.ts, line.node, line.seq))
    return JournalLines(tuple(lines), tuple(problems))


def events_of(journal: JournalLines, kind: type[Event]) -> Iterator[Line]:
    """The lines of one kind."""
    return (line for line in journal.lines if isinstance(line.event, kind))
