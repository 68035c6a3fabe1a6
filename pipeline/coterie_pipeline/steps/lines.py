"""The lines of journals as a whole: each once, each group's in one order."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

__all__ = [
    "after",
    "before",
    "each_once",
    "in_order",
    "is_kind",
    "of_entangled",
    "segments",
    "so_far",
]

_BEFORE_ALL: Final = -1

#: For products of 64-bit numbers.
_WIDE: Final = "decimal(38,0)"


def is_kind(*kinds: str) -> Column:
    """Lines of one of these kinds."""
    return F.col("kind").isin(*kinds)


def before() -> WindowSpec:
    """A group's lines before a line."""
    return _group_order().rowsBetween(Window.unboundedPreceding, -1)


def so_far() -> WindowSpec:
    """A group's lines up to a line."""
    return _group_order().rowsBetween(Window.unboundedPreceding, 0)


def after() -> WindowSpec:
    """A group's lines after a line."""
    return _group_order().rowsBetween(1, Window.unboundedFollowing)


def _group_order() -> WindowSpec:
    return Window.partitionBy("group").orderBy("pos")


def segments(bronze: DataFrame) -> DataFrame:
    """Each file of each node: its numbers from `low` to `high`, and whether it is entangled.

    A file is entangled if some of its numbers may be there twice, within it or in another file, or
    if some between its first and last one are missing.  Nearly no file is.
    """
    by_range = Window.partitionBy("node").orderBy("low", "high", "segment")
    lower = by_range.rowsBetween(Window.unboundedPreceding, -1)
    count = F.col("high") - F.col("low") + 1
    # The count and the sum are those of all numbers from the lowest to the highest.
    right_sum = (F.col("low") + F.col("high")).cast(_WIDE) * count / 2
    is_regular = (F.col("lines") == count) & (F.col("sum") == right_sum)
    overlaps = (F.max("high").over(lower) >= F.col("low")) | (
        F.lead("low").over(by_range) <= F.col("high")
    )
    return (
        bronze.where("why is null")
        .groupBy("node", "segment")
        .agg(
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
            F.count("seq").alias("lines"),
            F.try_sum("seq").alias("sum"),
        )
        .withColumn(
            "is_entangled",
            ~F.coalesce(is_regular, F.lit(False)) | F.coalesce(overlaps, F.lit(False)),
        )
        .select("node", "segment", "low", "high", "is_entangled")
    )


def of_entangled(good: DataFrame, segments: DataFrame) -> DataFrame:
    """The lines of entangled files."""
    entangled = segments.where("is_entangled")
    return good.join(F.broadcast(entangled), ["node", "segment"], how="left_semi")


def each_once(bronze: DataFrame, segments: DataFrame) -> DataFrame:
    """The lines that can be taken into account, each number of a node once.

    A file may be given twice, plain and compressed, and a number may be used twice, if its first
    line was torn: then the line in the later file counts.  Only entangled files need a closer look.
    """
    good = bronze.where("why is null")
    latest_first = Window.partitionBy("node", "seq").orderBy(
        F.desc(_file_name()), F.desc("digest"), F.desc("segment")
    )
    once = (
        of_entangled(good, segments)
        .withColumn("copy", F.row_number().over(latest_first))
        .where("copy = 1")
        .drop("copy")
    )
    entangled = segments.where("is_entangled")
    others = good.join(F.broadcast(entangled), ["node", "segment"], how="left_anti")
    return others.unionByName(once)


def _file_name() -> Column:
    return F.element_at(F.split("segment", "/"), -1)


def in_order(control: DataFrame) -> DataFrame:
    """The lines about groups in each group's order, as `pos`, with a time that never goes back.

    Within one node the numbers give the order.  Between nodes, whose clocks may disagree, the
    group's generation does, as it never goes back, and within a generation the fences under which
    they read it.
    """
    of_node = Window.partitionBy("group", "node").orderBy("seq")
    stint = Window.partitionBy("group", "node", "stint").orderBy("seq")
    whole_stint = stint.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    order = Window.partitionBy("group").orderBy(
        "stint_generation", "stint_fence", "stint_ts", "node", "stint_seq", "seq"
    )
    begins = F.when(F.col("kind") == "group_recovered", 1).otherwise(0)
    return (
        control.where(F.col("group") != "")
        .withColumn("stint", F.sum(begins).over(of_node))
        .withColumn("clock", F.max("ts").over(of_node))
        .withColumns(
            {
                "stint_generation": F.coalesce(
                    F.first("generation", ignorenulls=True).over(whole_stint), F.lit(_BEFORE_ALL)
                ),
                "stint_fence": F.coalesce(F.first("fence").over(whole_stint), F.lit(0)),
                "stint_ts": F.first("clock").over(whole_stint),
                "stint_seq": F.first("seq").over(whole_stint),
            }
        )
        .withColumns(
            {
                "pos": F.row_number().over(order).cast("bigint"),
                "at": F.max("ts").over(order.rowsBetween(Window.unboundedPreceding, 0)),
            }
        )
        .drop("stint", "clock", "stint_generation", "stint_fence", "stint_ts", "stint_seq")
    )
