"""Advice as people read it: the worst first, and pieces that are alike as one with a count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from coterie_pipeline.report.model import Advice, Some
from coterie_pipeline.report.queries import grouped, row_of

__all__ = ["advice_of_all", "advice_of_groups"]

_SEVERITIES: Final = ("wrong", "costly", "note")

_WEIGHT: Final = ("weight", "saves_order", "group", "rule", "about", "sentence")

#: How many of the pieces that are not shown are named.
_NAMED: Final = 3


def advice_of_all(advice: DataFrame) -> tuple[Advice, ...]:
    """One piece for each rule, over all groups."""
    both = "concat_ws(': ', nullif(`group`, ''), nullif(about, ''))"
    return tuple(map(_advice, _alike(advice, ["rule"], both).collect()))


def advice_of_groups(advice: DataFrame, groups: Sequence[str]) -> Mapping[str, tuple[Advice, ...]]:
    """One piece for each rule, of each of these groups that has any."""
    own = advice.where(F.col("group").isin(list(groups)))
    rows = _alike(own, ["group", "rule"], "about").collect()
    return {group: tuple(map(_advice, its)) for group, its in grouped(rows).items()}


def _alike(advice: DataFrame, key: Sequence[str], name: str) -> DataFrame:
    """The first piece of each key, with the number of pieces and the names of some others."""
    order = F.struct(*(F.col(column) for column in _WEIGHT))
    named = _weighed(advice).withColumn("name", F.expr(name))
    return (
        named.groupBy(*(F.col(column).alias(f"key_{column}") for column in key))
        .agg(
            F.min_by(F.struct("*"), order).alias("first"),
            F.count(F.lit(1)).alias("times"),
            F.count_distinct("group").alias("groups"),
            F.array_sort(F.collect_set("name")).alias("names"),
        )
        .selectExpr(
            "first.*",
            "times - 1 AS others",
            "groups",
            f"slice(filter(names, each -> each NOT IN (first.name, '')), 1, {_NAMED}) AS names",
        )
        .orderBy(*_WEIGHT)
    )


def _weighed(advice: DataFrame) -> DataFrame:
    """Add the columns that sort advice: the worst first, then what saves most."""
    weight = reduce(
        lambda rest, index: F.when(F.col("severity") == _SEVERITIES[index], index).otherwise(rest),
        range(len(_SEVERITIES)),
        F.lit(len(_SEVERITIES)),
    )
    return advice.withColumns(
        {"weight": weight, "saves_order": -F.coalesce("saves_partition_ms", F.lit(-1))}
    )


def _advice(row: Row) -> Advice:
    evidence = tuple(sorted((key, value or "") for key, value in (row["evidence"] or {}).items()))
    alike = Some(row["others"], tuple(row["names"]))
    return row_of(Advice, row, evidence=evidence, alike=alike)
