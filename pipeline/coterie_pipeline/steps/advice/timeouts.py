"""Rules about limits that are too tight."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.steps.advice.saying import advise, count_of, seconds

__all__ = ["joins", "sessions"]

#: Session timeouts that people choose.
_CHOICES_MS: Final = tuple(
    second * 1000 for second in (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
)
#: One that comes back later than this is taken for dead and started anew.
_ALIVE_MS: Final = 600_000
#: A limit that most of the silences would have kept within is worth proposing.
_MOST: Final = 0.8
_OFTEN: Final = 3


def sessions(memberships: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Members that were given up and were there again: how long a limit would have kept them."""
    is_back = F.col("back_after_ms") <= _ALIVE_MS
    silences = (
        memberships.where("ended = 'session_expired' and silent_ms is not null")
        .withColumn("silence_ms", F.when(is_back, F.col("silent_ms") + F.col("back_after_ms")))
        .groupBy("group", "identity")
        .agg(
            F.count("member").alias("times"),
            F.array_sort(F.collect_list("silence_ms")).alias("silences"),
            F.max("session_timeout_ms").alias("limit_ms"),
            F.min("ended_ms").alias("from_ms"),
            F.max("ended_ms").alias("to_ms"),
        )
        .where(F.size("silences") >= _OFTEN)
    )
    costs = rebalances.groupBy("group").agg(
        F.count("rebalance").alias("rebalances"),
        F.sum(F.when(_by_silence(), F.col("stopped_partition_ms"))).alias("stopped_ms"),
        F.sum(_by_silence().cast("bigint")).alias("of_silence"),
    )
    proposed = (
        silences.withColumn("proposal_ms", _proposal())
        .where("proposal_ms is not null")
        .withColumn("left", F.col("times") - _within("proposal_ms"))
        .join(costs, "group", how="inner")
        .withColumn(
            "saves_partition_ms",
            (
                F.col("stopped_ms")
                * (F.col("times") - F.col("left"))
                / F.greatest("of_silence", F.lit(1))
            ).cast("bigint"),
        )
        .withColumnRenamed("identity", "about")
    )
    middle = ((F.size("silences") + 1) / 2).cast("int")
    median_over_ms = F.element_at("silences", middle) - F.col("limit_ms")
    return advise(
        proposed,
        "session_timeout",
        "costly",
        F.concat(
            F.col("about"),
            F.lit(" was given up as silent "),
            count_of(F.col("times"), "time", "times"),
            F.lit(" and came back, typically "),
            seconds(F.greatest(median_over_ms.cast("bigint"), F.lit(0))),
            F.lit(" over its limit of "),
            seconds(F.col("limit_ms")),
            F.lit("; the group had "),
            count_of(F.col("rebalances"), "rebalance", "rebalances"),
            F.lit(" in all. With session.timeout.ms="),
            F.col("proposal_ms").cast("string"),
            F.lit(" it would have been given up "),
            count_of(F.col("left"), "time", "times"),
            F.lit(", but a dead member would be missed that much later."),
        ),
        {
            "times": F.col("times"),
            "left": F.col("left"),
            "limit_ms": F.col("limit_ms"),
            "proposal_ms": F.col("proposal_ms"),
            "silences_ms": F.array_join(F.slice("silences", 1, 100).cast("array<string>"), ", "),
        },
    )


def _by_silence() -> Column:
    return F.col("root_cause") == "session_expired"


def _within(limit: str) -> Column:
    return F.size(F.filter("silences", lambda silence: silence < F.col(limit)))


def _proposal() -> Column:
    """The shortest limit that most of those who came back would have kept within."""
    needed = F.ceil(F.size("silences") * F.lit(_MOST)).cast("int")
    typical = F.element_at("silences", needed)
    choices = F.array(*(F.lit(choice) for choice in _CHOICES_MS))
    return F.array_min(F.filter(choices, lambda ms: (ms > F.col("limit_ms")) & (ms > typical)))


def joins(memberships: DataFrame) -> DataFrame:
    """Members that lost their place because they did not join again in time."""
    slow = (
        memberships.where(F.col("ended").isin("rebalance_expired", "sync_expired"))
        .groupBy("group")
        .agg(
            F.count("member").alias("times"),
            F.count_distinct("identity").alias("members"),
            F.max("rebalance_timeout_ms").alias("limit_ms"),
            F.min_by("identity", F.struct("ended_ms", "member")).alias("about"),
            F.min("ended_ms").alias("from_ms"),
            F.max("ended_ms").alias("to_ms"),
        )
    )
    return advise(
        slow,
        "rebalance_timeout",
        "costly",
        F.concat(
            count_of(F.col("times"), "time", "times"),
            F.lit(" a member did not join again within "),
            F.coalesce(seconds(F.col("limit_ms")), F.lit("its limit")),
            F.lit(" and lost its place, such as "),
            F.col("about"),
            F.lit(
                ": let it finish a piece of work sooner, or raise max.poll.interval.ms "
                "(the rebalance timeout)."
            ),
        ),
        {name: F.col(name) for name in ("times", "members", "limit_ms")},
    )
