"""Replaying the control lines of groups in Spark: each group's in one task, in plain Python.

One pass gives the rows of several tables.  It makes one row for each of them, with a column for
each kind of row, of which one is not null.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from coterie_pipeline.schema import struct_of
from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.parsing import COMMITS, CONTROL
from coterie_pipeline.tables import FAULTS, OWNERSHIP, REBALANCES, SESSIONS
from coterie_protocol.journal import JournalError, read_values
from coterie_protocol.replay import GroupLines, Source, replay_group

__all__ = ["LINE_COLUMNS", "OUTPUTS", "by_group", "groups_of", "output", "replayed"]

#: What comes out, by the name of the column, with its own columns.
OUTPUTS: Final[Mapping[str, str]] = {
    REBALANCES.name: f"{REBALANCES.ddl}, horizon_ms BIGINT",
    OWNERSHIP.name: OWNERSHIP.ddl,
    FAULTS.name: FAULTS.ddl,
    SESSIONS.name: SESSIONS.ddl,
    "refusals": "`group` STRING, instance STRING, host STRING, holder_host STRING, at BIGINT",
    "clocks": "node STRING, behind_ms BIGINT",
}

#: The columns of a line that replaying takes.
LINE_COLUMNS: Final = ("group", "node", "seq", "ts", "line")

#: How many rows are handed to Spark at once.
_BATCH_ROWS: Final = 2_000

Batches = Iterator[pa.RecordBatch]


def replayed(once: DataFrame, deleted_ms: Mapping[str, Sequence[int]]) -> DataFrame:
    """All that the lines of groups tell; each line is there once.

    `deleted_ms` has the times at which each topic was deleted, the earliest first.
    """
    about_groups = once.where("`group` != ''")
    control = about_groups.where(F.col("part") == CONTROL).select(*LINE_COLUMNS)
    horizons = (
        about_groups.where(F.col("part") == COMMITS)
        .groupBy("group")
        .agg(F.max("ts").alias("ts"))
        .selectExpr("`group`", "STRING(NULL) AS node", "BIGINT(NULL) AS seq", "ts", "NULL AS line")
    )
    lines = control.unionByName(horizons)
    schema = ", ".join(f"{name} STRUCT<{_fields(ddl)}>" for name, ddl in OUTPUTS.items())
    deleted = {topic: list(times) for topic, times in deleted_ms.items()}
    return by_group(lines).mapInArrow(_replaying(deleted), schema)


def output(found: DataFrame, name: str) -> DataFrame:
    """One of the outputs."""
    return found.where(F.col(name).isNotNull()).select(f"{name}.*")


def _fields(ddl: str) -> str:
    """Columns as the fields of a struct."""
    return ", ".join(f"`{field.name}`: {field.dataType.simpleString()}" for field in struct_of(ddl))


def by_group(lines: DataFrame) -> DataFrame:
    """Each group's lines in one place, by node and number."""
    spark = lines.sparkSession
    # With a number of its own, as Spark would put small groups into one task, and so one process.
    apart = lines if is_quick(spark) else lines.repartition(_tasks(spark), "group")
    return apart.sortWithinPartitions("group", "node", "seq")


def _tasks(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism


def _replaying(deleted_ms: Mapping[str, Sequence[int]]) -> Callable[[Batches], Batches]:
    types = {name: arrow_type(ddl) for name, ddl in OUTPUTS.items()}

    def run(batches: Batches) -> Batches:
        horizons_ms: dict[str, int] = {}
        for name, rows in _batched(
            row
            for group, lines in groups_of(batches, horizons_ms)
            for row in replay_group(group, lines, deleted_ms, horizons_ms.get(group, 0))
        ):
            yield _batch(types, name, rows)

    return run


def arrow_type(ddl: str) -> pa.DataType:
    """Columns as one column of structs."""
    return pa.struct(list(to_arrow_schema(struct_of(ddl))))


def groups_of(batches: Batches, horizons_ms: dict[str, int]) -> Iterator[tuple[str, GroupLines]]:
    """The lines of each group.

    A group's first row may have no line, but the time of the last line of other kinds: that is put
    into `horizons_ms`.
    """
    name: str | None = None
    found = GroupLines()
    for group, node, seq, ts, line in _rows(batches):
        if group != name:
            if name is not None:
                yield name, found
            name, found = group, GroupLines()
        if line is None:
            horizons_ms[group] = ts
        else:
            with contextlib.suppress(JournalError):  # an earlier version may have taken it
                found.add(Source(node, seq, ts, read_values(line), len(line)))
    if name is not None:
        yield name, found


def _rows(batches: Batches) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batched(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Rows of each kind together."""
    waiting: dict[str, list[Any]] = {name: [] for name in OUTPUTS}
    for name, row in found:
        rows = waiting[name]
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            yield name, rows
            waiting[name] = []
    yield from ((name, rows) for name, rows in waiting.items() if rows)


def _batch(types: Mapping[str, pa.DataType], name: str, rows: list[Any]) -> pa.RecordBatch:
    columns = [
        pa.array(rows, type_) if each == name else pa.nulls(len(rows), type_)
        for each, type_ in types.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(types))
