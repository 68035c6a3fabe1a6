"""From the logs of Kafka's brokers, and what they stored, to a journal."""

from __future__ import annotations

import dataclasses
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final

from coterie_pipeline.kafka_logs.dump import Dump, DumpCounts, Stored, find_segments
from coterie_pipeline.kafka_logs.errors import KafkaLogsError
from coterie_pipeline.kafka_logs.files import Reading, find_logs, merged
from coterie_pipeline.kafka_logs.forms import understand
from coterie_pipeline.kafka_logs.layout import Record
from coterie_pipeline.kafka_logs.output import JournalFiles, folder_in_place
from coterie_pipeline.kafka_logs.reasons import why
from coterie_pipeline.kafka_logs.said import Newer, Preparing, Stabilized
from coterie_pipeline.kafka_logs.scene import Happening
from coterie_pipeline.kafka_logs.tracker import Tracker
from coterie_protocol.journal import PhaseJoined, RebalanceCompleted, RebalanceStarted

__all__ = ["Imported", "import_logs"]

#: How many lines that were not understood are shown; all of them are counted.
_EXAMPLES_MAX: Final = 20
_EXAMPLE_CHARACTERS: Final = 300

_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import has read and written."""

    files: int
    #: Files in which no coordinator says anything.
    silent_files: tuple[str, ...]
    #: Packed files that end too early; what is before that end was read.
    cut_off_files: tuple[str, ...]
    lines: int
    #: Lines in which a coordinator says something, and how many of them were understood.
    coordinator_lines: int
    understood: int
    #: Some of those that were not.
    not_understood: tuple[str, ...]
    #: Reasons of rebalances that are in no known version, by how often they were given.
    unknown_reasons: Mapping[str, int]
    groups: int
    #: Groups that are no classic ones (KIP-848 and later kinds), of which nothing was written.
    newer_groups: int
    rebalances: int
    completed: int
    #: Rebalances after which it is known who was given what.
    assignments: int
    #: Generations of which fewer or more members are known than the log says they had.
    generations_in_part: int
    #: Lines written, by node.
    written: Mapping[str, int]
    first_ms: int | None
    last_ms: int | None
    dump: DumpCounts


@dataclass(slots=True)
class _Counts:
    coordinator_lines: int = 0
    understood: int = 0
    not_understood: list[str] = field(default_factory=list)
    unknown_reasons: Counter[str] = field(default_factory=Counter)
    groups: set[str] = field(default_factory=set)
    newer_groups: set[str] = field(default_factory=set)
    rebalances: int = 0
    completed: int = 0
    assignments: int = 0
    generations_in_part: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


def import_logs(
    logs: Sequence[Path],
    out: Path,
    *,
    dump: Path | None = None,
    zone: tzinfo = UTC,
    cluster: str = "kafka",
    commits: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Write a journal of what brokers' logs tell of their groups into the folder `out`.

    `logs` are files, plain or packed by gzip, or folders of them, of any number of brokers and in
    any order.  `dump` is where segment files of `__consumer_offsets` are: a file, a partition's
    folder, or a folder above.  Times without a zone are those of `zone`.  The nodes of the journal
    are called by `cluster` and the brokers' numbers.  `progress` hears now and then how many lines
    were read.

    The same input gives the same files.  A folder that an earlier import wrote is replaced once
    all is written; one with anything else in it is refused, as `KafkaLogsError`.
    """
    if not _CLUSTER.fullmatch(cluster):
        raise KafkaLogsError(f"A node can't be called {cluster!r}: use letters, digits, . _ and -.")
    with folder_in_place(out) as folder:
        reading = Reading(progress=progress)
        found = find_logs(logs, zone, reading)
        if not found:
            raise KafkaLogsError(
                f"None of {reading.files} files has a line of a group coordinator; brokers write "
                "them into server.log."
            )
        scratch = folder / "scratch.sqlite"
        with closing(Dump(scratch)) as stored, closing(JournalFiles(folder)) as files:
            if dump is not None:
                stored.load(_segments(dump))
            work = _Import(stored, files, cluster, found[0].node)
            happenings = stored.happenings(commits=commits)
            work.run(merged(found, zone, reading), happenings)
            imported = work.summary(reading)
            files.mark(_plain(imported))
        scratch.unlink()
    return imported


def _segments(dump: Path) -> list[Path]:
    segments = find_segments(dump)
    if not segments:
        raise KafkaLogsError(f"{dump} has no segment files (.log) of __consumer_offsets.")
    return segments


def _plain(imported: Imported) -> dict[str, Any]:
    """The summary as it is left beside the journal: without paths, which differ by machine."""
    values = dataclasses.asdict(imported)
    for name in ("silent_files", "cut_off_files"):
        values[name] = [Path(path).name for path in values[name]]
    return values


class _Import:
    """One import, as far as it has come."""

    def __init__(self, dump: Dump, files: JournalFiles, cluster: str, first_node: str) -> None:
        self._dump = dump
        self._tracker = Tracker(dump, first_node)
        self._files = files
        self._cluster = cluster
        self._counts = _Counts()

    def run(self, records: Iterator[Record], happenings: Iterator[Stored]) -> None:
        """Take in everything, by time; of the same moment, what the log says first."""
        both: Iterator[Record | Stored] = heapq.merge(
            records, happenings, key=lambda each: each.ts_ms
        )
        for each in both:
            if isinstance(each, Stored):
                self._write(self._tracker.find(each))
            else:
                self._hear(each)
        self._write(self._tracker.finish())

    def _hear(self, record: Record) -> None:
        counts = self._counts
        counts.coordinator_lines += 1
        counts.first_ms = record.ts_ms if counts.first_ms is None else counts.first_ms
        counts.last_ms = record.ts_ms
        line = understand(record.text)
        if line is None:
            if len(counts.not_understood) < _EXAMPLES_MAX:
                counts.not_understood.append(record.text[:_EXAMPLE_CHARACTERS])
            return
        counts.understood += 1
        if isinstance(line, Newer):
            counts.newer_groups.add(line.group)
        if isinstance(line, Preparing) and why(line.reason).cause is None:
            counts.unknown_reasons[line.reason] += 1
        told = self._tracker.hear(record, line)
        if isinstance(line, Stabilized):
            self._compare(line, told)
        self._write(told)

    def _compare(self, line: Stabilized, told: Sequence[Happening]) -> None:
        """Notice when members are missing in what is told."""
        for happening in told:
            if isinstance(happening.event, PhaseJoined):
                known = len(happening.event.members)
                self._counts.generations_in_part += line.count is not None and known != line.count

    def _write(self, happenings: Sequence[Happening]) -> None:
        counts = self._counts
        for happening in happenings:
            event = happening.event
            self._files.write(happening.ts_ms, f"{self._cluster}-{happening.node}", event)
            if event.group:
                counts.groups.add(event.group)
            counts.rebalances += isinstance(event, RebalanceStarted)
            if isinstance(event, RebalanceCompleted):
                counts.completed += 1
                counts.assignments += event.assigned is not None

    def summary(self, reading: Reading) -> Imported:
        """What came of it."""
        counts = self._counts
        return Imported(
            files=reading.files,
            silent_files=tuple(str(path) for path in reading.silent),
            cut_off_files=tuple(str(path) for path in sorted(reading.cut_off)),
            lines=reading.lines,
            coordinator_lines=counts.coordinator_lines,
            understood=counts.understood,
            not_understood=tuple(counts.not_understood),
            unknown_reasons=dict(counts.unknown_reasons),
            groups=len(counts.groups),
            newer_groups=len(counts.newer_groups),
            rebalances=counts.rebalances,
            completed=counts.completed,
            assignments=counts.assignments,
            generations_in_part=counts.generations_in_part,
            written=self._files.lines,
            first_ms=counts.first_ms,
            last_ms=counts.last_ms,
            dump=self._dump.counts,
        )
