"""From the logs of Kafka's brokers, and what they stored, to a journal."""

from __future__ import annotations

import dataclasses
import heapq
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final, TextIO

from coterie_pipeline.kafka_logs.dump import Dump, DumpCounts, StoredChange, find_segments
from coterie_pipeline.kafka_logs.log_events import Newer, Preparing, Stabilized
from coterie_pipeline.kafka_logs.log_files import KafkaLogsError, Reading, Record, find_logs, merged
from coterie_pipeline.kafka_logs.patterns import parse_line
from coterie_pipeline.kafka_logs.reasons import parse_reason
from coterie_pipeline.kafka_logs.state import TimedEvent
from coterie_pipeline.kafka_logs.tracker import Tracker
from coterie_protocol.journal import (
    Event,
    Line,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    write_line,
)
from coterie_protocol.journal_text import SEGMENT, segment_name

__all__ = ["MARK", "Imported", "JournalFiles", "folder_in_place", "import_logs"]

#: The file that marks a folder as written by an import; Spark ignores files of such names.
MARK: Final = "_kafka-logs.json"

#: Files are as large as those that Coterie's own nodes write.
_SEGMENT_BYTES: Final = 64 * 1024 * 1024


@contextmanager
def folder_in_place(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` if all goes well.

    What another import wrote there is replaced; anything else is refused.
    """
    refuse_foreign(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh, former = (out.with_name(f".{out.name}.{part}") for part in ("importing", "former"))
    for left in (fresh, former):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        if out.exists():
            out.rename(former)
        fresh.rename(out)
    finally:
        for left in (fresh, former):
            shutil.rmtree(left, ignore_errors=True)


def refuse_foreign(out: Path) -> None:
    """Refuse a folder that has anything in it but what an import wrote."""
    if not out.exists():
        return
    if not out.is_dir():
        raise KafkaLogsError(f"{out} is not a folder.")
    names = sorted(path.name for path in out.iterdir())
    if names and MARK not in names:
        raise KafkaLogsError(
            f"{out} has something in it that no import of Kafka's logs wrote, such as {names[0]}; "
            "choose another folder."
        )
    for name in names:
        if name != MARK and SEGMENT.fullmatch(name) is None:
            raise KafkaLogsError(f"{out} has {name} in it, which no import wrote; take it away.")


class JournalFiles:
    """The journals of any number of nodes in one folder, each node's lines numbered from 1 on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_seq: dict[str, int] = {}
        self._last_ms: dict[str, int] = {}
        self._files: dict[str, TextIO] = {}
        self._sizes: dict[str, int] = {}

    @property
    def lines(self) -> Mapping[str, int]:
        """How many lines each node has."""
        return dict(sorted(self._last_seq.items()))

    def write(self, ts_ms: int, node: str, event: Event) -> None:
        """Write the next line of a node."""
        # What waited for another line to complete it can come behind what was stored meanwhile.
        ts_ms = self._last_ms[node] = max(ts_ms, self._last_ms.get(node, ts_ms))
        seq = self._last_seq[node] = self._last_seq.get(node, 0) + 1
        text = write_line(Line(ts_ms, node, seq, event)) + "\n"
        if self._sizes.get(node, _SEGMENT_BYTES) >= _SEGMENT_BYTES:
            self._begin(node, seq)
        self._sizes[node] += self._files[node].write(text)

    def mark(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the folder as written by an import."""
        text = json.dumps(summary, indent=2, sort_keys=True)
        (self._folder / MARK).write_text(text + "\n", encoding="utf-8")

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _begin(self, node: str, seq: int) -> None:
        if node in self._files:
            self._files[node].close()
        path = self._folder / segment_name(node, seq)
        self._files[node] = path.open("w", encoding="utf-8", newline="\n")
        self._sizes[node] = 0


# -- the import ------------------------------------------------------------------------------------


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
    are called by `cluster` and the brokers' numbers.  `progress` is called now and then with
    the number of lines that were read.

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
            changes = stored.changes(commits=commits)
            work.run(merged(found, zone, reading), changes)
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
    """An import in progress."""

    def __init__(self, dump: Dump, files: JournalFiles, cluster: str, first_node: str) -> None:
        self._dump = dump
        self._tracker = Tracker(dump, first_node)
        self._files = files
        self._cluster = cluster
        self._counts = _Counts()

    def run(self, records: Iterator[Record], changes: Iterator[StoredChange]) -> None:
        """Handle everything in the order of time; of the same moment, the log comes first."""
        both: Iterator[Record | StoredChange] = heapq.merge(
            records, changes, key=lambda each: each.ts_ms
        )
        for each in both:
            if isinstance(each, StoredChange):
                self._write(self._tracker.on_stored(each))
            else:
                self._on_record(each)
        self._write(self._tracker.finish())

    def _on_record(self, record: Record) -> None:
        counts = self._counts
        counts.coordinator_lines += 1
        counts.first_ms = record.ts_ms if counts.first_ms is None else counts.first_ms
        counts.last_ms = record.ts_ms
        line = parse_line(record.text)
        if line is None:
            if len(counts.not_understood) < _EXAMPLES_MAX:
                counts.not_understood.append(record.text[:_EXAMPLE_CHARACTERS])
            return
        counts.understood += 1
        if isinstance(line, Newer):
            counts.newer_groups.add(line.group)
        if isinstance(line, Preparing) and parse_reason(line.reason).cause is None:
            counts.unknown_reasons[line.reason] += 1
        events = self._tracker.on_line(record, line)
        if isinstance(line, Stabilized):
            self._compare(line, events)
        self._write(events)

    def _compare(self, line: Stabilized, events: Sequence[TimedEvent]) -> None:
        """Count a generation of which not all members are known."""
        for timed in events:
            if isinstance(timed.event, PhaseJoined):
                known = len(timed.event.members)
                self._counts.generations_in_part += line.count is not None and known != line.count

    def _write(self, events: Sequence[TimedEvent]) -> None:
        counts = self._counts
        for timed in events:
            event = timed.event
            self._files.write(timed.ts_ms, f"{self._cluster}-{timed.node}", event)
            if event.group:
                counts.groups.add(event.group)
            counts.rebalances += isinstance(event, RebalanceStarted)
            if isinstance(event, RebalanceCompleted):
                counts.completed += 1
                counts.assignments += event.assigned is not None

    def summary(self, reading: Reading) -> Imported:
        """What was read and written."""
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
