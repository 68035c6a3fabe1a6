"""All tables about groups, in one pass: each group's lines in one task, in plain Python.

Of each group, the control lines come first, by node and number, and then the commits, by date or,
if one node wrote all of the journals, by number.  The pass makes rows of several tables.  In Spark,
one row of them has a column for each table, of which one is not null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from coterie_pipeline.advice import GroupAdvice
from coterie_pipeline.hourly.commits import Commits
from coterie_pipeline.hourly.health import Health
from coterie_pipeline.hourly.ordering import CommitOrder, Some
from coterie_pipeline.schema import struct_of
from coterie_pipeline.session import is_quick
from coterie_pipeline.steps.arrow import Batches, frame_of
from coterie_pipeline.steps.parsing import COMMITS, CONTROL
from coterie_pipeline.tables import (
    ADVICE,
    FAULTS,
    HEALTH,
    OWNERSHIP,
    REBALANCES,
    SESSIONS,
)
from coterie_pipeline.tables import COMMITS as COMMITS_TABLE
from coterie_protocol.replay import (
    ClockSteps,
    Deletion,
    Giving,
    GroupLines,
    Source,
    given_away_ms,
    in_time_of,
    replay_group,
)

__all__ = [
    "LINE_COLUMNS",
    "OUTPUTS",
    "Whole",
    "groups_of",
    "lines_by_group",
    "outputs",
    "rows_of_groups",
]

#: What comes out, by the name of the column, with its own columns.
OUTPUTS: Final[Mapping[str, str]] = {
    **{
        table.name: table.ddl
        for table in (REBALANCES, OWNERSHIP, FAULTS, SESSIONS, COMMITS_TABLE, HEALTH, ADVICE)
    },
    "clocks": "`group` STRING, node STRING, behind_ms BIGINT",
}

#: The columns of a control line that replaying takes.
LINE_COLUMNS: Final = ("group", "node", "seq", "ts", "line")

#: How many rows are handed to Spark at once.
_BATCH_ROWS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Whole:
    """What is known of journals as a whole, and matters for each group."""

    #: By topic, when it was deleted and by which node's clock, the earliest first.
    deletions: Mapping[str, Sequence[Deletion]] = field(default_factory=dict)
    #: By node, when its journal ends.
    ends_ms: Mapping[str, int] = field(default_factory=dict)
    #: By node, where it gives shards away.
    givings: Mapping[str, Sequence[Giving]] = field(default_factory=dict)
    #: By node, how its clock was set.
    clocks: Mapping[str, ClockSteps] = field(default_factory=dict)

    @property
    def is_of_one_node(self) -> bool:
        """Whether one node wrote all of it."""
        return len(self.ends_ms) == 1


def outputs(once: DataFrame, whole: Whole) -> DataFrame | Mapping[str, DataFrame]:
    """All that the lines of groups tell; each line is there once.

    It is one frame with a column for each output, or, if there are few lines, a frame of each.
    """
    lines = _lines(once.where("`group` != ''"), is_of_one_node=whole.is_of_one_node)
    if is_quick(lines.sparkSession):
        return _made_here(lines, whole)
    schema = ", ".join(f"{name} STRUCT<{_fields(ddl)}>" for name, ddl in OUTPUTS.items())
    return lines.mapInArrow(_passing(whole), schema)


def _lines(about_groups: DataFrame, *, is_of_one_node: bool) -> DataFrame:
    """The lines of groups in the order of the pass."""
    control = about_groups.where(F.col("part") == CONTROL).selectExpr(
        *("`group`", "true AS is_control", "-1L AS at", "node", "seq", "ts", "line AS text"),
        "'' AS member",
    )
    commits = about_groups.where(F.col("part") == COMMITS).selectExpr(
        *("`group`", "false AS is_control", f"{'0L' if is_of_one_node else 'ts'} AS at"),
        *("node", "seq", "ts"),
        *("offsets_committed_offsets AS text", "member"),
    )
    lines = _by_group(control.unionByName(commits))
    return lines.sortWithinPartitions("group", "at", "node", "seq").select(
        "group", "is_control", "node", "seq", "ts", "text", "member"
    )


def lines_by_group(lines: DataFrame) -> DataFrame:
    """Each group's control lines in one place, by node and number."""
    return _by_group(lines).sortWithinPartitions("group", "node", "seq")


def _by_group(lines: DataFrame) -> DataFrame:
    spark = lines.sparkSession
    # With a number of its own, as Spark would put small groups into one task, and so one process.
    return lines if is_quick(spark) else lines.repartition(_tasks(spark), "group")


def _tasks(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism


def _fields(ddl: str) -> str:
    """Columns as the fields of a struct."""
    return ", ".join(f"`{field.name}`: {field.dataType.simpleString()}" for field in struct_of(ddl))


def _made_here(lines: DataFrame, whole: Whole) -> dict[str, DataFrame]:
    found: dict[str, list[Any]] = {name: [] for name in OUTPUTS}
    for name, row in rows_of_groups(iter(lines.toArrow().to_batches()), whole):
        found[name].append(row)
    made = {}
    for name, rows in found.items():
        schema = struct_of(OUTPUTS[name])
        table = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema))
        made[name] = frame_of(lines.sparkSession, table, schema)
    return made


# -- the pass ----------------------------------------------------------------------------------


def _passing(whole: Whole) -> Callable[[Batches], Batches]:
    types = {
        name: pa.struct(list(to_arrow_schema(struct_of(ddl)))) for name, ddl in OUTPUTS.items()
    }

    def run(batches: Batches) -> Batches:
        for name, rows in _batched(rows_of_groups(batches, whole)):
            yield _batch(types, name, rows)

    return run


def rows_of_groups(batches: Batches, whole: Whole) -> Iterator[tuple[str, Any]]:
    """The rows of all groups, each with the name of its output."""
    current: _Group | None = None
    for batch in batches:
        for group, is_control, lines in _runs(batch):
            if current is None or current.name != group:
                if current is not None:
                    yield from current.finish()
                current = _Group(group, whole)
            if is_control:
                current.add_control(lines)
            else:
                yield from current.add_commits(lines)
    if current is not None:
        yield from current.finish()


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, bool, pa.RecordBatch]]:
    """The consecutive lines of one group and one part."""
    if not batch.num_rows:
        return
    groups = batch.column("group").dictionary_encode()
    is_control = batch.column("is_control").to_numpy(zero_copy_only=False)
    is_other = (np.diff(groups.indices.to_numpy()) != 0) | (np.diff(is_control.astype(int)) != 0)
    begins = [0, *(np.flatnonzero(is_other) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(begins):
        yield groups[begin].as_py(), bool(is_control[begin]), batch.slice(begin, end - begin)


class _Group:
    """Passes a group's lines to all that follow them, and what they find to what sums it up."""

    def __init__(self, name: str, whole: Whole) -> None:
        self.name = name
        self._whole = whole
        self._commits = Commits(name)
        self._lines = GroupLines()
        self._order: CommitOrder | None = None
        self._health = Health(name)
        self._advice = GroupAdvice(name)

    def add_commits(self, lines: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
        """Take in the next commits; there are no more control lines."""
        if self._order is None:
            self._order = CommitOrder(() if self._whole.is_of_one_node else self._lines.stints())
        seqs, times_ms = (lines.column(name).to_numpy() for name in ("seq", "ts"))
        nodes, members, offsets = (
            lines.column(name).to_pylist() for name in ("node", "member", "text")
        )
        for some in self._order.add(nodes, seqs, Some(times_ms, members, offsets)):
            yield from self._committed(some)

    def _committed(self, some: Some) -> Iterator[tuple[str, Any]]:
        yield from self._noted(("commits", row) for row in self._commits.add(*some))

    def add_control(self, lines: pa.RecordBatch) -> None:
        """Take in the next control lines."""
        names = ("node", "seq", "ts", "text")
        columns = (lines.column(name).to_pylist() for name in names)
        for values in zip(*columns, strict=True):
            self._lines.add(_source(*values))

    def finish(self) -> Iterator[tuple[str, Any]]:
        """There are no more lines; all other rows."""
        for some in self._order.rest() if self._order is not None else ():
            yield from self._committed(some)
        yield from self._noted(("commits", row) for row in self._commits.finish())
        horizon_ms = max(self._commits.last_ms, self._hangs_until_ms())
        deleted_ms = in_time_of(self._lines, self._whole.deletions)
        clocks = self._whole.clocks
        replayed = replay_group(self.name, self._lines, deleted_ms, horizon_ms, clocks)
        yield from self._noted(replayed)
        yield from (("group_health", row) for row in self._health.rows())
        yield from (("advice", row) for row in self._advice.rows())

    def _hangs_until_ms(self) -> int:
        """Until when a rebalance goes on that does so as the lines end; 0 if none does.

        That is for as long as its node tells of anything, and has the group.
        """
        last = self._lines.hangs_on()
        if last is None:
            return 0
        givings = self._whole.givings.get(last.node, ())
        given_ms = given_away_ms(self.name, last.last_seq, givings)
        return self._whole.ends_ms.get(last.node, 0) if given_ms is None else given_ms

    def _noted(self, found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, row in found:
            self._health.note(name, row)
            self._advice.note(name, row)
            if name in OUTPUTS:
                yield name, {"group": self.name, **row}


def groups_of(batches: Batches) -> Iterator[tuple[str, GroupLines]]:
    """The control lines of each group, with the columns of `LINE_COLUMNS`."""
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for group, of_group in groupby(rows, key=itemgetter(0)):
        yield group, GroupLines(_source(*values) for _, *values in of_group)


def _source(node: str, seq: int, ts: int, text: str) -> Source:
    # It was judged when it was read.
    return Source(node, seq, ts, json.loads(text), len(text))


def _batched(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Rows of each kind together."""
    waiting: dict[str, list[Any]] = {name: [] for name in OUTPUTS}
    for name, row in found:
        rows = waiting[name]
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            yield name, rows
            waiting[name] = []
    yield from ((name, rows) for name, rows in waiting.items() if rows)


def _batch(types: Mapping[str, pa.DataType], name: str, rows: list[Any]) -> pa.RecordBatch:
    columns = [
        pa.array(rows, type_) if each == name else pa.nulls(len(rows), type_)
        for each, type_ in types.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(types))
