"""The lines of journals as a whole: each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.parsing import UNREAD
from coterie_pipeline.steps.survey import Segment

__all__ = ["each_once", "in_force", "is_kind", "of_entangled", "of_groups", "readable"]

#: Of so many groups, each is named in a query.
_NAMED_MAX: Final = 500


def is_kind(*kinds: str) -> Column:
    """Lines of one of these kinds."""
    return F.col("kind").isin(*kinds)


def readable(bronze: DataFrame) -> DataFrame:
    """The lines that can be taken into account."""
    return bronze.where(F.col("part") != UNREAD)


def of_entangled(good: DataFrame, segments: Iterable[Segment]) -> DataFrame:
    """The lines of entangled files."""
    return good.join(F.broadcast(_entangled(good, segments)), ["node", "segment"], how="left_semi")


def of_groups(rows: DataFrame, groups: Sequence[str], *, is_other: bool = False) -> DataFrame:
    """The rows about some groups, or about all others."""
    if len(groups) <= _NAMED_MAX:
        is_named = F.col("group").isin(*groups)
        return rows.where(~is_named if is_other else is_named)
    named = rows.sparkSession.createDataFrame([(group,) for group in groups], "`group` STRING")
    return rows.join(F.broadcast(named), "group", how="left_anti" if is_other else "left_semi")


def in_force(rows: DataFrame, segments: Iterable[Segment]) -> DataFrame:
    """The rows of lines that are of no former life of their node; see `survey`."""
    voids = [(it.node, it.segment, it.void_from) for it in segments if it.void_from is not None]
    if not voids:
        return rows
    of_former = rows.sparkSession.createDataFrame(
        voids, "node STRING, segment STRING, void_from BIGINT"
    )
    is_void = F.coalesce(F.col("seq") >= F.col("void_from"), F.lit(False))
    known = rows.join(F.broadcast(of_former), ["node", "segment"], how="left")
    return known.where(~is_void).drop("void_from")


def each_once(bronze: DataFrame, segments: Sequence[Segment]) -> DataFrame:
    """The lines that can be taken into account, each number of a node once.

    A file may be given twice, plain and compressed, and within one file a number may be used twice:
    then the later line counts.  Only entangled files need a closer look.
    """
    good = in_force(readable(bronze), segments)
    doubtful = [each for each in segments if each.is_entangled]
    if not doubtful:
        return good
    latest_first = Window.partitionBy("node", "seq").orderBy(
        F.desc(_file_name()), F.desc("ts"), F.desc("digest"), F.desc("segment")
    )
    once = (
        of_entangled(good, doubtful)
        .withColumn("copy", F.row_number().over(latest_first))
        .where("copy = 1")
        .drop("copy")
    )
    entangled = F.broadcast(_entangled(good, doubtful))
    others = good.join(entangled, ["node", "segment"], how="left_anti")
    return others.unionByName(once)


def _entangled(lines: DataFrame, segments: Iterable[Segment]) -> DataFrame:
    names = [(each.node, each.segment) for each in segments if each.is_entangled]
    return lines.sparkSession.createDataFrame(names, "node STRING, segment STRING")


def _file_name() -> Column:
    return F.element_at(F.split("segment", "/"), -1)
