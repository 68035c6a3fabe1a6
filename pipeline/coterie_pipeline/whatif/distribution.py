"""What-if in Spark: a row for each group's history, and a task for each replay of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import structlog
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from coterie_pipeline.schema import struct_of
from coterie_pipeline.steps.lines import each_once
from coterie_pipeline.steps.survey import survey
from coterie_pipeline.tables import Table
from coterie_pipeline.whatif.plan import Plan
from coterie_pipeline.whatif.table import AS_RECORDED, BASELINE, RUNS, WHAT_IF
from coterie_testing.replay import STEPS_MAX, Changes

__all__ = ["Bounds", "histories", "what_if"]

#: The kinds of lines that make a history.
_KINDS: Final = (
    "member_joined",
    "member_replaced",
    "member_gone",
    "rebalance_started",
    "phase_joined",
    "rebalance_completed",
    "group_recovered",
    "group_emptied",
    "group_deleted",
)
_NODE_KINDS: Final = ("node_started", "node_stopped", "topic_changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The part of each history that is replayed."""

    #: Only lines from `since_ms` on and before `until_ms`.
    since_ms: int | None = None
    until_ms: int | None = None
    #: Of longer histories, the last lines.
    lines_max: int = 20_000
    #: Replays that take more steps are given up.
    steps_max: int = STEPS_MAX


def histories(
    spark: SparkSession, bronze: DataFrame, groups: Sequence[str], bounds: Bounds
) -> DataFrame:
    """One row for each group: `group`, `lines`, `left_out` and `node_lines`.

    Groups that are named have a row even if no line is about them.
    """
    bronze = bronze.where(F.col("line").isNotNull())
    readable = each_once(bronze, survey(bronze))
    about = readable.where(F.col("kind").isin(*_KINDS))
    if groups:
        about = about.where(F.col("group").isin(*groups))
    recorded = about.transform(lambda lines: _of_groups(lines, bounds))
    if groups:
        named = spark.createDataFrame([(group,) for group in groups], "group STRING")
        recorded = named.join(recorded, on="group", how="left")
    return recorded.crossJoin(F.broadcast(_of_nodes(readable, bounds))).select(
        "group",
        F.coalesce("lines", F.array().cast("array<string>")).alias("lines"),
        F.coalesce("left_out", F.lit(0)).cast("bigint").alias("left_out"),
        "node_lines",
    )


def _of_groups(about: DataFrame, bounds: Bounds) -> DataFrame:
    newest_first = Window.partitionBy("group", "is_inside").orderBy(
        F.desc("ts"), F.desc("node"), F.desc("seq")
    )
    counted = F.col("is_inside") & (F.col("number") <= bounds.lines_max)
    return (
        about.withColumn("is_inside", _is_inside(bounds))
        .withColumn("number", F.row_number().over(newest_first))
        .groupBy("group")
        .agg(
            F.sort_array(F.collect_list(F.when(counted, _sortable())))["line"].alias("lines"),
            F.sum(F.when(counted, 0).otherwise(1)).alias("left_out"),
        )
    )


def _of_nodes(readable: DataFrame, bounds: Bounds) -> DataFrame:
    """The lines about nodes and topics, in one row."""
    return (
        readable.where(F.col("kind").isin(*_NODE_KINDS))
        .where(F.lit(True) if bounds.until_ms is None else F.col("ts") < bounds.until_ms)
        .agg(F.sort_array(F.collect_list(_sortable()))["line"].alias("node_lines"))
    )


def _sortable() -> Column:
    return F.struct("node", "seq", "line")


def _is_inside(bounds: Bounds) -> Column:
    is_inside = F.lit(True)
    if bounds.since_ms is not None:
        is_inside = is_inside & (F.col("ts") >= bounds.since_ms)
    if bounds.until_ms is not None:
        is_inside = is_inside & (F.col("ts") < bounds.until_ms)
    return is_inside


# -- the job ---------------------------------------------------------------------------------------


_TASKS: Final = (
    "place BIGINT, setting STRING, overrides MAP<STRING, STRING>, seed BIGINT, steps_max BIGINT"
)

#: Replays take very different times, so there are more pieces than processors.
_PIECES_PER_SHUFFLE: Final = 4


def what_if(
    spark: SparkSession,
    bronze: DataFrame,
    plan: Plan,
    bounds: Bounds | None = None,
    *,
    pieces: int | None = None,
) -> DataFrame:
    """Replay the history of each group under each setting; the columns of `WHAT_IF`.

    Nothing is replayed before the result is asked for, and it may be replayed anew whenever it is
    asked for again: collect or write it once.  `pieces` is the number of parts that the work is
    divided into, by default four for each of Spark's shuffle partitions; any number gives the same
    result.
    """
    bounds = bounds or Bounds()
    runs, sums = _schema(RUNS), _schema(WHAT_IF)
    shuffles = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return (
        histories(spark, bronze, plan.groups, bounds)
        .crossJoin(F.broadcast(_tasks(spark, plan, bounds)))
        # Otherwise Spark would give so little data to a single process, but replays take long.
        .repartition(pieces or _PIECES_PER_SHUFFLE * shuffles)
        .mapInArrow(lambda batches: _play(batches, runs), RUNS.ddl)
        .groupBy("group", "place")
        .applyInArrow(lambda table: _sum(table, sums), WHAT_IF.ddl)
    )


def _tasks(spark: SparkSession, plan: Plan, bounds: Bounds) -> DataFrame:
    """The tasks for each history: one for the journal itself, and the replays."""
    recorded: list[tuple[object, ...]] = [(AS_RECORDED, "in the journal", {}, 0, bounds.steps_max)]
    replays = [
        (place, str(Changes.parse(dict(overrides))), dict(overrides), seed, bounds.steps_max)
        for place, overrides in enumerate(((), *plan.settings), BASELINE)
        for seed in range(plan.seeds)
    ]
    return spark.createDataFrame([*recorded, *replays], _TASKS)


def _play(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Replay each row; runs on executors."""
    from coterie_pipeline.whatif.replays import Task, replay_task  # noqa: PLC0415  # the simulator

    _silence()
    for batch in batches:
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield pa.RecordBatch.from_pylist([replay_task(Task(**row))], schema=schema)


def _sum(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Sum up the replays of one group under one setting; runs on executors."""
    from coterie_pipeline.whatif.replays import summarize  # noqa: PLC0415  # likewise

    row = summarize(table.to_pylist(maps_as_pydicts="strict"))
    return pa.Table.from_pylist([row], schema=schema)


def _schema(table: Table) -> pa.Schema:
    """A table's columns for Arrow; only the driver can parse them."""
    return to_arrow_schema(struct_of(table.ddl))


def _silence() -> None:
    """Keep server and client from logging, as what they log is about no real group."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
