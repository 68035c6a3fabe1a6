"""The lines of journals as a whole: each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.parsing import UNREAD
from coterie_pipeline.steps.survey import Segment

__all__ = ["each_once", "is_kind", "of_entangled", "of_groups", "readable"]

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


def each_once(bronze: DataFrame, segments: Iterable[Segment]) -> DataFrame:
    """The lines that can be taken into account, each number of a node once.

    A file may be given twice, plain and compressed, and a number may be used twice, by two nodes of
    one name: then the line in the later file counts.  Only entangled files need a closer look.
    """
    good = readable(bronze)
    doubtful = [each for each in segments if each.is_entangled]
    if not doubtful:
        return good
    latest_first = Window.partitionBy("node", "seq").orderBy(
        F.desc(_file_name()), F.desc("digest"), F.desc("segment")
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
