"""From statements to intervals: who owned which partition, and from when until when."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import is_kind
from coterie_pipeline.tables import OWNERSHIP

__all__ = ["intervals", "ownership"]

#: Ends of a membership that its process may not know of yet.
_FORCED: Final = (
    "removed",
    "rebalance_expired",
    "sync_expired",
    "join_expired",
    "turned_away",
    "session_expired",
    "registration_expired",
)


def intervals(
    lines: DataFrame, statements: DataFrame, known: DataFrame, horizons: DataFrame
) -> DataFrame:
    """The rows of `ownership`, with the positions of the lines that began and ended them."""
    return (
        statements.select("*", F.inline("owns"))
        .transform(_in_runs)
        .join(F.broadcast(horizons), "group", how="inner")
        .transform(_bounded)
        .join(_replacements(lines), ["group", "instance"], how="left")
        .transform(_cut)
        .join(known.select("group", "member", "host"), ["group", "member"], how="left")
        .select(*OWNERSHIP.names, "from_pos", "to_pos", "has_held_on", "given_ms")
    )


def ownership(found: DataFrame) -> DataFrame:
    """The table."""
    return found.select(*OWNERSHIP.names)


def _of_holder() -> WindowSpec:
    return Window.partitionBy("group", "topic", "partition", "holder").orderBy("k")


def _in_runs(held: DataFrame) -> DataFrame:
    """Consecutive statements without an end in between, as one row.

    If an assignment takes a partition from a holder that then claims it as it joins, the holder has
    never let go of it.
    """
    step = F.col("k") - F.lag("k").over(_of_holder())
    has_held_on = (
        (step == 2)
        & (F.col("kind") == "phase_joined")
        & (F.col("former_kind") == "rebalance_completed")
    )
    goes_on = (step == 1) | has_held_on
    is_given = F.col("kind") != "phase_joined"
    given = F.struct("pos", "at", "generation")
    return (
        held.withColumns(
            {
                "run": F.sum(F.when(goes_on, 0).otherwise(1)).over(_of_holder()),
                "has_held_on": F.coalesce(has_held_on, F.lit(False)),
            }
        )
        .groupBy("group", "topic", "partition", "holder", "run")
        .agg(
            F.min_by(F.struct("pos", "at", "kind", "generation", "member", "instance"), "k").alias(
                "first"
            ),
            F.max_by(F.struct("next", "own_after_ms"), "k").alias("last"),
            F.max(F.when(is_given, given)).alias("given_last"),
            # Only static members are replaced.
            F.collect_list(F.when(is_given & F.col("instance").isNotNull(), given)).alias("given"),
            F.max("has_held_on").alias("has_held_on"),
        )
        .withColumn("instance", F.col("first.instance"))
    )


def _bounded(runs: DataFrame) -> DataFrame:
    """When each began and ended, and how."""
    kind, how = F.col("last.next.kind"), F.col("last.next.how")
    is_closing = F.col("last.next.is_closing")
    ended = (
        F.when(F.col("last.next").isNull(), "open")
        .when(kind == "group_emptied", "emptied")
        .when(kind == "group_deleted", "deleted")
        .when(is_closing | (kind == "group_recovered"), "lost")
        .when(kind == "rebalance_completed", "taken")
        .when(kind == "phase_joined", "let_go")
        .otherwise(how)
    )
    began = (
        F.when(F.col("first.kind") == "phase_joined", "claimed")
        .when(F.col("first.kind") == "group_recovered", "recovered")
        .otherwise("assigned")
    )
    to_ms = F.coalesce("last.next.at", "horizon_ms")
    return runs.withColumns(
        {
            "began": began,
            "ended": ended,
            "from_ms": F.col("first.at"),
            "to_ms": F.greatest(to_ms, "first.at"),
            "from_pos": F.col("first.pos"),
            "to_pos": F.col("last.next.pos"),
            "generation": F.col("first.generation"),
            "last_generation": F.coalesce("given_last.generation", "first.generation"),
            "given_ms": F.coalesce("given_last.at", "first.at"),
            "member": F.col("first.member"),
        }
    ).withColumn("released_ms", _released())


def _released() -> Column:
    """Until when the owner may have worked if it keeps to the rules."""
    lease_end = (
        F.col("to_ms") - F.col("last.next.silent_ms") + F.col("last.next.session_timeout_ms")
    )
    at_most = F.when(F.col("ended") == "taken", F.coalesce("last.own_after_ms", "horizon_ms")).when(
        F.col("ended").isin(*_FORCED), lease_end
    )
    return F.greatest("to_ms", at_most)


def _replacements(lines: DataFrame) -> DataFrame:
    """By instance, each time that a static member came back, and when its former process was told.

    A refused request shows that the former process was still there.
    """
    fenced = lines.where(is_kind("member_fenced")).select(
        "group", "instance", F.col("member").alias("former_member"), F.col("at").alias("told_at")
    )
    refused = fenced.groupBy("group", "instance", "former_member").agg(
        F.max("told_at").alias("told_at")
    )
    return (
        lines.where(is_kind("member_replaced"))
        .select("group", "instance", "pos", "at", "member", "former_member")
        .join(refused, ["group", "instance", "former_member"], how="left")
        .groupBy("group", "instance")
        .agg(
            F.array_sort(
                F.collect_list(F.struct("pos", "at", "member", "former_member", "told_at"))
            ).alias("replacements")
        )
    )


def _cut(whole: DataFrame) -> DataFrame:
    """Intervals of static members, cut where they came back under new member ids."""

    def is_within(row: Column) -> Column:
        return (row["pos"] > F.col("from_pos")) & (
            F.col("to_pos").isNull() | (row["pos"] < F.col("to_pos"))
        )

    uncut = F.array(F.struct(*_PIECE))
    pieces = F.transform(F.sequence(F.lit(0), F.size("cuts")), _piece)
    return (
        whole.withColumn("cuts", F.filter("replacements", is_within))
        .withColumn("piece", F.explode(F.when(F.size("cuts") > 0, pieces).otherwise(uncut)))
        .drop(*_PIECE)
        .select("*", "piece.*")
    )


_PIECE: Final = (
    "member",
    "from_ms",
    "to_ms",
    "released_ms",
    "from_pos",
    "to_pos",
    "began",
    "ended",
    "last_generation",
)


def _piece(number: Column) -> Column:
    """A piece of an interval, from the cut before it to the cut after it."""
    before = F.get("cuts", number - 1)
    after = F.get("cuts", number)
    is_first, is_last = before.isNull(), after.isNull()
    end = F.when(is_last, F.col("to_ms")).otherwise(F.greatest(after["at"], "from_ms"))
    refused = F.greatest(after["at"], after["told_at"], "from_ms")
    given = F.filter("given", lambda row: row["pos"] < after["pos"])
    values = {
        "member": F.when(is_last, before["member"]).otherwise(after["former_member"]),
        "from_ms": F.when(is_first, F.col("from_ms")).otherwise(
            F.greatest(before["at"], "from_ms")
        ),
        "to_ms": end,
        "released_ms": F.when(is_last, F.col("released_ms")).otherwise(refused),
        "from_pos": F.when(is_first, F.col("from_pos")).otherwise(before["pos"]),
        "to_pos": F.when(is_last, F.col("to_pos")).otherwise(after["pos"]),
        "began": F.when(is_first, F.col("began")).otherwise("replaced"),
        "ended": F.when(is_last, F.col("ended")).otherwise("replaced"),
        "last_generation": F.when(is_last, F.col("last_generation")).otherwise(
            F.coalesce(F.array_max(given)["generation"], "generation")
        ),
    }
    return F.struct(*(values[name].alias(name) for name in _PIECE))
