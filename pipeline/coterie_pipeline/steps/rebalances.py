"""The table `rebalances`: the cause of each, the members it waited for, its end and its cost."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie_pipeline.steps.lines import before, is_kind, so_far
from coterie_pipeline.tables import REBALANCES

__all__ = ["numbered", "rebalances", "with_costs"]

_STARTED: Final = "rebalance_started"
_JOINED: Final = "phase_joined"
_COMPLETED: Final = "rebalance_completed"
_EMPTIED: Final = "group_emptied"
_RECOVERED: Final = "group_recovered"


def numbered(control: DataFrame) -> DataFrame:
    """Ordered lines with the `rebalance` that they belong to or come after, and more columns.

    - `rebalance`: the number of the latest one that had begun; 0 before the first.
    - `is_running`: whether the line is one of those between its beginning and its end.
    - `epoch`: how many generations had begun before the line.
    - `is_known`: whether it was known before the line who owned what.
    """
    of_rebalance = Window.partitionBy("group", "rebalance")
    mark = F.when(is_kind(_STARTED, _JOINED) | _ends(), F.col("kind"))
    previous = F.coalesce(F.last("mark", ignorenulls=True).over(before()), F.lit(""))
    begins = (
        is_kind(_STARTED)
        | (is_kind(_JOINED) & (previous != _STARTED))
        | (is_kind(_COMPLETED) & ~previous.isin(_STARTED, _JOINED))
    )
    knows = (
        F.when(is_kind(_COMPLETED, _RECOVERED), F.col("assigned").isNotNull())
        .when(is_kind(_EMPTIED), F.lit(True))
        .when(is_kind(_STARTED) & (F.col("from_state") == "Empty"), F.lit(True))
    )
    end_pos = F.min(F.when(_ends(), F.col("pos"))).over(of_rebalance)
    return (
        control.withColumn("mark", mark)
        .withColumn("rebalance", F.sum(F.when(begins, 1).otherwise(0)).over(so_far()))
        .withColumn(
            "is_running", (F.col("rebalance") > 0) & (F.col("pos") <= F.coalesce(end_pos, "pos"))
        )
        .withColumns(
            {
                "epoch": F.coalesce(
                    F.sum(F.when(is_kind(_JOINED, _EMPTIED), 1).otherwise(0)).over(before()),
                    F.lit(0),
                ),
                "is_known": F.coalesce(
                    F.last(knows, ignorenulls=True).over(before()), F.lit(False)
                ),
                "began_at": _beginning(),
            }
        )
        .drop("mark")
    )


def _beginning() -> Column:
    """When a rebalance began; if its first line is missing, as worked out from the next ones."""
    begun_at = {
        _STARTED: F.col("at"),
        _JOINED: F.col("at") - F.col("took_ms"),
        _COMPLETED: F.col("at") - F.col("total_ms"),
    }
    of_rebalance = Window.partitionBy("group", "rebalance")
    return F.coalesce(
        *(
            F.max(F.when(F.col("is_running") & is_kind(kind), when)).over(of_rebalance)
            for kind, when in begun_at.items()
        )
    )


def _ends() -> Column:
    """Lines that end a rebalance; if a group is read back in the middle of one, it goes on."""
    is_in_one = F.col("state").isin("PreparingRebalance", "CompletingRebalance")
    return is_kind(_COMPLETED, _EMPTIED) | (is_kind(_RECOVERED) & ~is_in_one)


def _by_number() -> WindowSpec:
    return Window.partitionBy("group").orderBy("rebalance")


def rebalances(lines: DataFrame, kept: DataFrame) -> DataFrame:
    """Rebalances without their costs; `kept` has the partitions that stayed, by rebalance."""
    return (
        lines.where("is_running")
        .groupBy("group", "rebalance")
        .agg(*_gathered())
        .transform(_with_end)
        .join(_comings_and_goings(lines), ["group", "epoch"], how="left")
        .withColumns({name: F.coalesce(name, _no_members()) for name in ("came", "went")})
        .transform(_with_chain)
        .join(kept, ["group", "rebalance"], how="left")
        .select("*", *_columns())
    )


def with_costs(rebalances: DataFrame, costs: DataFrame) -> DataFrame:
    """The table: the result of `rebalances`, with the time that partitions stood still."""
    is_paid = F.col("outcome").isin("completed", "superseded", "emptied") & F.col("knew_owners")
    cost = F.when(is_paid, F.coalesce("stopped_ms", F.lit(0)))
    return (
        rebalances.join(costs, ["group", "rebalance"], how="left")
        .withColumn("stopped_partition_ms", cost)
        .select(*REBALANCES.names)
    )


# -- one row for each --------------------------------------------------------------------------


def _gathered() -> list[Column]:
    """The lines of a rebalance, with a struct for each kind."""
    return [
        F.min_by("node", "pos").alias("node"),
        F.min_by("is_known", "pos").alias("knew_owners_at_start"),
        F.max("began_at").alias("started_ms"),
        F.min("pos").alias("began_pos"),
        _the(
            is_kind(_STARTED),
            "started",
            "generation",
            "from_state",
            "cause",
            "detail",
            "follows",
            "awaited",
        ),
        _the(
            is_kind(_JOINED),
            "joined",
            *("at", "pos", "epoch", "generation", "protocol", "leader", "dropped", "cause"),
            F.col("phase_joined_members").alias("members"),
        ),
        _the(
            is_kind(_COMPLETED),
            "completed",
            *("at", "pos", "generation", "cause", "moved", "revoked", "needs_rejoin"),
            *("took_ms", "total_ms", "is_known"),
        ),
        _the(is_kind(_EMPTIED), "emptied", "at", "pos", "epoch", "generation", "is_known"),
        _the(is_kind(_RECOVERED) & _ends(), "interrupted", "at", "pos"),
        _all("member_gone", "gone", "pos", "member", "instance", "host", "at", "how"),
        _all("id_unclaimed", "unclaimed", "pos", "member", "at"),
        _all("member_replaced", "replaced", "pos", "member", "former_member"),
    ]


def _the(which: Column, name: str, *fields: str | Column) -> Column:
    """The only line of its kind in a rebalance."""
    return F.first(F.when(which, F.struct(*fields)), ignorenulls=True).alias(name)


def _all(kind: str, name: str, *fields: str) -> Column:
    """All lines of a kind in a rebalance."""
    rows = F.collect_list(F.when(is_kind(kind), F.struct(*fields)))
    return F.array_sort(rows).alias(name)


def _with_end(found: DataFrame) -> DataFrame:
    """How and when each ended."""
    next_ms = F.lead("started_ms").over(_by_number())
    next_pos = F.lead("began_pos").over(_by_number())
    outcome = (
        F.when(F.col("completed").isNotNull(), "completed")
        .when(F.col("emptied").isNotNull(), "emptied")
        .when(F.col("interrupted").isNotNull(), "interrupted")
        .when(next_ms.isNotNull(), "superseded")
        .otherwise("running")
    )
    ended = F.coalesce("completed.at", "emptied.at", "interrupted.at", next_ms)
    knew = F.coalesce(
        "completed.is_known",
        "emptied.is_known",
        F.lead("knew_owners_at_start").over(_by_number()),
        F.lit(False),
    )
    return found.withColumns(
        {
            "outcome": outcome,
            "ended_ms": ended,
            "ended_pos": F.coalesce("completed.pos", "emptied.pos", "interrupted.pos", next_pos),
            "joined_ms": F.coalesce(
                "joined.at", F.col("completed.at") - F.col("completed.took_ms")
            ),
            "knew_owners": knew,
            "epoch": F.coalesce("emptied.epoch", "joined.epoch"),
            "cause": F.coalesce("started.cause", "joined.cause", "completed.cause"),
        }
    )


#: How members go that have died, or seem to have.
_DEATHS: Final = ("session_expired", "registration_expired")


def _comings_and_goings(lines: DataFrame) -> DataFrame:
    """The members that came and went before each generation began."""

    def names(kind: str) -> Column:
        rows = F.collect_list(F.when(is_kind(kind), F.struct("pos", "member")))
        return F.array_sort(rows)["member"]

    is_death = is_kind("member_gone") & F.col("how").isin(*_DEATHS)
    return lines.groupBy("group", "epoch").agg(
        names("member_joined").alias("came"),
        names("member_gone").alias("went"),
        F.max(F.when(is_death, F.col("silent_ms"))).alias("detection_ms"),
    )


def _with_chain(found: DataFrame) -> DataFrame:
    """The rebalance that began the chain of follow-ups, and its cause."""
    so_far = _by_number().rowsBetween(Window.unboundedPreceding, 0)
    begins = F.col("started.follows").isNull() | (F.col("rebalance") == 1)
    root = F.last(F.when(begins, F.col("rebalance")), ignorenulls=True).over(so_far)
    chain = (
        Window.partitionBy("group", "root")
        .orderBy("rebalance")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    return found.withColumn("root", F.coalesce(root, "rebalance")).withColumns(
        {
            "root_cause": F.first("cause").over(chain),
            "cause_chain": F.collect_list("cause").over(chain),
        }
    )


def _columns() -> list[Column]:
    """The columns of the table that still have to be computed or renamed."""
    return [
        *(F.col(f"started.{name}") for name in ("from_state", "detail", "follows")),
        F.coalesce(
            "emptied.generation", "joined.generation", "completed.generation", "started.generation"
        ).alias("generation"),
        *(F.col(f"joined.{name}") for name in ("protocol", "leader")),
        F.size("joined.members").cast("bigint").alias("members"),
        F.coalesce("joined.dropped", _no_members()).alias("dropped"),
        F.col("started.awaited"),
        _late().alias("late"),
        (F.col("joined_ms") - F.col("started_ms")).alias("prepare_ms"),
        (F.col("completed.at") - F.col("joined_ms")).alias("complete_ms"),
        (F.col("ended_ms") - F.col("started_ms")).alias("total_ms"),
        *(F.col(f"completed.{name}") for name in ("moved", "revoked", "needs_rejoin")),
    ]


def _no_members() -> Column:
    return F.array().cast("array<string>")


def _late() -> Column:
    """The members that were awaited and did not join at once, the slowest first."""
    awaited = F.coalesce("started.awaited", _no_members())
    # A static member may have come back more than once.
    all_awaited = F.aggregate(
        "replaced",
        awaited,
        lambda names, row: F.when(
            F.array_contains(names, row["former_member"]), F.array_append(names, row["member"])
        ).otherwise(names),
    )

    def after(when: Column) -> Column:
        return when - F.col("started_ms")

    joined = F.transform(
        F.filter(
            F.coalesce("joined.members", F.array()),
            lambda row: (
                F.array_contains(all_awaited, row["member"])
                & (F.coalesce(row["joined_after_ms"], F.lit(1)) > 0)
            ),
        ),
        lambda row: _late_one(
            F.coalesce(row["joined_after_ms"], after(F.col("joined.at"))),
            row,
            F.when(row["joined_after_ms"].isNull(), "away").otherwise("joined"),
        ),
    )
    is_before = F.coalesce(F.col("joined.pos"), F.lit(2**62))
    gone = F.transform(
        F.filter(
            "gone",
            lambda row: F.array_contains(all_awaited, row["member"]) & (row["pos"] < is_before),
        ),
        lambda row: _late_one(after(row["at"]), row, row["how"]),
    )
    unclaimed = F.transform(
        F.filter("unclaimed", lambda row: row["pos"] < is_before),
        lambda row: _late_one(after(row["at"]), row, F.lit("unclaimed"), named=False),
    )
    slowest_first = F.array_sort(F.concat(joined, gone, unclaimed))
    return F.transform(
        slowest_first,
        lambda row: F.struct(
            row["member"].alias("member"),
            row["instance"].alias("instance"),
            row["host"].alias("host"),
            (-row["minus_ms"]).alias("after_ms"),
            row["how"].alias("how"),
        ),
    )


def _late_one(after: Column, row: Column, how: Column, *, named: bool = True) -> Column:
    """A member that was late, as a struct that sorts the slowest first."""
    return F.struct(
        (-after).alias("minus_ms"),
        row["member"].alias("member"),
        (row["instance"] if named else F.lit(None).cast("string")).alias("instance"),
        (row["host"] if named else F.lit("")).alias("host"),
        how.alias("how"),
    )
