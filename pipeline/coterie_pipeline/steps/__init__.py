"""From lines to tables: pure functions from DataFrames to DataFrames, one after the other.

Nothing here reads or writes.  Spark optimizes a plan as a whole, and a plan of all steps would be
too large for that; so `make_tables` hands the result of each stage to `materialize`, which stores
it and returns a DataFrame that starts from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.advice import advice
from coterie_pipeline.steps.commits import commits
from coterie_pipeline.steps.faults import costs, faults, gaps, overlaps
from coterie_pipeline.steps.health import health
from coterie_pipeline.steps.lines import each_once, in_order, is_kind, segments
from coterie_pipeline.steps.nodes import nodes, unread
from coterie_pipeline.steps.ownership import intervals, ownership
from coterie_pipeline.steps.parsing import COMMITS, CONTROL, parse
from coterie_pipeline.steps.rebalances import numbered, rebalances, with_costs
from coterie_pipeline.steps.sessions import sessions
from coterie_pipeline.steps.statements import identities, kept, statements

__all__ = [
    "STAGES",
    "Materialize",
    "Stage",
    "checkpoint",
    "coalesced",
    "make_tables",
    "parse",
    "stages_for",
]

#: Stores the result of a stage, and returns a DataFrame that reads it.
Materialize = Callable[[str, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Stage:
    """A step, and the stages whose results it takes."""

    name: str
    sources: tuple[str, ...]
    step: Callable[..., DataFrame]
    #: A cheap step is repeated by each stage that needs its result.
    is_materialized: bool = True

    @property
    def is_table(self) -> bool:
        """Whether it makes a table, rather than an intermediate result."""
        return not self.name.startswith("_")


def _control(once: DataFrame) -> DataFrame:
    return once.where(F.col("part") == CONTROL).transform(in_order).transform(numbered)


def _horizons(once: DataFrame) -> DataFrame:
    """The time of the last line about each group."""
    return once.where("`group` != ''").groupBy("group").agg(F.max("ts").alias("horizon_ms"))


def _deletions(once: DataFrame) -> DataFrame:
    """When each topic was deleted."""
    return (
        once.where(is_kind("topic_changed") & (F.col("change") == "deleted"))
        .groupBy("topic")
        .agg(F.array_sort(F.collect_list("ts")).alias("deleted_ms"))
    )


def _rebalances(control: DataFrame, known: DataFrame) -> DataFrame:
    return rebalances(control, kept(control, known))


def _commits(once: DataFrame, ends: DataFrame) -> DataFrame:
    return commits(once.where(F.col("part") == COMMITS), ends)


#: Each stage comes after those whose results it takes.
STAGES: Final = (
    Stage("unread", ("bronze",), unread),
    Stage("_segments", ("bronze",), segments),
    Stage("_once", ("bronze", "_segments"), each_once, is_materialized=False),
    Stage("_control", ("_once",), _control),
    Stage("nodes", ("bronze", "_segments", "_once", "_control"), nodes),
    Stage("_horizons", ("_once",), _horizons),
    Stage("_deletions", ("_once",), _deletions),
    Stage("_identities", ("_control",), identities),
    Stage("_statements", ("_control", "_identities"), statements),
    Stage("_intervals", ("_control", "_statements", "_identities", "_horizons"), intervals),
    Stage("_rebalances", ("_control", "_identities"), _rebalances),
    Stage("_gaps", ("_control", "_intervals", "_rebalances", "_deletions", "_horizons"), gaps),
    Stage("_costs", ("_gaps", "_rebalances"), costs),
    Stage("_overlaps", ("_intervals",), overlaps),
    Stage("rebalances", ("_rebalances", "_costs"), with_costs),
    Stage("ownership", ("_intervals",), ownership),
    Stage("ownership_faults", ("_overlaps", "_gaps"), faults),
    Stage("member_sessions", ("_control", "_identities"), sessions),
    Stage("commits", ("_once", "ends"), _commits),
    Stage(
        "group_health",
        (
            *("rebalances", "ownership", "ownership_faults", "member_sessions", "commits"),
            "_horizons",
        ),
        health,
    ),
    Stage(
        "advice",
        (
            *("nodes", "unread", "rebalances", "ownership_faults", "member_sessions", "commits"),
            "_control",
        ),
        advice,
    ),
)


def stages_for(names: Iterable[str]) -> tuple[Stage, ...]:
    """The stages that some tables need."""
    needed = set(names)
    for stage in reversed(STAGES):
        if stage.name in needed:
            needed.update(stage.sources)
    return tuple(stage for stage in STAGES if stage.name in needed)


def checkpoint(_name: str, rows: DataFrame) -> DataFrame:
    """Store a result in Spark's own memory."""
    return rows.localCheckpoint()


def coalesced(rows: DataFrame) -> DataFrame:
    """All rows in one partition if any shuffle would do the same, so that no step shuffles."""
    return rows.coalesce(1) if is_quick(rows.sparkSession) else rows


def make_tables(
    bronze: DataFrame,
    ends: DataFrame,
    materialize: Materialize = checkpoint,
    names: Iterable[str] | None = None,
) -> dict[str, DataFrame]:
    """Make every table, or those that are named, of parsed lines.

    `ends` has the known ends of partitions; see `commits.ENDS`.
    """
    wanted = STAGES if names is None else stages_for(names)
    results = {"bronze": coalesced(bronze), "ends": coalesced(ends)}
    for stage in wanted:
        made = stage.step(*(results[source] for source in stage.sources))
        results[stage.name] = (
            coalesced(materialize(stage.name, made)) if stage.is_materialized else made
        )
    tables = {stage.name for stage in wanted if stage.is_table}
    return {name: result for name, result in results.items() if name in tables}
