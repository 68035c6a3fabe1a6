"""From bronze to one row for each group: the lines that tell its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import each_once, segments
from coterie_testing.replay import STEPS_MAX

__all__ = ["Bounds", "histories"]

#: What a history is read out of.
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
    """How much of a history is replayed."""

    #: Only lines that were written from then on, and before then.
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
    readable = each_once(bronze, segments(bronze))
    about = readable.where(F.col("kind").isin(*_KINDS))
    if groups:
        about = about.where(F.col("group").isin(*groups))
    told = about.transform(lambda lines: _of_groups(lines, bounds))
    if groups:
        named = spark.createDataFrame([(group,) for group in groups], "group STRING")
        told = named.join(told, on="group", how="left")
    return told.crossJoin(F.broadcast(_of_nodes(readable, bounds))).select(
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
    """What nodes tell of themselves and of topics: one row."""
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
