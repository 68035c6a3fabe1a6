"""Rules about who owned what."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.steps.advice.saying import (
    advise,
    count_of,
    partition_name,
    partition_seconds,
    seconds,
)

__all__ = ["eager", "idle", "overlaps", "possible_overlaps", "without_owner"]

#: Assignors that make everybody let go of everything first.
_EAGER: Final = ("range", "roundrobin", "sticky")
#: Less than this, or than this share of the time that stood still, is not worth a change.
_WORTHWHILE_MS: Final = 1_000
_WORTHWHILE: Final = 0.1
#: Until then a rebalance may just be going on.
_PATIENCE_MS: Final = 10_000


def overlaps(faults: DataFrame) -> DataFrame:
    """Two owners at once, for certain."""
    return _doubly(
        faults.where("sure_ms > 0"),
        "overlap",
        "wrong",
        "Two members owned one partition at once, %s and for up to %s: %s. Set "
        "group.ownership.guard=enforce to rule that out, and see which assignor the group's "
        "leader uses.",
    )


def possible_overlaps(faults: DataFrame) -> DataFrame:
    """Two owners at once, perhaps."""
    return _doubly(
        faults.where("sure_ms = 0"),
        "possible_overlap",
        "note",
        "A partition was given on while its former owner may have been at work, %s and for up to "
        "%s: %s. Make sure that what is written carries the fencing token.",
    )


def _doubly(faults: DataFrame, rule: str, severity: str, sentence: str) -> DataFrame:
    why = F.regexp_replace("cause", "_", " ")
    example = F.format_string(
        "%s had %s and %s (%s)", partition_name(), F.col("holder"), F.col("next_holder"), why
    )
    order = F.struct("most_ms", "from_ms", "topic", "partition", "holder", "next_holder")
    found = (
        faults.where("fault = 'overlap'")
        .groupBy("group")
        .agg(
            F.count("fault").alias("times"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.max("most_ms").alias("longest_ms"),
            F.array_join(F.array_sort(F.collect_set("cause")), ", ").alias("causes"),
            F.max_by(example, order).alias("example"),
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
        )
    )
    said = F.format_string(
        sentence,
        count_of(F.col("times"), "time", "times"),
        seconds(F.col("longest_ms")),
        F.col("example"),
    )
    evidence = {name: F.col(name) for name in ("times", "partitions", "longest_ms", "causes")}
    return advise(found, rule, severity, said, evidence)


def eager(rebalances: DataFrame, faults: DataFrame) -> DataFrame:
    """Partitions that stood still and went back to where they came from."""
    protocols = (
        rebalances.where(F.col("protocol").isin(*_EAGER))
        .groupBy("group")
        .agg(F.max_by("protocol", "rebalance").alias("protocol"))
    )
    came_back = (F.col("began") == "let_go") & (F.col("holder") == F.col("next_holder"))
    stopped = (
        faults.where("fault = 'gap'")
        .groupBy("group")
        .agg(
            F.sum("sure_ms").alias("stopped_ms"),
            F.sum(F.when(came_back, F.col("sure_ms"))).alias("saves_partition_ms"),
            F.sum(came_back.cast("bigint")).alias("times"),
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
        )
        .where(F.col("saves_partition_ms") >= _WORTHWHILE * F.col("stopped_ms"))
        .where(F.col("saves_partition_ms") >= _WORTHWHILE_MS)
    )
    return advise(
        stopped.join(protocols, "group", how="inner"),
        "eager",
        "costly",
        F.format_string(
            "Of %s that stood still, %s were of partitions that went back to the member that had "
            "let go of them: %s makes everybody stop. With cooperative-sticky they would have "
            "gone on.",
            partition_seconds(F.col("stopped_ms")),
            partition_seconds(F.col("saves_partition_ms")),
            F.col("protocol"),
        ),
        {name: F.col(name) for name in ("protocol", "stopped_ms", "times")},
    )


def without_owner(faults: DataFrame) -> DataFrame:
    """Partitions that nobody works on as the journal ends."""
    open_ = (
        faults.where("fault = 'gap' and is_open")
        .groupBy("group")
        .agg(
            F.count("fault").alias("partitions"),
            F.min_by(partition_name(), F.struct("from_ms", "topic", "partition")).alias("example"),
            F.sum("sure_ms").alias("stopped_ms"),
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
        )
        .where(F.col("to_ms") - F.col("from_ms") >= _PATIENCE_MS)
    )
    return advise(
        open_,
        "without_owner",
        "wrong",
        F.format_string(
            "%s no owner as the journal ends, such as %s for %s: see whether a rebalance hangs, "
            "or nobody subscribes to the topic any more.",
            count_of(F.col("partitions"), "partition has", "partitions have"),
            F.col("example"),
            seconds(F.col("to_ms") - F.col("from_ms")),
        ),
        {name: F.col(name) for name in ("partitions", "stopped_ms")},
    )


def idle(rebalances: DataFrame) -> DataFrame:
    """Members that have nothing to do."""
    latest = (
        rebalances.where("outcome = 'completed' and partitions is not null")
        .groupBy("group")
        .agg(F.max_by(F.struct("members", "partitions", "ended_ms"), "rebalance").alias("last"))
        .select(
            "group",
            *(F.col(f"last.{name}") for name in ("members", "partitions")),
            F.col("last.ended_ms").alias("from_ms"),
            F.col("last.ended_ms").alias("to_ms"),
        )
        .where("members > partitions and partitions > 0")
    )
    return advise(
        latest,
        "idle_members",
        "note",
        F.format_string(
            "%s %s: %s nothing to do. Fewer members, or more partitions, would do.",
            count_of(F.col("members"), "member shares", "members share"),
            count_of(F.col("partitions"), "partition", "partitions"),
            count_of(F.col("members") - F.col("partitions"), "has", "have"),
        ),
        {name: F.col(name) for name in ("members", "partitions")},
    )
