"""How advice is put into words and rows."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.tables import ADVICE

__all__ = ["advise", "count_of", "partition_name", "partition_seconds", "seconds"]


def advise(
    rows: DataFrame,
    rule: str,
    severity: str,
    sentence: Column,
    evidence: Mapping[str, Column],
) -> DataFrame:
    """Rows of the table, of rows that have at least from_ms and to_ms.

    `group` and `about` are empty, and `saves_partition_ms` is null, if the rows do not have them.
    """
    defaults = {
        "group": F.lit(""),
        "about": F.lit(""),
        "saves_partition_ms": F.lit(None).cast("bigint"),
    }
    missing = {name: value for name, value in defaults.items() if name not in rows.columns}
    entries = [part for name, value in evidence.items() for part in (F.lit(name), _text(value))]
    return rows.withColumns(
        {
            **missing,
            "rule": F.lit(rule),
            "severity": F.lit(severity),
            "sentence": sentence,
            "evidence": F.create_map(*entries),
        }
    ).select(*(F.col(column.name).cast(column.type) for column in ADVICE.columns))


def seconds(ms: Column) -> Column:
    """A time as people read it: `0.025 s`, `3.1 s`, `180 s`."""
    value = ms / 1000
    return (
        F.when(value < 1, F.format_string("%.3f s", value))
        .when(value < 100, F.format_string("%.1f s", value))
        .otherwise(F.format_string("%,.0f s", value))
    )


def partition_seconds(ms: Column) -> Column:
    """A time that is added up over partitions."""
    return F.format_string("%,.1f partition-seconds", ms / 1000)


def count_of(number: Column, one: str, many: str) -> Column:
    """A number with its noun: `1 member`, `2 members`."""
    noun = F.when(number == 1, one).otherwise(many)
    return F.format_string("%,d %s", number.cast("bigint"), noun)


def partition_name(of: str = "") -> Column:
    """A partition as logs write it: `orders[3]`."""
    return F.format_string("%s[%d]", F.col(f"{of}topic"), F.col(f"{of}partition"))


def _text(value: Column) -> Column:
    return F.coalesce(value.cast("string"), F.lit("unknown"))
