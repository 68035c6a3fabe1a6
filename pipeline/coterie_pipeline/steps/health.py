"""The table `group_health`: each group, hour by hour."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.tables import HEALTH

__all__ = ["health"]

_HOUR_MS: Final = 3_600_000
_KEY: Final = ["group", "hour_ms"]

_COUNTS: Final = (
    *("members", "partitions", "rebalances", "rebalancing_ms", "owned_partition_ms"),
    *("stopped_partition_ms", "moved", "kept", "keepable", "overlaps", "possible_overlaps"),
    *("session_timeouts", "commits", "regressions"),
)


def health(
    rebalances: DataFrame,
    intervals: DataFrame,
    faults: DataFrame,
    sessions: DataFrame,
    commits: DataFrame,
    horizons: DataFrame,
) -> DataFrame:
    """The table, of the others."""
    parts = (
        _of_rebalances(rebalances),
        _rebalancing(rebalances, horizons),
        _in_force(rebalances, horizons),
        _owned(intervals),
        _stopped(faults),
        _overlapping(faults),
        _given_up(sessions),
        _committed(commits),
    )
    both = reduce(lambda left, right: left.join(right, _KEY, how="full_outer"), parts)
    owned, stopped = F.col("owned_partition_ms"), F.col("stopped_partition_ms")
    return (
        both.withColumns({name: F.coalesce(name, F.lit(0)) for name in _COUNTS})
        .withColumns(
            {
                "by_cause": F.coalesce("by_cause", F.create_map().cast("map<string, bigint>")),
                "availability": F.when(owned + stopped > 0, owned / (owned + stopped)),
                "stickiness": F.when(F.col("keepable") > 0, F.col("kept") / F.col("keepable")),
            }
        )
        .select(*HEALTH.names)
    )


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
    by_cause = (
        rebalances.withColumn("hour_ms", _hour("started_ms"))
        .groupBy(*_KEY, "cause")
        .agg(
            F.count("rebalance").alias("n"),
            *(F.sum(name).alias(name) for name in ("moved", "kept", "keepable")),
        )
    )
    entries = F.array_sort(F.collect_list(F.struct("cause", "n")))
    return by_cause.groupBy(*_KEY).agg(
        F.sum("n").alias("rebalances"),
        F.map_from_entries(entries).alias("by_cause"),
        *(F.sum(name).alias(name) for name in ("moved", "kept", "keepable")),
    )


def _rebalancing(rebalances: DataFrame, horizons: DataFrame) -> DataFrame:
    """The time spent in rebalances; one that goes on counts, so that a stuck group shows."""
    spans = rebalances.join(F.broadcast(horizons), "group", how="inner").select(
        "group",
        F.col("started_ms").alias("from_ms"),
        F.coalesce("ended_ms", "horizon_ms").alias("to_ms"),
    )
    return _by_hour(spans, "group").groupBy(*_KEY).agg(F.sum("share_ms").alias("rebalancing_ms"))


def _in_force(rebalances: DataFrame, horizons: DataFrame) -> DataFrame:
    """The number of members of the largest generation that was in force."""
    is_empty = F.col("outcome") == "emptied"
    since_ms = F.when(is_empty, F.col("ended_ms")).otherwise(F.col("joined_ms"))
    until_ms = F.lead("from_ms").over(Window.partitionBy("group").orderBy("rebalance"))
    generations = (
        rebalances.withColumn("from_ms", since_ms)
        .where("from_ms is not null")
        .withColumn("members", F.when(is_empty, 0).otherwise(F.coalesce("members", F.lit(0))))
        .join(F.broadcast(horizons), "group", how="inner")
        .withColumn("to_ms", F.coalesce(until_ms, "horizon_ms"))
    )
    return (
        _by_hour(generations, "group", "members")
        .groupBy(*_KEY)
        .agg(F.max("members").alias("members"))
    )


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
        .groupBy(*_KEY)
        .agg(
            F.count_distinct("topic", "partition").alias("partitions"),
            F.sum("share_ms").alias("owned_partition_ms"),
        )
    )


def _stopped(faults: DataFrame) -> DataFrame:
    """For how long partitions had no owner."""
    return (
        _by_hour(faults.where("fault = 'gap'"), "group")
        .groupBy(*_KEY)
        .agg(F.sum("share_ms").alias("stopped_partition_ms"))
    )


def _overlapping(faults: DataFrame) -> DataFrame:
    is_sure = F.col("sure_ms") > 0
    return (
        faults.where("fault = 'overlap'")
        .withColumn("hour_ms", _hour("from_ms"))
        .groupBy(*_KEY)
        .agg(
            F.sum(is_sure.cast("bigint")).alias("overlaps"),
            F.sum((~is_sure).cast("bigint")).alias("possible_overlaps"),
        )
    )


def _given_up(sessions: DataFrame) -> DataFrame:
    return (
        sessions.where("ended = 'session_expired'")
        .withColumn("hour_ms", _hour("ended_ms"))
        .groupBy(*_KEY)
        .agg(F.count("member").alias("session_timeouts"))
    )


def _committed(commits: DataFrame) -> DataFrame:
    return commits.groupBy(*_KEY).agg(
        F.sum("commits").alias("commits"), F.sum("regressions").alias("regressions")
    )
