"""Rows through plain Python and back: in Spark's Python processes, or here if there are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coterie_pipeline.session import is_quick

__all__ = ["Batches", "frame_of", "map_batches"]

Batches = Iterator[pa.RecordBatch]


def map_batches(
    rows: DataFrame, function: Callable[[Batches], Batches], schema: StructType
) -> DataFrame:
    """The rows that a function makes of others."""
    if not is_quick(rows.sparkSession):
        return rows.mapInArrow(function, schema)
    # To start a Python process and import all that it needs takes longer than all of the work.
    made = function(iter(rows.toArrow().to_batches()))
    table = pa.Table.from_batches(made, to_arrow_schema(schema))
    return frame_of(rows.sparkSession, table, schema)


def frame_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A table as a frame, all in one partition."""
    # Spark can't take an Arrow table without rows.
    rows = table if table.num_rows else []
    return spark.createDataFrame(rows, schema).coalesce(1)
