"""Small helpers for the queries that collect a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

__all__ = ["first", "grouped", "row_of", "summed", "text"]


M = TypeVar("M")


def row_of(model: type[M], row: Row, **more: object) -> M:
    """A row as a dataclass, each field from the column of its name or from `more`.

    Text that is null becomes empty, as a report shows nothing for either.
    """
    # As text, for annotations are not evaluated there.
    types = {field.name: field.type for field in dataclasses.fields(model)}  # type: ignore[arg-type]
    found = {name: row[name] for name in types if name not in more}
    empty = {name: "" for name, value in found.items() if value is None and types[name] == "str"}
    return model(**found | empty | more)


def grouped(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """Rows by their group, in their order."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)
    return by_group


def text(name: str) -> Column:
    """A column of text, without null."""
    return F.coalesce(F.col(name), F.lit("")).alias(name)


def first(
    most: int, key: Sequence[str], order: Sequence[Column]
) -> Callable[[DataFrame], DataFrame]:
    """Keep the first so many rows of each key, with their `place` and how many there are `in_all`.

    The order must be total.
    """
    window = Window.partitionBy(*key)

    def keep(rows: DataFrame) -> DataFrame:
        return rows.withColumns(
            {
                "place": F.row_number().over(window.orderBy(*order)),
                "in_all": F.count(F.lit(1)).over(window),
            }
        ).where(F.col("place") <= most)

    return keep


def summed(parts: Sequence[DataFrame], key: Sequence[str], figures: Sequence[str]) -> DataFrame:
    """Sum figures by key over several frames, each of which has some of the columns.

    This takes no join, so a key that only one frame has is kept.
    """

    def filled(part: DataFrame) -> DataFrame:
        known = set(part.columns)
        return part.select(
            *key,
            *(
                (F.col(name) if name in known else F.lit(0)).cast("bigint").alias(name)
                for name in figures
            ),
        )

    together = reduce(DataFrame.unionByName, map(filled, parts))
    return together.groupBy(*key).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in figures)
    )
