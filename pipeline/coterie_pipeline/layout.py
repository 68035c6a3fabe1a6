"""How a table's rows are laid out in files: as they come, or by day, so that readers skip most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["BY_DAY", "DAY", "write_table"]

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


def write_table(name: str, rows: DataFrame, path: str) -> None:
    """Write a table.

    By day, a reader of some days opens only their folders.  Groups that are next to each other in
    the alphabet share files and are sorted in them, so that a reader of one group skips the other
    files, and most of that one, by the statistics in them.
    """
    if name not in _TIMES or not _is_by_day(rows.sparkSession):
        rows.write.mode("overwrite").parquet(path)
        return
    day = F.expr(f"string(date(timestamp_millis({_TIMES[name]})))")
    divided = rows.withColumn(DAY, day).repartitionByRange(DAY, "group")
    in_order = divided.sortWithinPartitions(DAY, "group")
    in_order.write.mode("overwrite").partitionBy(DAY).parquet(path)


def _is_by_day(spark: SparkSession) -> bool:
    return spark.conf.get(BY_DAY, "false") == "true"
