"""Rules about members that cause trouble."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.advice.saying import advise, count_of, partition_name, seconds

__all__ = ["flapping", "one_name_for_two", "restarts", "slow", "went_back"]

#: A process that is back so soon was restarted, not scaled down.
_RESTART_MS: Final = 300_000
_OFTEN: Final = 3
_SLOW_MS: Final = 1_000
#: A member that is the last so often is no accident.
_MOSTLY: Final = 0.5


def restarts(sessions: DataFrame) -> DataFrame:
    """Members that said goodbye and came back: static ones would have kept their places."""
    found = (
        sessions.where("kind = 'dynamic' and ended = 'left'")
        .where(F.col("back_after_ms") <= _RESTART_MS)
        .groupBy("group")
        .agg(
            F.count("member").alias("times"),
            F.count_distinct("identity").alias("members"),
            F.percentile("back_after_ms", F.lit(0.5)).cast("bigint").alias("median_ms"),
            F.max("back_after_ms").alias("longest_ms"),
            F.min("ended_ms").alias("from_ms"),
            F.max("ended_ms").alias("to_ms"),
        )
        .where(F.col("times") >= _OFTEN)
    )
    return advise(
        found,
        "restarts",
        "costly",
        F.format_string(
            "%s a member left and was back after %s, which made two rebalances each. With a "
            "group.instance.id for each member and a session timeout above %s, restarts would "
            "have moved nothing.",
            count_of(F.col("times"), "time", "times"),
            seconds(F.col("median_ms")),
            seconds(F.col("longest_ms")),
        ),
        {name: F.col(name) for name in ("times", "members", "median_ms", "longest_ms")},
    )


def flapping(sessions: DataFrame) -> DataFrame:
    """Members that come and go all the time."""
    is_over = F.col("ended") != "open"
    found = (
        sessions.where("is_flapping")
        .groupBy("group", F.col("identity").alias("about"))
        .agg(
            F.count("member").alias("times"),
            F.max("returns").alias("within_hour"),
            F.max_by("ended", F.when(is_over, F.col("joined_ms"))).alias("how"),
            F.min("joined_ms").alias("from_ms"),
            F.max(F.coalesce("ended_ms", "joined_ms")).alias("to_ms"),
        )
    )
    return advise(
        found,
        "flapping",
        "costly",
        F.format_string(
            "%s came back up to %s within an hour%s. See why its process ends.",
            F.col("about"),
            count_of(F.col("within_hour"), "time", "times"),
            F.coalesce(
                F.concat(F.lit("; it was last gone as "), F.regexp_replace("how", "_", " ")),
                F.lit(""),
            ),
        ),
        {name: F.col(name) for name in ("times", "within_hour", "how")},
    )


def slow(rebalances: DataFrame) -> DataFrame:
    """The one that everybody waits for."""
    waited = rebalances.where("prepare_ms is not null")
    last = (
        waited.withColumn("last", F.get("late", F.lit(0)))
        .where(F.col("last.after_ms") >= _SLOW_MS)
        .withColumn("about", F.coalesce("last.instance", "last.host", "last.member"))
        .groupBy("group", "about")
        .agg(
            F.count("rebalance").alias("times"),
            F.sum("last.after_ms").alias("waited_ms"),
            F.min("started_ms").alias("from_ms"),
            F.max("joined_ms").alias("to_ms"),
        )
    )
    all_ = Window.partitionBy("group")
    found = last.withColumn("all_ms", F.sum("waited_ms").over(all_)).where(
        (F.col("times") >= _OFTEN) & (F.col("waited_ms") >= _MOSTLY * F.col("all_ms"))
    )
    return advise(
        found,
        "slow_member",
        "costly",
        F.format_string(
            "%s waited longest for %s, %s in all: see how long it takes to finish what it has in "
            "hand, and how often it sends heartbeats.",
            count_of(F.col("times"), "rebalance", "rebalances"),
            F.col("about"),
            seconds(F.col("waited_ms")),
        ),
        {name: F.col(name) for name in ("times", "waited_ms", "all_ms")},
    )


def one_name_for_two(control: DataFrame) -> DataFrame:
    """Instance ids that two processes use."""
    found = (
        control.where("kind = 'member_fenced'")
        .groupBy("group", F.col("instance").alias("about"))
        .agg(
            F.count("pos").alias("times"),
            F.array_sort(F.array_union(_known("host"), _known("holder_host"))).alias("hosts"),
            F.min("at").alias("from_ms"),
            F.max("at").alias("to_ms"),
        )
    )
    hosts = F.array_join("hosts", " and ")
    return advise(
        found,
        "one_name_for_two",
        "wrong",
        F.format_string(
            "Two processes used the group.instance.id %s%s: %s refused. Give each process a name "
            "of its own.",
            F.col("about"),
            F.when(F.size("hosts") > 0, F.concat(F.lit(", at "), hosts)).otherwise(""),
            count_of(F.col("times"), "request was", "requests were"),
        ),
        {"times": F.col("times"), "hosts": hosts},
    )


def _known(host: str) -> Column:
    return F.collect_set(F.when(F.col(host) != "", F.col(host)))


def went_back(commits: DataFrame) -> DataFrame:
    """Offsets that went back."""
    found = (
        commits.where("regressions > 0")
        .groupBy("group")
        .agg(
            F.sum("regressions").alias("times"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.max("deepest_regression").alias("deepest"),
            F.max_by(
                partition_name(), F.struct("deepest_regression", "last_ms", "topic", "partition")
            ).alias("example"),
            F.min("first_ms").alias("from_ms"),
            F.max("last_ms").alias("to_ms"),
        )
    )
    return advise(
        found,
        "offset_went_back",
        "note",
        F.format_string(
            "Committed offsets went back %s, by up to %,d for %s: that work was, or will be, done "
            "twice, unless somebody reset the offsets.",
            count_of(F.col("times"), "time", "times"),
            F.col("deepest"),
            F.col("example"),
        ),
        {name: F.col(name) for name in ("times", "partitions", "deepest")},
    )
