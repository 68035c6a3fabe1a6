"""From journals to tables, once; only new files are read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F

from coterie_pipeline.failures import FAILURES
from coterie_pipeline.files import exists, list_files, shown
from coterie_pipeline.packing import compression_of, plain_name, without_compression
from coterie_pipeline.reading import read_files, read_text
from coterie_pipeline.session import LITTLE_BYTES, is_local, quick_session
from coterie_pipeline.steps.commits import ENDS
from coterie_pipeline.storing import Unread
from coterie_pipeline.warehouse import Moment, Warehouse, piece_of_run

__all__ = ["NoJournalsError", "Reading", "RunResult", "read_ends", "read_new", "run"]

#: The names of a node's files, plain and compressed.
_SEGMENT: Final = re.compile(r"journal-.*\.jsonl(\.gz|\.zst)?")

#: The size and modification time of no file.
_NEVER: Final = (-1, -1)


class NoJournalsError(Exception):
    """There are no journals to read, or not for all processes; the message names the paths."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How many files were found, and how many of them were read this time."""

    segments: int
    fresh: int
    #: Files in the folders that were not read, as they have other names than a journal's.
    passed_over: tuple[str, ...] = ()
    #: Files of which only the beginning was read this time, as the rest can't be unpacked.
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did."""

    reading: Reading
    moment: Moment


def run(
    spark: SparkSession,
    journals: Sequence[str],
    out: str,
    *,
    ends: DataFrame | None = None,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> RunResult:
    """Read what is new in the journals, and make the tables again if anything is new to them.

    What a run before has read may be, if it ended before its tables were in place.

    Raises `NoJournalsError` if there are none, and `UnusableDirectoryError` if `out` holds
    something else, or is in use.
    """
    warehouse = Warehouse(spark, out)
    found = _find(spark, journals, warehouse, on_stage)
    with warehouse.alone():
        reading = _read_new(spark, found, warehouse, on_stage)
        latest = warehouse.latest()
        if latest is None or latest.through < warehouse.runs() or ends is not None:
            latest = warehouse.refresh(ends, on_stage)
    return RunResult(reading, latest)


def read_new(
    spark: SparkSession,
    journals: Sequence[str],
    out: str,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> Reading:
    """Read new and changed files into `out`."""
    warehouse = Warehouse(spark, out)
    found = _find(spark, journals, warehouse, on_stage)
    with warehouse.alone():
        return _read_new(spark, found, warehouse, on_stage)


@dataclass(frozen=True, slots=True)
class _Journals:
    places: tuple[str, ...]
    #: The size and modification time of each file.
    segments: dict[str, tuple[int, int]]
    #: What else is in the folders.
    others: tuple[str, ...]


def _read_new(
    spark: SparkSession,
    journals: _Journals,
    warehouse: Warehouse,
    on_stage: Callable[[str], None],
) -> Reading:
    found = journals.segments
    state = warehouse.claim("run")
    known: dict[str, list[Any]] = state.get("segments", {})
    warehouse.require(str(piece) for _, _, piece in known.values())
    fresh = [path for path, mark in found.items() if known.get(path, [None])[:2] != list(mark)]
    unread, present = Unread(), set(found)
    if fresh:
        on_stage(f"reading {len(fresh)} files")
        runs = state.get("runs", 0) + 1
        piece = piece_of_run(runs)
        is_little = is_local(spark) and sum(found[path][0] for path in fresh) < LITTLE_BYTES
        sizes = {path: found[path][0] for path in fresh}
        unread = _add(warehouse, piece, quick_session(spark) if is_little else spark, sizes)
        _require_found(spark, unread.missing)
        # A file that has grown is read as a whole, so what was read of it before no longer counts.
        stale = [[path, known[path][2]] for path in fresh if path in known]
        # One that went away meanwhile may have been missed, and is read if it comes back.
        present = {
            each.path for place in journals.places for each in list_files(spark, place) or ()
        }
        read = present.difference(unread.missing)
        marks = {path: found[path] if path in read else _NEVER for path in fresh}
        state["segments"] = known | {path: [*mark, piece] for path, mark in marks.items()}
        state["stale"] = [*state.get("stale", []), *stale]
        state["runs"] = runs
        warehouse.note(state)
    _forget_moved(spark, warehouse, present)
    damaged = tuple(map(shown, unread.damaged))
    return Reading(len(found), len(fresh), journals.others, damaged)


def _require_found(spark: SparkSession, missing: Iterable[str]) -> None:
    """Refuse to go on without files that are there, though not for all of Spark's processes."""
    lost = [shown(path) for path in missing if exists(spark, path)]
    if lost:
        raise NoJournalsError(
            f"A process of Spark's did not find {', '.join(lost[:3])}, which is there: "
            "all machines must have the journals under the same paths."
        )


def _forget_moved(spark: SparkSession, warehouse: Warehouse, present: Collection[str]) -> None:
    """Count files no more that are there under another path, as packed or moved ones are."""
    state = warehouse.claim("run")
    known = state.get("segments", {})
    by_name: dict[str, list[str]] = {}
    for path in known.keys() & set(present):
        by_name.setdefault(plain_name(path), []).append(path)
    gone = [path for path in known.keys() - set(present) if plain_name(path) in by_name]
    pairs = [
        (path, other)
        for path in gone
        if not exists(spark, path)
        for other in by_name[plain_name(path)]
    ]
    moved = _contained(warehouse.fitting().bronze(), pairs) if pairs else None
    if moved:
        # The tables have to be made again: that counts as a run, which read nothing.
        state["runs"] += 1
        warehouse.drop(piece_of_run(state["runs"]))
        state["segments"] = {path: mark for path, mark in known.items() if path not in moved}
        state["stale"] += [[path, known[path][2]] for path in sorted(moved)]
        warehouse.note(state)


def _contained(bronze: DataFrame, pairs: Sequence[tuple[str, str]]) -> set[str]:
    """The first files of pairs all of whose lines are in the second one."""
    asked = bronze.sparkSession.createDataFrame(list(pairs), "old STRING, new STRING")
    lines = bronze.where("digest IS NOT NULL").select("segment", "digest")
    old = lines.join(F.broadcast(asked), F.col("segment") == F.col("old")).drop("segment")
    new = lines.join(F.broadcast(asked), F.col("segment") == F.col("new")).drop("segment")
    lacking = old.join(new, ["old", "new", "digest"], how="left_anti").select("old", "new")
    found = {tuple(row) for row in lacking.distinct().collect()}
    return {pair[0] for pair in pairs if pair not in found}


def read_ends(spark: SparkSession, path: str) -> DataFrame:
    """Read partitions' ends: CSV with the columns topic, partition, ts and offset."""
    return spark.read.csv(path, header=True, schema=ENDS)


def _find(
    spark: SparkSession,
    journals: Sequence[str],
    warehouse: Warehouse,
    on_stage: Callable[[str], None],
) -> _Journals:
    """Find the files of journals; one that is named by itself is read whatever it is called."""
    on_stage("looking for journals")
    found: dict[str, tuple[int, int]] = {}
    others = []
    for journal in journals:
        files = list_files(spark, journal)
        if files is None:
            raise NoJournalsError(f"There is no {', '.join(journals)}.")
        paths = {file.path for file in files}
        for file in files:
            plain = without_compression(file.path)
            if not file.is_named and plain != file.path and plain in paths:
                continue  # there as it was, too, and perhaps still being compressed
            if file.is_named or _SEGMENT.fullmatch(file.name):
                found[file.path] = file.size, file.changed_ms
            elif not file.name.startswith((".", "_")) and not warehouse.files.holds(file.path):
                others.append(shown(file.path))
    if not found:
        raise NoJournalsError(f"There are no journals in {', '.join(journals)}.")
    return _Journals(tuple(journals), dict(sorted(found.items())), tuple(sorted(others)))


# -- reading -----------------------------------------------------------------------------------


def _add(warehouse: Warehouse, piece: str, spark: SparkSession, sizes: Mapping[str, int]) -> Unread:
    """Read files."""
    stored = warehouse.add_files(piece, sizes)
    if stored is not None:
        return stored
    has_packed = any(map(compression_of, sizes))
    try:
        with _without_traces(spark) if has_packed else contextlib.nullcontext():
            warehouse.add_lines(piece, read_files(spark, sizes))
            return Unread()
    except FAILURES:
        there = {path: size for path, size in sizes.items() if exists(spark, path)}
        if len(there) < len(sizes):
            # A node deletes old files, and others pack or move them, while they are being read.
            return _add(warehouse, piece, spark, there)
        with _without_traces(spark):
            damaged = [path for path in sizes if _is_damaged(spark, path)]
        if not damaged:
            raise
    warehouse.add_lines(piece, read_files(spark, sizes, damaged))
    return Unread(tuple(damaged))


def _is_damaged(spark: SparkSession, segment: str) -> bool:
    """Whether a compressed file can't be unpacked to its end."""
    if compression_of(segment):
        try:
            read_text(spark, [segment]).agg(F.count("value")).collect()
        except FAILURES:
            return True
    return False


@contextlib.contextmanager
def _without_traces(spark: SparkSession) -> Iterator[None]:
    """Keep Java's traces of jobs that fail from the terminal: what failed is raised, or told."""
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("ERROR")
