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
#: How many silences are given as evidence.
_SILENCES_SHOWN: Final = 100


def sessions(memberships: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Members that were given up and were there again: how long a limit would have kept them."""
    median_over_ms = F.greatest(_middle("silences") - F.col("limit_ms"), F.lit(0))
    sentence = F.format_string(
        "%s was given up as silent %s and came back, typically %s over its limit of %s; the group "
        "had %s in all. With session.timeout.ms=%d it would have been given up %s, but a dead "
        "member would be missed that much later.",
        F.col("about"),
        count_of(F.col("times"), "time", "times"),
        seconds(median_over_ms),
        seconds(F.col("limit_ms")),
        count_of(F.col("rebalances"), "rebalance", "rebalances"),
        F.col("proposal_ms"),
        count_of(F.col("left"), "time", "times"),
    )
    silences = F.slice("silences", 1, _SILENCES_SHOWN).cast("array<string>")
    numbers = ("times", "left", "limit_ms", "proposal_ms")
    return advise(
        _proposals(_silences(memberships), rebalances),
        "session_timeout",
        "costly",
        sentence,
        {
            **{name: F.col(name) for name in numbers},
            "silences_ms": F.array_join(silences, ", "),
        },
    )


def _silences(memberships: DataFrame) -> DataFrame:
    """Who was given up, and for how long it had really been silent if it came back."""
    is_back = F.col("back_after_ms") <= _ALIVE_MS
    silence_ms = F.when(is_back, F.col("silent_ms") + F.col("back_after_ms"))
    return (
        memberships.where("ended = 'session_expired' and silent_ms is not null")
        # Journals that were made of Kafka's logs may not know it.
        .where("session_timeout_ms > 0")
        .withColumn("silence_ms", silence_ms)
        .groupBy("group", F.col("identity").alias("about"))
        .agg(
            F.count("member").alias("times"),
            F.array_sort(F.collect_list("silence_ms")).alias("silences"),
            F.max("session_timeout_ms").alias("limit_ms"),
            F.min("ended_ms").alias("from_ms"),
            F.max("ended_ms").alias("to_ms"),
        )
        .where(F.size("silences") >= _OFTEN)
    )


def _proposals(silences: DataFrame, rebalances: DataFrame) -> DataFrame:
    """What another limit would have changed."""
    by_silence = F.col("root_cause") == "session_expired"
    costs = rebalances.groupBy("group").agg(
        F.count("rebalance").alias("rebalances"),
        F.sum(F.when(by_silence, F.col("stopped_partition_ms"))).alias("stopped_ms"),
        F.sum(by_silence.cast("bigint")).alias("of_silence"),
    )
    kept_within = F.size(F.filter("silences", lambda silence: silence < F.col("proposal_ms")))
    saved = F.col("stopped_ms") * (F.col("times") - F.col("left"))
    return (
        silences.withColumn("proposal_ms", _proposal())
        .where("proposal_ms is not null")
        .withColumn("left", F.col("times") - kept_within)
        .join(costs, "group", how="inner")
        .withColumn(
            "saves_partition_ms",
            (saved / F.greatest("of_silence", F.lit(1))).cast("bigint"),
        )
    )


def _middle(sorted_: str) -> Column:
    return F.element_at(sorted_, ((F.size(sorted_) + 1) / 2).cast("int"))


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
        F.format_string(
            "%s a member did not join again within %s and lost its place, such as %s: let it "
            "finish a piece of work sooner, or raise max.poll.interval.ms (the rebalance timeout).",
            count_of(F.col("times"), "time", "times"),
            F.coalesce(seconds(F.col("limit_ms")), F.lit("its limit")),
            F.col("about"),
        ),
        {name: F.col(name) for name in ("times", "members", "limit_ms")},
    )
