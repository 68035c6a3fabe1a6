"""What the coordinator knew about who owns what; intervals of ownership are made of this.

A *holder* is a static member's instance id, or a dynamic member's id.  A *statement* gives all
that one holder owns from then on: an assignment, a claim of the holder as it joins, the end of a
membership.  A *closing* is a line that ends the ownership of all holders that it does not mention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import before, is_kind, so_far

__all__ = ["identities", "kept", "snapshots", "statements"]

_COMPLETED: Final = "rebalance_completed"
_RECOVERED: Final = "group_recovered"


def identities(lines: DataFrame) -> DataFrame:
    """What is known of each member id: its instance and where it came from."""
    phase = lines.where(is_kind("phase_joined")).select(
        "group", "pos", F.inline("phase_joined_members")
    )
    named = lines.where(is_kind("member_joined", "member_gone", "member_replaced", "member_fenced"))
    former = named.where("former_member is not null").select(
        "group",
        "pos",
        F.col("former_member").alias("member"),
        "instance",
        F.col("former_host").alias("host"),
    )
    columns = ("group", "pos", "member", "instance", "host")
    return (
        named.select(*columns)
        .unionByName(phase.select(*columns))
        .unionByName(former)
        .groupBy("group", "member")
        .agg(
            F.max("instance").alias("instance"),
            F.max_by("host", F.when(F.col("host").isNotNull(), F.col("pos"))).alias("host"),
        )
    )


def snapshots(lines: DataFrame, known: DataFrame) -> DataFrame:
    """A row for each member of an assignment, or of a group that is read back."""
    return (
        lines.where(_is_readable())
        .select(
            *("group", "pos", "at", "kind", "generation"),
            F.explode("assigned").alias("member", "owns"),
        )
        .transform(_with_holder(known))
    )


def kept(lines: DataFrame, known: DataFrame) -> DataFrame:
    """For each completed rebalance, how many partitions stayed with their holders.

    And how many could have at best: a holder can keep as many as it had before and has now.
    """
    has_owners = _is_readable() & ~F.col("state").eqNullSafe("Empty")
    counted = lines.withColumns(
        {
            "snapshot": F.sum(F.when(_closes(), 1).otherwise(0)).over(so_far()),
            "has_former": F.last(F.when(_closes(), has_owners), ignorenulls=True).over(before()),
        }
    ).where(_is_readable())
    by_holder = (
        snapshots(counted, known)
        .join(counted.select("group", "pos", "snapshot"), ["group", "pos"], how="inner")
        .select("group", "snapshot", "holder", _partitions_of("owns").alias("owns"))
        .transform(_stayed)
    )
    has_both = F.when(F.col("has_former"), F.lit(True))
    return (
        counted.where(is_kind(_COMPLETED))
        .join(by_holder, ["group", "snapshot"], how="left")
        .select(
            *("group", "rebalance"),
            F.size(
                F.array_distinct(F.flatten(F.transform(F.map_values("assigned"), _partitions_of)))
            )
            .cast("bigint")
            .alias("partitions"),
            F.when(has_both, F.coalesce("kept", F.lit(0))).alias("kept"),
            F.when(has_both, F.coalesce("keepable", F.lit(0))).alias("keepable"),
        )
    )


def _stayed(owned: DataFrame) -> DataFrame:
    """By snapshot, how many partitions are with the holders of the snapshot before."""
    by_snapshot = Window.partitionBy("group", "holder").orderBy("snapshot")
    is_next = F.lag("snapshot").over(by_snapshot) == F.col("snapshot") - 1
    former = F.coalesce(F.when(is_next, F.lag("owns").over(by_snapshot)), F.array())
    return (
        owned.withColumn("former", former)
        .groupBy("group", "snapshot")
        .agg(
            F.sum(F.size(F.array_intersect("owns", "former"))).alias("kept"),
            F.sum(F.least(F.size("owns"), F.size("former"))).alias("keepable"),
        )
    )


def _is_readable() -> Column:
    return is_kind(_COMPLETED, _RECOVERED) & F.col("assigned").isNotNull()


def _partitions_of(owns: str | Column) -> Column:
    """A map of numbers by topic as an array of partitions."""
    by_topic = F.transform(
        F.map_entries(owns),
        lambda entry: F.transform(
            entry["value"],
            lambda number: F.struct(entry["key"].alias("topic"), number.alias("partition")),
        ),
    )
    return F.array_distinct(F.flatten(by_topic))


def statements(lines: DataFrame, known: DataFrame) -> DataFrame:
    """All statements in order, each with what came after it.

    `owns` is an array of partitions.  `k` counts a holder's statements, with a jump wherever
    something else ended what it had.
    `next` is what ended it: the holder's next statement, or a closing.
    """
    found = (
        snapshots(lines, known)
        .unionByName(_claims(lines, known), allowMissingColumns=True)
        .unionByName(_ends(lines, known), allowMissingColumns=True)
    )
    closings = lines.where(_closes()).select(
        "group", "pos", "at", "kind", F.lit(True).alias("is_closing")
    )
    in_order = Window.partitionBy("group").orderBy(
        "pos", F.desc_nulls_last("is_closing"), "holder", "member"
    )
    after = in_order.rowsBetween(1, Window.unboundedFollowing)
    closing = F.first(
        F.when(F.col("is_closing"), F.struct("pos", "at", "kind")), ignorenulls=True
    ).over(after)
    return (
        found.unionByName(closings, allowMissingColumns=True)
        .withColumn("closing", closing)
        .where("is_closing is null")
        .withColumn("owns", _partitions_of("owns"))
        .transform(_with_next)
    )


def _with_next(found: DataFrame) -> DataFrame:
    """Statements with the kind of the one before and with what comes next."""
    own = F.struct(
        *("pos", "at", "kind", "how", "silent_ms", "session_timeout_ms"),
        F.lit(False).alias("is_closing"),
    )
    by_closing = F.struct(
        *(F.col(f"closing.{name}").alias(name) for name in ("pos", "at", "kind")),
        F.lit(None).cast("string").alias("how"),
        *(F.lit(None).cast("bigint").alias(name) for name in ("silent_ms", "session_timeout_ms")),
        F.lit(True).alias("is_closing"),
    )
    is_closed = F.col("closing").isNotNull() & (
        F.col("own.pos").isNull() | (F.col("closing.pos") < F.col("own.pos"))
    )
    former = _of_holder().rowsBetween(Window.unboundedPreceding, -1)
    # A member that is away has not received assignments, although they name it.
    own_word = F.when(is_kind("phase_joined", "member_gone"), F.col("at"))
    after_next = _of_holder().rowsBetween(2, Window.unboundedFollowing)
    return (
        found.withColumns(
            {
                "own": F.lead(own).over(_of_holder()),
                "own_after_ms": F.first(own_word, ignorenulls=True).over(after_next),
                "former_kind": F.lag("kind").over(_of_holder()),
            }
        )
        .withColumn("is_closed", is_closed)
        .withColumn("next", F.when(F.col("is_closed"), by_closing).otherwise(F.col("own")))
        .withColumn(
            "k",
            # A larger step than any that continues an interval.
            F.coalesce(F.sum(F.when(F.col("is_closed"), 4).otherwise(1)).over(former), F.lit(0)),
        )
        .drop("closing", "own", "is_closed")
    )


def _claims(lines: DataFrame, known: DataFrame) -> DataFrame:
    """What members claim to own as they join."""
    # After a restart in the middle of a phase, a node counts from the restart; and where time
    # stands still because a clock was set back, no join is later than the end of the phase.
    since_ms = F.greatest("began_at", F.col("at") - F.col("took_ms"))
    return (
        lines.where(is_kind("phase_joined"))
        .select(
            *("group", "pos", "kind", "generation"),
            F.col("at").alias("joined_at"),
            since_ms.alias("since_ms"),
            F.inline("phase_joined_members"),
        )
        .where("joined_after_ms is not null")
        .select(
            *("group", "pos", "kind", "generation", "member"),
            F.least(F.col("since_ms") + F.col("joined_after_ms"), "joined_at").alias("at"),
            F.col("owned").alias("owns"),
        )
        .transform(_with_holder(known))
    )


def _ends(lines: DataFrame, known: DataFrame) -> DataFrame:
    """Members that are gone, and so own nothing."""
    return (
        lines.where(is_kind("member_gone"))
        .select("group", "pos", "at", "kind", "member", "how", "silent_ms", "session_timeout_ms")
        .transform(_with_holder(known))
    )


def _closes() -> Column:
    """Lines that end the ownership of all holders that they do not mention."""
    starts_empty = is_kind("rebalance_started") & (F.col("from_state") == "Empty")
    return is_kind(_COMPLETED, _RECOVERED, "group_emptied", "group_deleted") | starts_empty


def _of_holder() -> WindowSpec:
    return Window.partitionBy("group", "holder").orderBy("pos")


def _with_holder(known: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Add the holder of each member id."""

    def step(rows: DataFrame) -> DataFrame:
        return rows.join(known, ["group", "member"], how="left").withColumn(
            "holder", F.coalesce("instance", "member")
        )

    return step
