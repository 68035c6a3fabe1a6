"""What groups' rebalances cost, by what caused them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.report.model import Cost
from coterie_pipeline.report.queries import grouped, row_of, summed, text

__all__ = ["costs"]

_COSTS: Final = ("rebalances", "follow_ups", "stopped_ms", "follow_ups_stopped_ms", "silent_ms")

#: What a silence ended with, where the cause of a rebalance has another name.
_CAUSES: Final = {"removed": "member_removed", "left": "member_left"}


def costs(
    rebalances: DataFrame, faults: DataFrame, groups: Sequence[str]
) -> Mapping[str, tuple[Cost, ...]]:
    """By group, the cost of each root cause, the highest first.

    Gaps outside of rebalances have no cause.  A silence is a cost of how it ended: a rebalance with
    another cause may have waited for the member as well.
    """
    names = list(groups)
    rebalances, faults = (each.where(F.col("group").isin(names)) for each in (rebalances, faults))
    found = (
        summed((_counted(rebalances), _stopped(rebalances, faults), _silent(faults)), _KEY, _COSTS)
        .withColumn("whole_ms", F.col("stopped_ms") + F.col("silent_ms"))
        .orderBy("group", F.desc("whole_ms"), F.desc("rebalances"), "cause")
        .collect()
    )
    return {
        group: tuple(row_of(Cost, row) for row in rows) for group, rows in grouped(found).items()
    }


_KEY: Final = ("group", "cause")


def _counted(rebalances: DataFrame) -> DataFrame:
    is_follow_up = F.col("root") != F.col("rebalance")
    return rebalances.select(
        "group",
        text("root_cause").alias("cause"),
        (~is_follow_up).cast("int").alias("rebalances"),
        is_follow_up.cast("int").alias("follow_ups"),
    )


def _stopped(rebalances: DataFrame, faults: DataFrame) -> DataFrame:
    is_follow_up = F.col("root") != F.col("rebalance")
    roots = rebalances.select(
        "group", "rebalance", text("root_cause"), is_follow_up.alias("is_follow_up")
    )
    gaps = faults.where("fault = 'gap'").select("group", "rebalance", "sure_ms")
    return gaps.join(roots, ["group", "rebalance"], how="left").select(
        "group",
        text("root_cause").alias("cause"),
        F.col("sure_ms").alias("stopped_ms"),
        F.when(F.col("is_follow_up"), F.col("sure_ms")).alias("follow_ups_stopped_ms"),
    )


def _silent(faults: DataFrame) -> DataFrame:
    cause = F.col("cause")
    for how, named in _CAUSES.items():
        cause = F.when(F.col("cause") == how, named).otherwise(cause)
    return faults.where("fault = 'silence'").select(
        "group", cause.alias("cause"), F.col("sure_ms").alias("silent_ms")
    )
