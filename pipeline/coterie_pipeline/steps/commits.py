"""The table `commits`: progress, lag, and offsets that went back, by partition and hour."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.session import is_quick
from coterie_pipeline.tables import COMMITS

__all__ = ["ENDS", "commits"]

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_MOST: Final = 2**63 - 1
_OFFSET_MOST: Final = 2**62 - 1
_KEY: Final = ["group", "topic", "partition"]

#: Known ends of partitions: the offset at which a partition ended at a time.
ENDS: Final = "topic STRING, partition BIGINT, ts BIGINT, offset BIGINT"


def commits(lines: DataFrame, ends: DataFrame) -> DataFrame:
    """The table; `ends` has columns as in `ENDS`."""
    hours = lines.transform(_steps).transform(_by_hour)
    return _with_lag(hours, ends).select(*COMMITS.names)


def _steps(lines: DataFrame) -> DataFrame:
    """Every commit of a partition, with the offset before it."""
    one = (
        lines.select("group", "node", "seq", "ts", "member", "offsets_committed_offsets")
        .transform(_by_group)
        .select(
            *("group", "node", "seq", "ts", "member"),
            F.explode("offsets_committed_offsets").alias("topic", "offsets"),
        )
        .select(
            *("group", "node", "seq", "ts", "member", "topic"),
            F.explode("offsets").alias("number", "offset"),
        )
        .select(
            *("group", "node", "seq", "ts", "member", "topic", "offset"),
            F.col("number").try_cast("bigint").alias("partition"),
        )
        # An earlier version may have taken lines with other names than numbers.
        .where("partition is not null")
    )
    near = _within(F.col("offset"))
    in_time = Window.partitionBy(*_KEY).orderBy("ts", "node", "seq")
    return one.withColumns(
        {
            "hour_ms": F.col("ts") - F.col("ts") % _HOUR_MS,
            "step": near - F.lag(near).over(in_time),
        }
    )


def _within(offset: Column) -> Column:
    """An offset whose difference from others has 64 bits, even if a member tried any number."""
    return F.greatest(F.least(offset, F.lit(_OFFSET_MOST)), F.lit(-_OFFSET_MOST))


def _by_group(lines: DataFrame) -> DataFrame:
    """A group's lines in one place, while there is one row for all partitions of a commit."""
    return lines if is_quick(lines.sparkSession) else lines.repartition("group")


def _by_hour(steps: DataFrame) -> DataFrame:
    order = F.struct("ts", "node", "seq")
    span_ms = F.col("last_ms") - F.col("first_ms")
    went_back = F.col("step") < 0
    return (
        steps.groupBy(*_KEY, "hour_ms")
        .agg(
            F.count("offset").alias("commits"),
            F.min("ts").alias("first_ms"),
            F.max("ts").alias("last_ms"),
            F.min_by("offset", order).alias("first_offset"),
            F.max_by("offset", order).alias("last_offset"),
            # Only offsets that no partition has add up to more than fits.
            F.coalesce(F.try_sum(F.greatest("step", F.lit(0))), F.lit(_MOST)).alias("advanced"),
            F.sum(went_back.cast("bigint")).alias("went_back"),
            F.coalesce(F.max(F.when(went_back, -F.col("step"))), F.lit(0)).alias(
                "deepest_regression"
            ),
            F.count_distinct(F.when(F.col("member") != "", F.col("member"))).alias("members"),
            F.sum((F.col("member") == "").cast("bigint")).alias("outside"),
        )
        .withColumns(
            {
                "regressions": F.coalesce("went_back", F.lit(0)),
                "per_minute": F.when(
                    span_ms > 0, (F.col("commits") - 1) * F.lit(float(_MINUTE_MS)) / span_ms
                ),
            }
        )
    )


def _with_lag(hours: DataFrame, ends: DataFrame) -> DataFrame:
    by_hour = (
        ends.withColumn("hour_ms", F.col("ts") - F.col("ts") % _HOUR_MS)
        .groupBy("topic", "partition", "hour_ms")
        .agg(F.max_by("offset", F.struct("ts", "offset")).alias("end_offset"))
    )
    behind = _within(F.col("end_offset")) - _within(F.col("last_offset"))
    return hours.join(by_hour, ["topic", "partition", "hour_ms"], how="left").withColumn(
        "lag", F.when(F.col("end_offset").isNotNull(), F.greatest(behind, F.lit(0)))
    )
