"""The table `member_sessions`: memberships, and members that keep coming back."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import is_kind
from coterie_pipeline.tables import SESSIONS

__all__ = ["sessions"]

_HOUR_MS: Final = 3_600_000
#: So many returns within an hour count as flapping.
_FLAPPING: Final = 3

_KEY: Final = ["group", "member", "n"]

#: The fields of a join that a static member keeps when it comes back.
_TOLD_BY_JOIN: Final = (
    "client_id",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "protocols",
    "topics",
)


def sessions(lines: DataFrame, known: DataFrame) -> DataFrame:
    """The table."""
    return (
        _signs(lines)
        .transform(_in_sessions)
        .join(_closings(lines), "group", how="left")
        .transform(_ended)
        .join(known, ["group", "member"], how="left")
        .transform(_with_identity)
        .transform(_with_returns)
        .select(*SESSIONS.names)
    )


def _signs(lines: DataFrame) -> DataFrame:
    """The lines that show that a member came, went or is there."""
    came = lines.where(is_kind("member_joined", "member_replaced")).select(
        *("group", "member", "pos"),
        F.struct(
            *("at", "kind", F.col("reason")),
            *(F.col(name) for name in _TOLD_BY_JOIN),
        ).alias("begin"),
    )
    went = lines.where(is_kind("member_gone", "member_replaced")).select(
        "group",
        F.coalesce("former_member", "member").alias("member"),
        "pos",
        F.struct(
            "at",
            F.coalesce("how", F.lit("replaced")).alias("how"),
            *("silent_ms", "session_timeout_ms", "reason"),
        ).alias("end"),
    )
    there = lines.select(
        *("group", "pos"),
        F.explode(
            F.coalesce(F.col("phase_joined_members")["member"], "group_recovered_members")
        ).alias("member"),
    )
    return (
        came.unionByName(went, allowMissingColumns=True)
        .unionByName(there, allowMissingColumns=True)
        .withColumn("is_end", F.col("end").isNotNull())
    )


def _in_sessions(signs: DataFrame) -> DataFrame:
    """One row for each membership; `n` is 0 for one that was there before the journal begins."""
    of_member = Window.partitionBy("group", "member").orderBy("pos", "is_end")
    so_far = of_member.rowsBetween(Window.unboundedPreceding, 0)
    n = F.sum(F.when(F.col("begin").isNotNull(), 1).otherwise(0)).over(so_far)
    by_n = Window.partitionBy("group", "member").orderBy("n")
    return (
        signs.withColumn("n", n)
        .groupBy(*_KEY)
        .agg(
            F.min("pos").alias("first_pos"),
            F.min_by("begin", F.when(F.col("begin").isNotNull(), F.col("pos"))).alias("begin"),
            F.min_by("end", F.when(F.col("is_end"), F.col("pos"))).alias("end"),
            F.min(F.when(F.col("is_end"), F.col("pos"))).alias("end_pos"),
        )
        .withColumn("next_at", F.lead("begin.at").over(by_n))
    )


def _closings(lines: DataFrame) -> DataFrame:
    """By group, the lines that end memberships without an end of their own."""
    is_closing = is_kind("group_emptied", "group_deleted", "group_recovered")
    return (
        lines.where(is_closing)
        .groupBy("group")
        .agg(
            F.array_sort(
                F.collect_list(
                    F.struct("pos", "at", "kind", F.col("group_recovered_members").alias("members"))
                )
            ).alias("closings")
        )
    )


def _ended(found: DataFrame) -> DataFrame:
    """How and when each membership ended."""

    def is_without(line: Column) -> Column:
        return (line["pos"] > F.col("first_pos")) & (
            line["members"].isNull() | ~F.array_contains(line["members"], F.col("member"))
        )

    names = F.create_map(
        *(F.lit(text) for text in ("group_emptied", "emptied", "group_deleted", "deleted")),
        *(F.lit(text) for text in ("group_recovered", "lost")),
    )
    return found.withColumn("closing", F.get(F.filter("closings", is_without), F.lit(0))).select(
        *_KEY,
        *("first_pos", "end_pos"),
        F.col("begin.at").alias("joined_ms"),
        F.coalesce("end.at", "next_at", "closing.at").alias("ended_ms"),
        F.when(F.col("begin").isNull(), "known")
        .when(F.col("begin.kind") == "member_replaced", "replaced")
        .otherwise("joined")
        .alias("began"),
        F.coalesce(
            "end.how",
            F.when(F.col("next_at").isNotNull(), "lost"),
            names[F.col("closing.kind")],
            F.lit("open"),
        ).alias("ended"),
        F.col("end.silent_ms"),
        F.col("begin.reason").alias("join_reason"),
        F.col("end.reason").alias("leave_reason"),
        F.col("end.session_timeout_ms").alias("told_timeout_ms"),
        *(F.col(f"begin.{name}") for name in _TOLD_BY_JOIN),
    )


def _with_identity(found: DataFrame) -> DataFrame:
    """Add the identity; a static member inherits the fields of its earlier joins."""
    before = (
        Window.partitionBy("group", "instance")
        .orderBy("first_pos", "member")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    is_static = F.col("instance").isNotNull()
    inherited = {
        name: F.when(is_static, F.last(name, ignorenulls=True).over(before)).otherwise(F.col(name))
        for name in _TOLD_BY_JOIN
    }
    return found.withColumns(inherited).withColumns(
        {
            "session_timeout_ms": F.coalesce("session_timeout_ms", "told_timeout_ms"),
            "kind": F.when(is_static, "static").otherwise("dynamic"),
            "identity": F.coalesce("instance", F.concat("client_id", F.lit("@"), "host"), "member"),
        }
    )


def _with_returns(found: DataFrame) -> DataFrame:
    """How often each identity had returned within the hour, and when it returned next."""
    of_identity = Window.partitionBy("group", "identity")
    within_hour = of_identity.orderBy("ms").rangeBetween(-_HOUR_MS, 0)
    in_order = of_identity.orderBy("pos", F.desc("what"), "member")
    from_then_on = in_order.rowsBetween(1, Window.unboundedFollowing)
    by_itself = ~F.col("ended").isin("emptied", "deleted", "lost", "open")
    moments = F.array(
        F.struct(
            F.col("joined_ms").alias("ms"),
            F.col("first_pos").alias("pos"),
            F.lit("begin").alias("what"),
        ),
        F.struct(
            F.when(by_itself, F.col("ended_ms")).alias("ms"),
            F.col("end_pos").alias("pos"),
            F.lit("end").alias("what"),
        ),
    )
    # A member that was turned away at once is not its own return.
    is_own = by_itself & (F.col("ended_ms") == F.col("joined_ms"))
    is_end, is_begin = F.col("what") == "end", F.col("what") == "begin"
    by_session = (
        found.select(*_KEY, "identity", F.inline(moments))
        .where("ms is not null")
        .withColumns(
            {
                "returns": F.when(is_begin, F.sum(is_end.cast("bigint")).over(within_hour)),
                "back_ms": F.when(is_end, F.min(F.when(is_begin, F.col("ms"))).over(from_then_on)),
            }
        )
        .groupBy(*_KEY)
        .agg(F.max("returns").alias("returns"), F.max("back_ms").alias("back_ms"))
    )
    return (
        found.join(by_session, _KEY, how="left")
        .withColumns(
            {
                "returns": F.coalesce(F.col("returns") - is_own.cast("bigint"), F.lit(0)),
                "back_after_ms": F.col("back_ms") - F.col("ended_ms"),
            }
        )
        .withColumn("is_flapping", F.col("returns") >= _FLAPPING)
    )
