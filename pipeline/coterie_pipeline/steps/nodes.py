"""The tables `nodes` and `unread`: missing and repeated lines, clocks that are off."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import before, is_kind, of_entangled
from coterie_pipeline.steps.parsing import CONTROL
from coterie_pipeline.tables import NODES, UNREAD

__all__ = ["nodes", "unread"]

#: How much of a line that can't be read is shown.
_EXCERPT_CHARACTERS: Final = 120


def nodes(bronze: DataFrame, segments: DataFrame, once: DataFrame, ordered: DataFrame) -> DataFrame:
    """The table `nodes`."""
    entangled = of_entangled(bronze.where("why is null"), segments)
    return (
        once.groupBy("node")
        .agg(
            F.count("seq").alias("lines"),
            F.min("ts").alias("first_ms"),
            F.max("ts").alias("last_ms"),
        )
        .join(_copies(entangled), "node", how="left")
        .join(_numbers(_ranges(bronze, segments, entangled)), "node", how="left")
        .join(_starts(once), "node", how="left")
        .join(_set_back(once), "node", how="left")
        .join(_behind(ordered), "node", how="left")
        .select(*(_or_zero(column.name, column.type) for column in NODES.columns))
    )


def _or_zero(name: str, type_: str) -> Column:
    return F.coalesce(name, F.lit(0).cast(type_)).alias(name) if type_ == "BIGINT" else F.col(name)


def _copies(entangled: DataFrame) -> DataFrame:
    """By node, how many lines were repeated, and how many numbers had different lines."""
    return (
        entangled.groupBy("node", "seq")
        .agg(F.count("digest").alias("copies"), F.count_distinct("digest").alias("texts"))
        .groupBy("node")
        .agg(
            F.sum(F.col("copies") - F.col("texts")).alias("duplicates"),
            F.sum(F.when(F.col("texts") > 1, 1).otherwise(0)).alias("conflicts"),
        )
    )


def _ranges(bronze: DataFrame, segments: DataFrame, entangled: DataFrame) -> DataFrame:
    """The numbers that are present, as ranges from `low` to `high`: whole files, and single lines.

    Lines that can't be read are not missing.
    """
    unread = bronze.where("why is not null and node is not null and seq is not null")
    lines = entangled.select("node", "seq").unionByName(unread.select("node", "seq"))
    files = segments.where("not is_entangled").select("node", "low", "high")
    return files.unionByName(
        lines.select("node", F.col("seq").alias("low"), F.col("seq").alias("high"))
    )


def _numbers(ranges: DataFrame) -> DataFrame:
    """By node, the first and last number, and how many are missing between them."""
    before = (
        Window.partitionBy("node").orderBy("low", "high").rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        ranges.withColumn("lost", F.col("low") - F.max("high").over(before) - 1)
        .groupBy("node")
        .agg(
            F.min("low").alias("first_seq"),
            F.max("high").alias("last_seq"),
            F.sum(F.greatest("lost", F.lit(0))).alias("missing"),
            F.sum(F.when(F.col("lost") > 0, 1).otherwise(0)).alias("gaps"),
        )
    )


def _starts(once: DataFrame) -> DataFrame:
    """How often each node started, and how often it had not stopped before."""
    former = F.lag("kind").over(Window.partitionBy("node").orderBy("seq"))
    is_start = is_kind("node_started")
    return (
        once.where(is_kind("node_started", "node_stopped"))
        .withColumn("is_crash", is_start & F.coalesce(former == "node_started", F.lit(False)))
        .groupBy("node")
        .agg(
            F.sum(is_start.cast("bigint")).alias("starts"),
            F.sum(F.col("is_crash").cast("bigint")).alias("crashes"),
        )
    )


def _set_back(once: DataFrame) -> DataFrame:
    """How far each node's clock went back."""
    so_far = Window.partitionBy("node").orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
    return (
        once.where(F.col("part") == CONTROL)
        .withColumn("back_ms", F.max("ts").over(so_far) - F.col("ts"))
        .groupBy("node")
        .agg(F.max("back_ms").alias("clock_back_ms"))
    )


def _behind(ordered: DataFrame) -> DataFrame:
    """How far each node's clock is behind those from which it took over groups."""
    by_node = F.struct("ts", "node")
    return (
        ordered.withColumn("latest", F.max(by_node).over(before()))
        .where(F.col("latest.node") != F.col("node"))
        .withColumn("behind_ms", F.greatest(F.col("latest.ts") - F.col("ts"), F.lit(0)))
        .groupBy("node")
        .agg(F.max("behind_ms").alias("clock_behind_ms"))
    )


def unread(bronze: DataFrame) -> DataFrame:
    """The table `unread`."""
    return (
        bronze.where("why is not null")
        .withColumn("excerpt", F.substring("line", 1, _EXCERPT_CHARACTERS))
        .select(*UNREAD.names)
    )
