"""From journals to tables, once; only new files are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F

from coterie_pipeline.session import is_local, quick_session
from coterie_pipeline.steps import parse
from coterie_pipeline.steps.commits import ENDS
from coterie_pipeline.warehouse import Moment, Warehouse

__all__ = ["NoJournalsError", "Reading", "RunResult", "read_ends", "read_new", "run"]

#: The names of a node's files, plain and compressed.
_SEGMENTS: Final = "journal-*.jsonl{,.gz,.zst}"


#: Less text than this is read sooner than code for it is generated.
_LITTLE_BYTES: Final = 16 * 1024 * 1024


class NoJournalsError(Exception):
    """There are no journals to read; the message names the paths."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How many files were found, and how many of them were read this time."""

    segments: int
    fresh: int


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
    """Read what is new in the journals, and make the tables again if anything is.

    Raises `NoJournalsError` if there are none, and `WrongLayoutError` if `out` holds something
    else.
    """
    reading = read_new(spark, journals, out, on_stage)
    warehouse = Warehouse(spark, out)
    latest = warehouse.latest()
    if reading.fresh or latest is None or ends is not None:
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
    on_stage("looking for journals")
    found = _segments(spark, journals)
    if not found:
        raise NoJournalsError(f"There are no journals in {', '.join(journals)}.")
    state = warehouse.claim("run")
    known: dict[str, list[object]] = state.get("segments", {})
    fresh = [path for path, mark in found.items() if known.get(path, [None])[:2] != list(mark)]
    if fresh:
        on_stage(f"reading {len(fresh)} files")
        runs = state.get("runs", 0) + 1
        piece = f"run-{runs:06}"
        is_little = is_local(spark) and sum(found[path][0] for path in fresh) < _LITTLE_BYTES
        reader = quick_session(spark) if is_little else spark
        warehouse.add(piece, parse(_lines(reader, fresh)))
        # A file that has grown is read as a whole, so what was read of it before no longer counts.
        stale = [[path, known[path][2]] for path in fresh if path in known]
        state["segments"] = known | {path: [*found[path], piece] for path in fresh}
        state["stale"] = [*state.get("stale", []), *stale]
        state["runs"] = runs
        warehouse.note(state)
    return Reading(len(found), len(fresh))


def read_ends(spark: SparkSession, path: str) -> DataFrame:
    """Read partitions' ends: CSV with the columns topic, partition, ts and offset."""
    return spark.read.csv(path, header=True, schema=ENDS)


def _segments(spark: SparkSession, journals: Sequence[str]) -> Mapping[str, tuple[int, int]]:
    """The size and modification time of each file."""
    files = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", _SEGMENTS)
    )
    try:
        found = files.load(list(journals)).select(
            F.col("_metadata.file_path").alias("path"),
            F.col("_metadata.file_size").alias("size"),
            F.unix_millis("_metadata.file_modification_time").alias("changed_ms"),
        )
        return {row.path: (row.size, row.changed_ms) for row in found.orderBy("path").collect()}
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise NoJournalsError(f"There is no {', '.join(journals)}.") from error


def _lines(spark: SparkSession, segments: Sequence[str]) -> DataFrame:
    paths = [unquote(path) for path in segments]
    return (
        spark.read.option("lineSep", "\n")
        .text(paths)
        .select(F.col("_metadata.file_path").alias("segment"), "value")
    )
