"""From lines to tables: functions from DataFrames to DataFrames, and their order.

Nothing here reads or writes.  `make_tables` hands each table to `materialize` once, which stores it
and returns a DataFrame that starts from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.advice import advice
from coterie_pipeline.steps.commits import commits
from coterie_pipeline.steps.health import health
from coterie_pipeline.steps.lines import each_once
from coterie_pipeline.steps.nodes import Facts, facts, nodes, unread
from coterie_pipeline.steps.parsing import COMMITS, parse
from coterie_pipeline.steps.replaying import OUTPUTS, output, replayed
from coterie_pipeline.steps.survey import Segment, survey
from coterie_pipeline.tables import FAULTS, OWNERSHIP, REBALANCES, SESSIONS, TABLES

__all__ = ["REPLAY", "Materialize", "checkpoint", "make_tables", "parse"]

#: Stores a table, and returns a DataFrame that reads it.
Materialize = Callable[[str, DataFrame], DataFrame]

#: What is stored besides the tables, as several are made of it.
REPLAY: Final = "_replay"


def checkpoint(_name: str, rows: DataFrame) -> DataFrame:
    """Store a result in Spark's own memory."""
    return rows.localCheckpoint()


def make_tables(
    bronze: DataFrame,
    ends: DataFrame,
    materialize: Materialize = checkpoint,
    names: Iterable[str] | None = None,
) -> dict[str, DataFrame]:
    """Make every table, or those that are named, of parsed lines.

    `ends` has the known ends of partitions; see `commits.ENDS`.
    """
    making = _Making(bronze, ends, materialize)
    wanted = [table.name for table in TABLES] if names is None else list(names)
    return {name: making.table(name) for name in wanted}


class _Making:
    """Tables in the making, each of which is made once, when it is needed."""

    def __init__(self, bronze: DataFrame, ends: DataFrame, materialize: Materialize) -> None:
        self._bronze = bronze
        self._ends = _coalesced(ends)
        self._materialize = materialize
        self._made: dict[str, DataFrame] = {}

    def table(self, name: str) -> DataFrame:
        """A table."""
        if name not in self._made:
            rows = _STEPS[name](self)
            self._made[name] = _coalesced(self._materialize(name, rows))
        return self._made[name]

    def output(self, name: str) -> DataFrame:
        """What replaying tells, of one kind."""
        return output(self.table(REPLAY), name)

    @cached_property
    def segments(self) -> list[Segment]:
        """The files that were read."""
        return survey(self._bronze)

    @cached_property
    def once(self) -> DataFrame:
        """The lines that count."""
        return each_once(_coalesced(self._bronze), self.segments)

    @cached_property
    def facts(self) -> Facts:
        """What some lines say of nodes and topics."""
        return facts(_coalesced(self._bronze), self.once, self.segments)

    @property
    def bronze(self) -> DataFrame:
        """All lines."""
        return self._bronze

    @property
    def ends(self) -> DataFrame:
        """Known ends of partitions."""
        return self._ends


def _coalesced(rows: DataFrame) -> DataFrame:
    """All rows in one partition if any shuffle would do the same, so that no step shuffles."""
    return rows.coalesce(1) if is_quick(rows.sparkSession) else rows


def _health(it: _Making) -> DataFrame:
    return health(
        it.output(REBALANCES.name),  # with the groups' horizons
        it.output(OWNERSHIP.name),
        it.output(FAULTS.name),
        it.output(SESSIONS.name),
        it.table("commits"),
    )


def _advice(it: _Making) -> DataFrame:
    return advice(
        it.table("nodes"),
        it.table("unread"),
        it.output(REBALANCES.name),
        it.output(FAULTS.name),
        it.output(SESSIONS.name),
        it.table("commits"),
        it.output("refusals"),
    )


def _replayed(name: str) -> Callable[[_Making], DataFrame]:
    return lambda it: it.output(name).select(
        *next(table.names for table in TABLES if table.name == name)
    )


_STEPS: Final[Mapping[str, Callable[[_Making], DataFrame]]] = {
    REPLAY: lambda it: replayed(it.once, it.facts.deleted_ms),
    "nodes": lambda it: nodes(it.segments, it.facts, it.output("clocks")),
    "unread": lambda it: unread(it.bronze),
    **{table.name: _replayed(table.name) for table in TABLES if table.name in OUTPUTS},
    "commits": lambda it: commits(it.once.where(F.col("part") == COMMITS), it.ends),
    "group_health": _health,
    "advice": _advice,
}
