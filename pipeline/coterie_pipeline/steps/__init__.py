"""From lines to tables: functions from DataFrames to DataFrames, and their order.

Nothing here reads or writes.  `make_tables` hands each table to `materialize` once, which stores it
and returns a DataFrame that starts from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from coterie_pipeline.advice.journals import about_nodes, about_unread
from coterie_pipeline.schema import struct_of
from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.arrow import frame_of
from coterie_pipeline.steps.commits import with_lag
from coterie_pipeline.steps.groups import Whole, outputs
from coterie_pipeline.steps.lines import each_once, of_groups
from coterie_pipeline.steps.nodes import Facts, ends_ms, facts, nodes, unread
from coterie_pipeline.steps.parsing import parse
from coterie_pipeline.steps.survey import Segment, survey
from coterie_pipeline.tables import ADVICE, COMMITS, NODES, TABLES, Table
from coterie_pipeline.tables import UNREAD as UNREAD_LINES

__all__ = ["CLOCKS", "REPLAY", "Making", "Materialize", "checkpoint", "make_tables", "parse"]

#: Stores a table, and returns a DataFrame that reads it.
Materialize = Callable[[str, DataFrame], DataFrame]

#: What is stored besides the tables, as several are made of it.
REPLAY: Final = "_replay"
#: How far nodes' clocks are behind others', by group: the table `nodes` is made of it.
CLOCKS: Final = "_clocks"


def checkpoint(_name: str, rows: DataFrame) -> DataFrame:
    """Store a result in Spark's own memory."""
    return rows.localCheckpoint()


def make_tables(
    bronze: DataFrame,
    ends: DataFrame | None = None,
    materialize: Materialize = checkpoint,
    names: Iterable[str] | None = None,
) -> dict[str, DataFrame]:
    """Make every table, or those that are named, of parsed lines.

    `ends` has the known ends of partitions; see `commits.ENDS`.
    """
    making = Making(bronze, materialize, ends)
    wanted = [table.name for table in TABLES] if names is None else list(names)
    return {name: materialize(name, making.table(name)) for name in wanted}


class Making:
    """What tables are made of, each found once, when it is needed."""

    def __init__(
        self, bronze: DataFrame, materialize: Materialize, ends: DataFrame | None = None
    ) -> None:
        self._bronze = _coalesced(bronze)
        self._materialize = materialize
        self._ends = ends
        self._only: Sequence[str] | None = None

    def restrict(self, groups: Sequence[str]) -> None:
        """Make the rows of these groups only, and those that are about no group."""
        self._only = groups

    def table(self, name: str) -> DataFrame:
        """The rows of a table."""
        match name:
            case NODES.name:
                return self.local(NODES, self.nodes)
            case UNREAD_LINES.name:
                return unread(self._bronze)
            case ADVICE.name:
                return self.advice()
            case COMMITS.name if self._ends is not None:
                return with_lag(self.output(name), _coalesced(self._ends))
            case _:
                return self.output(name)

    def output(self, name: str) -> DataFrame:
        """What the pass over the groups gives, of one kind."""
        found = self._outputs
        if isinstance(found, DataFrame):
            return found.where(F.col(name).isNotNull()).select(f"{name}.*")
        return found[name]

    def local(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
        """A few rows."""
        schema = struct_of(table.ddl)
        found = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema))
        return frame_of(self._bronze.sparkSession, found, schema)

    def advice(self) -> DataFrame:
        """About groups, and about the journals."""
        rows = (*about_nodes(self.nodes), *about_unread(self.facts.unread))
        return self.output(ADVICE.name).unionByName(self.local(ADVICE, rows))

    @cached_property
    def nodes(self) -> list[dict[str, Any]]:
        """The rows of the table."""
        behind_ms: dict[str, int] = {}
        for row in self._materialize(CLOCKS, self.output("clocks")).collect():
            behind_ms[row.node] = max(behind_ms.get(row.node, 0), row.behind_ms)
        return nodes(self.segments, self.facts, behind_ms)

    @cached_property
    def segments(self) -> list[Segment]:
        """The files that were read."""
        return survey(self._bronze)

    @cached_property
    def _once(self) -> DataFrame:
        """The lines that count."""
        return each_once(self._bronze, self.segments)

    @cached_property
    def facts(self) -> Facts:
        """What some lines say of nodes and topics."""
        return facts(self._bronze, self._once, self.segments)

    @cached_property
    def whole(self) -> Whole:
        """What matters for each group."""
        found = self.facts
        ends = ends_ms(self.segments, found)
        return Whole(found.deletions, ends, found.givings, found.clocks)

    @cached_property
    def _outputs(self) -> DataFrame | Mapping[str, DataFrame]:
        """All that the pass over the groups gives."""
        once = self._once if self._only is None else of_groups(self._once, self._only)
        found = outputs(once, self.whole)
        return self._materialize(REPLAY, found) if isinstance(found, DataFrame) else found


def _coalesced(rows: DataFrame) -> DataFrame:
    """All rows in one partition if any shuffle would do the same, so that no step shuffles."""
    return rows.coalesce(1) if is_quick(rows.sparkSession) else rows
