"""The table `ownership_faults`: times with two owners at once, or with none."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import after, is_kind
from coterie_pipeline.tables import FAULTS

__all__ = ["costs", "faults", "gaps", "overlaps"]

_KEY: Final = ["group", "topic", "partition"]


def faults(overlapping: DataFrame, gaping: DataFrame) -> DataFrame:
    """The table."""
    return overlapping.unionByName(gaping.select(*FAULTS.names))


def _of_partition() -> WindowSpec:
    return Window.partitionBy(*_KEY).orderBy("from_ms", "from_pos", "holder", "member")


# -- two owners --------------------------------------------------------------------------------


def overlaps(found: DataFrame) -> DataFrame:
    """Every two intervals of one partition that belong to different holders and overlap in time."""
    before = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy(*_KEY)
    is_met = F.col("from_ms") < F.max("released_ms").over(before)
    ranked = (
        found.withColumns({"rank": F.row_number().over(_of_partition()), "is_met": is_met})
        # Only the few partitions in which it can have happened are compared pair by pair.
        .withColumn("is_suspect", F.max(F.coalesce("is_met", F.lit(False))).over(whole))
        .where("is_suspect")
    )
    first, second = ranked.alias("a"), ranked.alias("b")
    meet = (
        *(F.col(f"a.{name}") == F.col(f"b.{name}") for name in _KEY),
        F.col("a.rank") < F.col("b.rank"),
        F.col("a.holder") != F.col("b.holder"),
        F.col("b.from_ms") < F.col("a.released_ms"),
    )
    sure_ms = F.least("a.to_ms", "b.to_ms") - F.col("b.from_ms")
    most_ms = F.least("a.released_ms", "b.to_ms") - F.col("b.from_ms")
    return (
        first.join(second, list(meet), how="inner")
        .withColumns({"sure": F.greatest(sure_ms, F.lit(0)), "most": F.greatest(most_ms, F.lit(0))})
        .where("most > 0")
        .select(
            *(F.col(f"a.{name}") for name in _KEY),
            F.lit("overlap").alias("fault"),
            F.col("b.from_ms"),
            (F.col("b.from_ms") + F.col("most")).alias("to_ms"),
            F.col("sure").alias("sure_ms"),
            F.col("most").alias("most_ms"),
            _why_two().alias("cause"),
            F.col("a.ended").alias("began"),
            F.lit(None).cast("bigint").alias("rebalance"),
            F.lit(False).alias("is_open"),
            F.col("a.holder"),
            F.col("b.holder").alias("next_holder"),
        )
    )


def _why_two() -> Column:
    """How a partition came to have two owners."""
    return (
        F.when(F.col("b.began") == "claimed", "claimed_twice")
        .when(F.col("a.has_held_on"), "taken_while_held")
        .when(F.col("a.to_ms") > F.col("b.from_ms"), "assigned_twice")
        .when(F.col("a.ended") == "taken", "taken_while_held")
        .otherwise(F.col("a.ended"))
    )


# -- none --------------------------------------------------------------------------------------


def gaps(
    lines: DataFrame,
    found: DataFrame,
    rebalances: DataFrame,
    deletions: DataFrame,
    horizons: DataFrame,
) -> DataFrame:
    """Every time in which a partition that had an owner has none, though there are members.

    `deletions` has the times at which each topic was deleted.  The result has, besides the table's
    columns, the rebalances that a gap lasted over, `first_rebalance` and `last_rebalance`, and
    the position of the line that ended it, if one of the group's did: `end_pos`.
    """
    length_ms = F.col("to_ms") - F.col("from_ms")
    causes = rebalances.select("group", "rebalance", "cause", "outcome")
    goes_on = ~F.col("is_open") | F.coalesce(F.col("outcome") == "running", F.lit(False))
    return (
        found.transform(_uncovered)
        .join(_dismissals(lines), ["group", "to_pos"], how="inner")
        .join(_places(lines), ["group", "from_pos"], how="left")
        .join(F.broadcast(horizons), "group", how="inner")
        .join(F.broadcast(deletions), "topic", how="left")
        .transform(_ended)
        .where("to_ms > from_ms")
        .join(causes, ["group", "rebalance"], how="left")
        .select(
            *_KEY,
            F.lit("gap").alias("fault"),
            *("from_ms", "to_ms"),
            length_ms.alias("sure_ms"),
            length_ms.alias("most_ms"),
            F.coalesce(F.when(goes_on, F.col("cause")), F.lit("none")).alias("cause"),
            "began",
            F.when(goes_on, F.col("rebalance")).alias("rebalance"),
            *("is_open", "holder", "next_holder"),
            *("first_rebalance", "last_rebalance", "end_pos"),
        )
    )


def _uncovered(found: DataFrame) -> DataFrame:
    """Intervals that no other one follows at once, with the one that follows in the end."""
    so_far = _of_partition().rowsBetween(Window.unboundedPreceding, 0)
    last = F.max(F.struct("to_ms", "to_pos", "ended", "holder", "given_ms")).over(so_far)
    next_ = F.lead(F.struct("from_ms", "from_pos", "holder")).over(_of_partition())
    is_free = F.col("next").isNull() | (F.col("next.from_ms") > F.col("last.to_ms"))
    is_unknown = F.col("last.ended").isin("open", "emptied", "deleted", "lost")
    return (
        found.select(*_KEY, last.alias("last"), next_.alias("next"))
        .where(is_free & ~is_unknown)
        .select(
            *_KEY,
            F.col("last.to_ms").alias("from_ms"),
            F.col("last.to_pos"),
            F.col("last.ended").alias("began"),
            F.col("last.holder"),
            F.col("last.given_ms"),
            F.col("next.from_ms").alias("next_ms"),
            F.col("next.from_pos"),
            F.col("next.holder").alias("next_holder"),
        )
    )


def _dismissals(lines: DataFrame) -> DataFrame:
    """By line, the next line after which partitions without an owner are meant to have none."""
    gives_all = ~F.coalesce("needs_rejoin", F.lit(False)) | F.col("assigned").isNull()
    dismisses = (
        (is_kind("rebalance_completed") & gives_all)
        | is_kind("group_emptied", "group_deleted", "group_recovered")
        | (is_kind("rebalance_started") & (F.col("from_state") == "Empty"))
    )
    next_ = F.first(F.when(dismisses, F.struct("pos", "at", "rebalance")), ignorenulls=True)
    return lines.select(
        "group",
        F.col("pos").alias("to_pos"),
        F.col("rebalance").alias("first_rebalance"),
        F.max("rebalance").over(Window.partitionBy("group")).alias("last_of_all"),
        next_.over(after()).alias("dismissal"),
    )


def _places(lines: DataFrame) -> DataFrame:
    return lines.select(
        "group", F.col("pos").alias("from_pos"), F.col("rebalance").alias("next_rebalance")
    )


def _ended(free: DataFrame) -> DataFrame:
    """When each gap ended, and in which rebalance."""
    is_dismissed = F.col("dismissal").isNotNull() & (
        F.col("from_pos").isNull() | (F.col("dismissal.pos") < F.col("from_pos"))
    )
    # Deletions after it was given end a gap: a deleted topic needs no owner.
    gone_ms = F.array_min(
        F.filter("deleted_ms", lambda ms: (ms > F.col("given_ms")) & (ms < F.col("end_ms")))
    )
    return (
        free.withColumns(
            {
                "end_ms": F.when(is_dismissed, F.col("dismissal.at"))
                .when(F.col("from_pos").isNotNull(), F.col("next_ms"))
                .otherwise(F.col("horizon_ms")),
                "last_rebalance": F.when(is_dismissed, F.col("dismissal.rebalance")).otherwise(
                    F.coalesce("next_rebalance", "last_of_all")
                ),
            }
        )
        .withColumn("gone_ms", gone_ms)
        .withColumn("is_gone", F.col("gone_ms").isNotNull())
        .withColumns(
            {
                "to_ms": F.coalesce("gone_ms", "end_ms"),
                "is_open": ~is_dismissed & F.col("from_pos").isNull() & ~F.col("is_gone"),
                "end_pos": F.when(
                    ~F.col("is_gone"),
                    F.when(is_dismissed, F.col("dismissal.pos")).otherwise(F.col("from_pos")),
                ),
                "next_holder": F.when(~is_dismissed & ~F.col("is_gone"), F.col("next_holder")),
                "rebalance": F.when(F.col("is_gone"), F.col("first_rebalance")).otherwise(
                    F.col("last_rebalance")
                ),
            }
        )
    )


def costs(gaping: DataFrame, rebalances: DataFrame) -> DataFrame:
    """For how long partitions stood still because of each rebalance.

    A gap counts for the rebalances that end while it lasts, for each from the end of the one
    before.  A gap that ended with its topic ended before the rebalance that the deletion caused.
    """
    ends_later = F.when(F.col("end_pos").isNotNull(), F.col("ended_pos") <= F.col("end_pos"))
    lasts = F.col("is_open") | F.coalesce(ends_later, F.col("ended_ms") < F.col("to_ms"))
    by_number = Window.partitionBy("group").orderBy("rebalance")
    ends = rebalances.select(
        *("group", "rebalance", "ended_ms", "ended_pos"),
        F.lag("ended_ms").over(by_number).alias("paid_until_ms"),
    )
    since_ms = F.greatest("from_ms", "paid_until_ms")
    return (
        gaping.select(
            *("group", "from_ms", "to_ms", "end_pos", "is_open"),
            F.explode(F.sequence("first_rebalance", "last_rebalance")).alias("rebalance"),
        )
        .join(ends, ["group", "rebalance"], how="inner")
        .where(lasts)
        .groupBy("group", "rebalance")
        .agg(F.sum(F.greatest(F.col("ended_ms") - since_ms, F.lit(0))).alias("stopped_ms"))
    )
