"""How far commits are behind the ends of partitions, if these are known."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.tables import COMMITS

__all__ = ["ENDS", "with_lag"]

_HOUR_MS: Final = 3_600_000
_OFFSET_MOST: Final = 2**62 - 1

#: Known ends of partitions: the offset at which a partition ended at a time.
ENDS: Final = "topic STRING, partition BIGINT, ts BIGINT, offset BIGINT"


def with_lag(hours: DataFrame, ends: DataFrame) -> DataFrame:
    """The table `commits`, with the ends of partitions; these have columns as in `ENDS`."""
    by_hour = (
        ends.withColumn("hour_ms", F.col("ts") - F.col("ts") % _HOUR_MS)
        .groupBy("topic", "partition", "hour_ms")
        .agg(F.max_by("offset", F.struct("ts", "offset")).alias("end_offset"))
    )
    # Differences have 64 bits, even if a member tried any number.
    near = "greatest(least({}, {most}), -{most})"
    end, last = (near.format(name, most=_OFFSET_MOST) for name in ("end_offset", "last_offset"))
    return (
        hours.drop("end_offset", "lag")
        .join(by_hour, ["topic", "partition", "hour_ms"], how="left")
        .withColumn("lag", F.expr(f"if(end_offset IS NULL, NULL, greatest({end} - {last}, 0))"))
        .select(*COMMITS.names)
    )
