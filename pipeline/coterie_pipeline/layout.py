"""How a table's rows are laid out in files: as they come, or by day, so that readers skip most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

__all__ = ["BY_DAY", "DAY", "Counted", "folder_of", "is_by_day", "write_table"]

#: The setting of Spark that lays tables out by day.
BY_DAY: Final = "spark.coterie.tables.byDay"

#: The folders into which a table is divided then: `day=2026-11-23`.
DAY: Final = "day"

#: The time that decides; the other tables are small.
_TIMES: Final[Mapping[str, str]] = {
    "rebalances": "started_ms",
    "ownership": "from_ms",
    "ownership_faults": "from_ms",
    "member_sessions": "coalesce(joined_ms, ended_ms, 0)",
    "commits": "hour_ms",
    "group_health": "hour_ms",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """What is to be counted of the rows of a table while they are written."""

    observation: Observation
    columns: Sequence[Column]


def write_table(
    name: str,
    rows: DataFrame,
    path: str,
    counted: Counted | None = None,
    *,
    buckets: int | None = None,
) -> None:
    """Write a table.

    By day, a reader of some days opens only their folders.  Groups that are next to each other in
    the alphabet share files and are sorted in them, so that a reader of one group skips the other
    files, and most of that one, by the statistics in them.

    With `buckets`, the number of a file is its bucket, in each folder: all rows of a group are in
    files of one number.
    """
    is_divided = name in _TIMES and is_by_day(rows.sparkSession)
    order = (DAY, "group") if is_divided else ("group",)
    if is_divided:
        rows = rows.withColumn(DAY, F.expr(f"string(date(timestamp_millis({_TIMES[name]})))"))
    if buckets is not None:
        rows = rows.repartition(buckets, "group").sortWithinPartitions(*order)
    elif is_divided:
        rows = rows.repartitionByRange(*order).sortWithinPartitions(*order)
    if counted is not None:
        # Here, as dividing rows by ranges reads them twice.
        rows = rows.observe(counted.observation, *counted.columns)
    writer = rows.write.mode("overwrite")
    (writer.partitionBy(DAY) if is_divided else writer).parquet(path)


def folder_of(number: int) -> str:
    """Where the tables of a moment are."""
    return f"tables/{number:06}"


def is_by_day(spark: SparkSession) -> bool:
    """Whether a session lays tables out by day."""
    return spark.conf.get(BY_DAY, "false") == "true"
