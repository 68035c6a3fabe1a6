"""What brokers stored in `__consumer_offsets`, to be looked up by group, generation and time.

The segment files of the topic are read once into a scratch database on disk, so that the memory
needed does not grow with them.  They are better than what Kafka's tools print of them: the same
bytes in every version since 0.11, with the members' addresses and timeouts, which what is printed
by older versions lacks, and to be had by copying files, without a Java program.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from coterie_pipeline.kafka_logs.log_events import MemberInfo
from coterie_pipeline.kafka_logs.offsets_topic import (
    Batch,
    Generation,
    Key,
    Partition,
    StoredRecord,
    Unreadable,
    read_batches,
    read_key,
    read_offset,
    read_value,
)

__all__ = ["Dump", "DumpCounts", "StoredChange", "find_segments"]

_TOPIC: Final = "__consumer_offsets-"

#: The coordinator stores a generation when the leader's assignment comes, which is no later than
#: this after its members have joined; clocks and threads can swap moments by the other.
_SYNC_MAX_MS: Final = 3_600_000
_SLACK_MS: Final = 1_000

#: A log says that a group was deleted on request right after that was stored.
_TOMBSTONE_LATE_MS: Final = 1_000

_COMMITTED: Final = 1

#: Of a large group, all members ask for the same few generations one after the other.
_read_value: Final = lru_cache(maxsize=16)(read_value)
_CONTROL_KEY: Final = struct.Struct(">hh")

_SCHEMA: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE generations (
    place INTEGER PRIMARY KEY, ts INTEGER, grp TEXT, number INTEGER, members INTEGER, value BLOB
);
CREATE TABLE members (grp TEXT, member TEXT, place INTEGER, PRIMARY KEY (grp, member));
CREATE TABLE changes (place INTEGER PRIMARY KEY, ts INTEGER, grp TEXT, offsets TEXT);
CREATE TABLE seen (part INTEGER, first INTEGER, PRIMARY KEY (part, first)) WITHOUT ROWID;
"""

_INDEXES: Final = """
CREATE INDEX by_group ON generations (grp, ts);
CREATE INDEX by_time ON changes (ts, place);
"""


@dataclass(slots=True)
class DumpCounts:
    """What was found in the files."""

    files: int = 0
    records: int = 0
    #: Groups' states, commits and deleted groups among the records.
    generations: int = 0
    commits: int = 0
    deletions: int = 0
    #: Offsets that were deleted or expired: which of the two, nothing says.
    offsets_gone: int = 0
    #: Records about groups that are no classic ones.
    newer: int = 0
    #: Batches and records that can't be read, by why.
    unreadable: dict[str, int] = field(default_factory=dict)

    def pass_over(self, why: str) -> None:
        """Count something that could not be read."""
        self.unreadable[why] = self.unreadable.get(why, 0) + 1


@dataclass(frozen=True, slots=True)
class StoredChange:
    """Offsets that were committed, or a group that was deleted (None)."""

    ts_ms: int
    group: str
    offsets: Mapping[str, Mapping[str, int]] | None


def find_segments(path: Path) -> list[Path]:
    """The segments of `__consumer_offsets` at a path: a file, a partition's folder, or above."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.log"))
    named = [each for each in found if each.parent.name.startswith(_TOPIC)]
    return named or [each for each in found if each.parent == path]


class Dump:
    """A scratch database; until something is loaded, every look-up finds nothing."""

    def __init__(self, scratch: Path) -> None:
        self._base = sqlite3.connect(scratch, isolation_level=None)
        self._base.executescript(_SCHEMA)
        self.counts = DumpCounts()
        #: What transactions have committed that are not over yet, by partition and producer.
        self._open: dict[tuple[int, int], list[tuple[str, Partition, int]]] = {}

    def close(self) -> None:
        """Close the database; its file stays."""
        self._base.close()

    # -- reading in ----------------------------------------------------------------------------

    def load(self, segments: Iterable[Path]) -> None:
        """Read segments; of a batch that is there twice, as replicas have it, one is taken."""
        self._base.execute("BEGIN")
        for path in segments:
            self.counts.files += 1
            partition = _number_of(path)
            for batch in read_batches(path):
                self._load(partition, batch)
        self._base.executescript(_INDEXES)
        if self._base.in_transaction:
            self._base.execute("COMMIT")

    def _load(self, partition: int, batch: Batch | Unreadable) -> None:
        if isinstance(batch, Unreadable):
            self.counts.pass_over(batch.why)
            return
        seen = self._base.execute(
            "INSERT OR IGNORE INTO seen VALUES (?, ?)", (partition, batch.offset)
        )
        if not seen.rowcount:
            return
        if batch.is_control:
            self._end_transaction(partition, batch)
            return
        commits: list[tuple[str, Partition, int]] = []
        ts_ms = 0
        for record in batch.records:
            self.counts.records += 1
            ts_ms = max(ts_ms, record.ts_ms)
            key = read_key(record.key or b"")
            if key is None:
                self.counts.pass_over("a key of another kind")
            else:
                self._note(key, record, commits)
        if batch.producer_id is None:
            self._note_commits(ts_ms, commits)
        else:
            self._open.setdefault((partition, batch.producer_id), []).extend(commits)

    def _note(
        self, key: Key, record: StoredRecord, commits: list[tuple[str, Partition, int]]
    ) -> None:
        counts = self.counts
        if key.is_newer:
            counts.newer += 1
        elif key.partition is None:
            self._note_group(key.group, record)
        elif record.value is None:
            counts.offsets_gone += 1
        else:
            offset = read_offset(record.value)
            if offset is None:
                counts.pass_over("a commit of another kind")
            else:
                counts.commits += 1
                commits.append((key.group, key.partition, offset))

    def _note_group(self, group: str, record: StoredRecord) -> None:
        if record.value is None:
            self.counts.deletions += 1
            self._add_change(record.ts_ms + _TOMBSTONE_LATE_MS, group, None)
            return
        generation = read_value(record.value)
        if generation is None:
            self.counts.pass_over("a group of another kind")
            return
        self.counts.generations += 1
        row = (record.ts_ms, group, generation.number, len(generation.members), record.value)
        place = self._base.execute(
            "INSERT INTO generations (ts, grp, number, members, value) VALUES (?, ?, ?, ?, ?)", row
        ).lastrowid
        self._base.executemany(
            "INSERT OR IGNORE INTO members VALUES (?, ?, ?)",
            [(group, member, place) for member in generation.members],
        )

    def _note_commits(self, ts_ms: int, commits: list[tuple[str, Partition, int]]) -> None:
        by_group: dict[str, dict[str, dict[str, int]]] = {}
        for group, (topic, number), offset in commits:
            by_group.setdefault(group, {}).setdefault(topic, {})[str(number)] = offset
        for group, offsets in by_group.items():
            self._add_change(ts_ms, group, json.dumps(offsets))

    def _end_transaction(self, partition: int, batch: Batch) -> None:
        for record in batch.records:
            commits = self._open.pop((partition, batch.producer_id or 0), [])
            if _CONTROL_KEY.unpack_from(record.key or bytes(4))[1] == _COMMITTED:
                self._note_commits(record.ts_ms, commits)

    def _add_change(self, ts_ms: int, group: str, offsets: str | None) -> None:
        self._base.execute(
            "INSERT INTO changes (ts, grp, offsets) VALUES (?, ?, ?)", (ts_ms, group, offsets)
        )

    # -- asking --------------------------------------------------------------------------------

    def changes(self, *, commits: bool = True) -> Iterator[StoredChange]:
        """Deletions, and commits if they are wanted, by time."""
        rows = self._base.cursor().execute(
            "SELECT ts, grp, offsets FROM changes WHERE ? OR offsets IS NULL ORDER BY ts, place",
            (commits,),
        )
        for ts_ms, group, offsets in rows:
            yield StoredChange(ts_ms, group, None if offsets is None else json.loads(offsets))

    def generation(self, group: str, number: int, joined_ms: int) -> Generation | None:
        """A generation whose members had joined at some time, as it was when it was stored."""
        return self._one(
            "SELECT value FROM generations WHERE grp = ? AND ts BETWEEN ? AND ? AND number = ? "
            "AND members > 0 ORDER BY ts, place LIMIT 1",
            (group, joined_ms - _SLACK_MS, joined_ms + _SYNC_MAX_MS, number),
        )

    def latest(self, group: str, until_ms: int) -> Generation | None:
        """A group as it was stored last at some time."""
        return self._one(
            "SELECT value FROM generations WHERE grp = ? AND ts <= ? "
            "ORDER BY ts DESC, place DESC LIMIT 1",
            (group, until_ms),
        )

    def successor(self, group: str, instance: str, former: str, ts_ms: int) -> MemberInfo | None:
        """The member that took a static member's place at some time."""
        rows = self._base.cursor().execute(
            "SELECT value FROM generations WHERE grp = ? AND ts BETWEEN ? AND ? ORDER BY ts, place",
            (group, ts_ms - _SLACK_MS, ts_ms + _SYNC_MAX_MS),
        )
        for (value,) in rows:
            generation = _read_value(value)
            for member in generation.members.values() if generation else ():
                if member.info.instance == instance and member.info.member != former:
                    return member.info
        return None

    def member_info(self, group: str, member: str) -> MemberInfo | None:
        """A member as it was stored first."""
        generation = self._one(
            "SELECT value FROM generations JOIN members USING (place) "
            "WHERE members.grp = ? AND member = ?",
            (group, member),
        )
        return None if generation is None else generation.members[member].info

    def _one(self, query: str, values: tuple[str | int, ...]) -> Generation | None:
        row = self._base.execute(query, values).fetchone()
        return None if row is None else _read_value(row[0])


def _number_of(path: Path) -> int:
    number = path.parent.name.removeprefix(_TOPIC)
    return int(number) if number.isdecimal() else -1
