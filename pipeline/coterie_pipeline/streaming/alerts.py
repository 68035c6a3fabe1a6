"""Alerts: partitions with two owners, and groups that rebalance again and again.

Pure functions of the control lines of groups.  An alert has a key that stays the same however often
it is found, so that it is raised once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps import Materialize, checkpoint, coalesced
from coterie_pipeline.steps.faults import overlaps
from coterie_pipeline.steps.lines import each_once, in_order, segments
from coterie_pipeline.steps.ownership import intervals
from coterie_pipeline.steps.rebalances import numbered
from coterie_pipeline.steps.statements import identities, statements
from coterie_pipeline.tables import Table, declared

__all__ = ["ALERTS", "Storm", "alerts", "overlap_alerts", "storm_alerts"]

#: The columns that alerts depend on: the fewer, the sooner Spark has a plan.
_COLUMNS: Final = (
    *("segment", "digest", "why", "node", "seq", "ts", "group", "kind", "generation"),
    "fence",
    *("from_state", "cause", "state", "took_ms", "total_ms", "assigned", "phase_joined_members"),
    *("member", "instance", "host", "former_member", "former_host", "how", "silent_ms"),
    "session_timeout_ms",
)

ALERTS: Final = Table(
    "alerts",
    "one thing to look into at once; only `follow` makes these",
    declared("""
key | STRING | what it is about: each key has one alert
group | STRING | the group
kind | STRING | `overlap`: a partition has two owners; `possible_overlap`: it may have, as one that
    had not let go of it may have worked on; `rebalance_storm`: the group rebalances again and again
at_ms | BIGINT | when it began
sentence | STRING | what was seen, for a person
evidence | MAP<STRING, STRING> | the facts behind the sentence
"""),
)


@dataclass(frozen=True, slots=True)
class Storm:
    """How many rebalances of a group within how much time are a storm."""

    rebalances: int = 5
    within_ms: int = 300_000


def alerts(control: DataFrame, storm: Storm, materialize: Materialize = checkpoint) -> DataFrame:
    """All alerts about some groups, from their parsed control lines."""
    lines_of_groups = coalesced(control).select(*_COLUMNS)
    once = each_once(lines_of_groups, segments(lines_of_groups))
    lines = materialize("_control", once.transform(in_order).transform(numbered))
    return overlap_alerts(lines, materialize).unionByName(storm_alerts(lines, storm))


def overlap_alerts(lines: DataFrame, materialize: Materialize = checkpoint) -> DataFrame:
    """Partitions with two owners; those with the same two since one moment are one alert."""
    known = identities(lines)
    # An overlap that begins with the last line has lasted no time yet, and is one all the same.
    horizons = lines.groupBy("group").agg((F.max("at") + 1).alias("horizon_ms"))
    held = materialize("_intervals", intervals(lines, statements(lines, known), known, horizons))
    numbers = F.array_join(F.array_sort(F.collect_set("partition")), ",")
    by_topic = F.format_string("%s[%s]", "topic", "numbers")
    pair = ("group", "kind", "from_ms", "holder", "next_holder", "cause", "began")
    return (
        overlaps(held)
        .withColumn("kind", F.when(F.col("sure_ms") > 0, "overlap").otherwise("possible_overlap"))
        .groupBy(*pair, "topic")
        .agg(numbers.alias("numbers"))
        .groupBy(*pair)
        .agg(F.array_join(F.array_sort(F.collect_list(by_topic)), " ").alias("partitions"))
        .select(
            F.concat_ws("|", "kind", "group", "from_ms", "holder", "next_holder").alias("key"),
            *("group", "kind"),
            F.col("from_ms").alias("at_ms"),
            _overlap_sentence().alias("sentence"),
            _evidence("partitions", "holder", "next_holder", "cause", "began"),
        )
    )


def _overlap_sentence() -> Column:
    first, second, cause = F.col("holder"), F.col("next_holder"), F.col("cause")
    what = (_moment("from_ms"), "group", "partitions")
    return (
        F.when(
            cause == "assigned_twice",
            F.format_string("%s: %s: %s given to both %s and %s.", *what, first, second),
        )
        .when(
            cause == "claimed_twice",
            F.format_string("%s: %s: %s claimed by both %s and %s.", *what, first, second),
        )
        .when(
            cause == "taken_while_held",
            F.format_string("%s: %s: %s given to %s before %s had let go.", *what, second, first),
        )
        .otherwise(
            F.format_string(
                "%s: %s: %s went to %s, and %s may work on: its membership ended (%s), and it "
                "need not know that yet.",
                *(*what, second, first, "began"),
            )
        )
    )


def storm_alerts(lines: DataFrame, storm: Storm) -> DataFrame:
    """Storms of rebalances: one alert at the beginning of each.

    A storm is over when there has been none for as long as the time that rebalances are counted in.
    """
    by_time = Window.partitionBy("group").orderBy("at_ms")
    within = by_time.rangeBetween(1 - storm.within_ms, 0)
    before = by_time.rangeBetween(-storm.within_ms, -1)
    was_storm = F.coalesce(F.max("is_storm").over(before), F.lit(False))
    causes = F.array_join(F.array_sort(F.collect_set("cause").over(within)), ", ")
    return (
        lines.where("rebalance > 0")
        .groupBy("group", "rebalance")
        .agg(F.min("at").alias("at_ms"), F.max("cause").alias("cause"))
        .withColumns({"count": F.count("rebalance").over(within), "causes": causes})
        .withColumn("is_storm", F.col("count") >= storm.rebalances)
        .withColumn("begins", F.col("is_storm") & ~was_storm)
        .where("begins")
        .withColumn("kind", F.lit("rebalance_storm"))
        .select(
            F.concat_ws("|", "kind", "group", "at_ms").alias("key"),
            *("group", "kind", "at_ms"),
            F.format_string(
                f"%s: %s: rebalanced %d times within {storm.within_ms / 1000:g} s (%s).",
                *(_moment("at_ms"), "group", "count", "causes"),
            ).alias("sentence"),
            _evidence("count", "causes"),
        )
        .dropDuplicates(["key"])
    )


def _moment(column: str) -> Column:
    return F.date_format(F.timestamp_millis(column), "yyyy-MM-dd HH:mm:ss.SSS 'UTC'")


def _evidence(*names: str) -> Column:
    pairs = [each for name in names for each in (F.lit(name), F.col(name).cast("string"))]
    return F.create_map(*pairs).alias("evidence")
