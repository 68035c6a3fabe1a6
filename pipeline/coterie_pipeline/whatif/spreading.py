"""What-if in Spark: each group, setting and seed is a task of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coterie_pipeline.tables import Table
from coterie_pipeline.whatif.histories import Bounds, histories
from coterie_pipeline.whatif.plan import Plan
from coterie_pipeline.whatif.table import AS_IT_WAS, AS_TOLD, RUNS, WHAT_IF
from coterie_testing.replay import Changes

__all__ = ["what_if"]

_TASKS: Final = (
    "place BIGINT, setting STRING, wishes MAP<STRING, STRING>, seed BIGINT, steps_max BIGINT"
)

#: Replays take very different times, so there are more pieces than processors.
_PIECES_PER_SHUFFLE: Final = 4


def what_if(
    spark: SparkSession,
    bronze: DataFrame,
    plan: Plan,
    bounds: Bounds | None = None,
    *,
    pieces: int | None = None,
) -> DataFrame:
    """Replay the history of each group under each setting; the columns of `WHAT_IF`.

    Nothing is replayed before the result is asked for, and it may be replayed anew whenever it is
    asked for again: collect or write it once.  `pieces` is into how many the work is divided, four
    for each of Spark's shuffle partitions if nothing is said; any number has the same result.
    """
    bounds = bounds or Bounds()
    runs, sums = _schema(RUNS), _schema(WHAT_IF)
    shuffles = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return (
        histories(spark, bronze, plan.groups, bounds)
        .crossJoin(F.broadcast(_tasks(spark, plan, bounds)))
        # Without it, whatever little data there is would go to a single process: what makes work
        # here is not the data.
        .repartition(pieces or _PIECES_PER_SHUFFLE * shuffles)
        .mapInArrow(lambda batches: _play(batches, runs), RUNS.ddl)
        .groupBy("group", "place")
        .applyInArrow(lambda table: _sum(table, sums), WHAT_IF.ddl)
    )


def _tasks(spark: SparkSession, plan: Plan, bounds: Bounds) -> DataFrame:
    """What is done with each history: first it is read as it is, then it is replayed."""
    told: list[tuple[object, ...]] = [(AS_TOLD, "in the journal", {}, 0, bounds.steps_max)]
    replays = [
        (place, str(Changes.parse(dict(wishes))), dict(wishes), seed, bounds.steps_max)
        for place, wishes in enumerate(((), *plan.settings), AS_IT_WAS)
        for seed in range(plan.seeds)
    ]
    return spark.createDataFrame([*told, *replays], _TASKS)


def _play(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Replay each row; runs on executors."""
    from coterie_pipeline.whatif.playing import Task, played  # noqa: PLC0415  # the simulator

    _hush()
    for batch in batches:
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield pa.RecordBatch.from_pylist([played(Task(**row))], schema=schema)


def _sum(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Sum up the replays of one group under one setting; runs on executors."""
    from coterie_pipeline.whatif.summing import summed  # noqa: PLC0415  # likewise

    row = summed(table.to_pylist(maps_as_pydicts="strict"))
    return pa.Table.from_pylist([row], schema=schema)


def _schema(table: Table) -> pa.Schema:
    """Its columns for Arrow; only a driver can read them."""
    columns = StructType.fromDDL(table.ddl)
    assert isinstance(columns, StructType)
    return to_arrow_schema(columns)


def _hush() -> None:
    """Keep the parts of the system from logging: what they say is about no real group."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
