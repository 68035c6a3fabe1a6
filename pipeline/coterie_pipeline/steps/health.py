"""The table `group_health`: each group, hour by hour."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.session import is_quick
from coterie_pipeline.tables import HEALTH

__all__ = ["health"]

_HOUR_MS: Final = 3_600_000
_KEY: Final = ["group", "hour_ms"]

#: What is added up within an hour.
_SUMS: Final = (
    *("partitions", "rebalances", "rebalancing_ms", "owned_partition_ms"),
    *("stopped_partition_ms", "silent_partition_ms", "moved", "kept", "keepable"),
    *("overlaps", "possible_overlaps"),
    *("session_timeouts", "commits", "regressions"),
)


def health(
    rebalances: DataFrame,
    intervals: DataFrame,
    faults: DataFrame,
    sessions: DataFrame,
    commits: DataFrame,
) -> DataFrame:
    """The table, of the others; `rebalances` has the group's horizon as well."""
    parts = (
        _of_rebalances(rebalances),
        _rebalancing(rebalances),
        _in_force(rebalances),
        _owned(intervals),
        _lasting(faults, "gap", "stopped_partition_ms"),
        _lasting(faults, "silence", "silent_partition_ms"),
        _overlapping(faults),
        _given_up(sessions),
        commits.select(*_KEY, "commits", "regressions"),
    )
    all_of_them = reduce(_and, parts).transform(_by_group)
    by_cause = all_of_them.groupBy(*_KEY, "cause").agg(
        *(F.try_sum(name).alias(name) for name in _SUMS), F.max("members").alias("members")
    )
    owned, stopped, silent = (
        F.col(f"{name}_partition_ms") for name in ("owned", "stopped", "silent")
    )
    return (
        by_cause.groupBy(*_KEY)
        .agg(
            _causes().alias("by_cause"),
            *(F.coalesce(F.try_sum(name), F.lit(0)).alias(name) for name in _SUMS),
            F.coalesce(F.max("members"), F.lit(0)).alias("members"),
        )
        .withColumns(
            {
                "availability": F.when(
                    owned + stopped > 0,
                    # Of two owners at once, one may have been silent.
                    F.greatest(owned - silent, F.lit(0)) / (owned + stopped),
                ),
                "stickiness": F.when(F.col("keepable") > 0, F.col("kept") / F.col("keepable")),
            }
        )
        .select(*HEALTH.names)
    )


def _and(some: DataFrame, more: DataFrame) -> DataFrame:
    return some.unionByName(more, allowMissingColumns=True)


def _by_group(rows: DataFrame) -> DataFrame:
    """All rows of a group in one place, where they are added up in two steps."""
    return rows if is_quick(rows.sparkSession) else rows.repartition("group")


def _causes() -> Column:
    """How many rebalances each cause had, in the order of the causes."""
    entry = F.when(F.col("rebalances").isNotNull(), F.struct("cause", "rebalances"))
    return F.map_from_entries(F.array_sort(F.collect_list(entry)))


def _hour(ms: str) -> Column:
    return F.col(ms) - F.col(ms) % _HOUR_MS


def _by_hour(rows: DataFrame, *kept: str) -> DataFrame:
    """Split times from `from_ms` to `to_ms` into one row for each hour, with its share."""
    last_ms = F.greatest(F.col("to_ms") - 1, "from_ms")
    hours = F.sequence(_hour("from_ms"), last_ms - last_ms % _HOUR_MS, F.lit(_HOUR_MS))
    return rows.select(*kept, "from_ms", "to_ms", F.explode(hours).alias("hour_ms")).select(
        *kept,
        "hour_ms",
        (
            F.least(F.col("to_ms"), F.col("hour_ms") + _HOUR_MS) - F.greatest("from_ms", "hour_ms")
        ).alias("share_ms"),
    )


def _of_rebalances(rebalances: DataFrame) -> DataFrame:
    return rebalances.select(
        "group",
        _hour("started_ms").alias("hour_ms"),
        *("cause", "moved", "kept", "keepable"),
        F.lit(1).cast("bigint").alias("rebalances"),
    )


def _rebalancing(rebalances: DataFrame) -> DataFrame:
    """The time spent in rebalances; one that goes on counts, so that a stuck group shows."""
    spans = rebalances.select(
        "group",
        F.col("started_ms").alias("from_ms"),
        F.coalesce("ended_ms", "horizon_ms").alias("to_ms"),
    )
    return _by_hour(spans, "group").withColumnRenamed("share_ms", "rebalancing_ms")


def _in_force(rebalances: DataFrame) -> DataFrame:
    """The number of members of each generation while it was in force."""
    is_empty = F.col("outcome") == "emptied"
    since_ms = F.when(is_empty, F.col("ended_ms")).otherwise(F.col("joined_ms"))
    until_ms = F.lead("from_ms").over(Window.partitionBy("group").orderBy("rebalance"))
    generations = (
        rebalances.withColumn("from_ms", since_ms)
        .where("from_ms is not null")
        .withColumn("members", F.when(is_empty, 0).otherwise(F.coalesce("members", F.lit(0))))
        .withColumn("to_ms", F.coalesce(until_ms, "horizon_ms"))
    )
    return _by_hour(generations, "group", "members").drop("share_ms")


def _owned(intervals: DataFrame) -> DataFrame:
    """The time with an owner; time with several owners at once counts once."""
    before = (
        Window.partitionBy("group", "topic", "partition")
        .orderBy("from_ms", "to_ms", "holder", "member")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    own_from_ms = F.greatest("from_ms", F.max("to_ms").over(before))
    own = (
        intervals.withColumn("own_from_ms", own_from_ms)
        .where("own_from_ms < to_ms or from_ms = to_ms")
        .withColumn("from_ms", F.least("own_from_ms", "to_ms"))
    )
    return (
        _by_hour(own, "group", "topic", "partition")
        .groupBy("group", "topic", "partition", "hour_ms")
        .agg(F.sum("share_ms").alias("owned_partition_ms"))
        .select(*_KEY, "owned_partition_ms", F.lit(1).cast("bigint").alias("partitions"))
    )


def _lasting(faults: DataFrame, fault: str, column: str) -> DataFrame:
    """For how long partitions had no owner, or a silent one."""
    times = _by_hour(faults.where(F.col("fault") == fault), "group")
    return times.withColumnRenamed("share_ms", column)


def _overlapping(faults: DataFrame) -> DataFrame:
    is_sure = F.col("sure_ms") > 0
    return faults.where("fault = 'overlap'").select(
        "group",
        _hour("from_ms").alias("hour_ms"),
        is_sure.cast("bigint").alias("overlaps"),
        (~is_sure).cast("bigint").alias("possible_overlaps"),
    )


def _given_up(sessions: DataFrame) -> DataFrame:
    return sessions.where("ended = 'session_expired'").select(
        "group",
        _hour("ended_ms").alias("hour_ms"),
        F.lit(1).cast("bigint").alias("session_timeouts"),
    )
