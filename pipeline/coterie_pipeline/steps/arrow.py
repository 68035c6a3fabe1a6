"""Rows through plain Python and back: in Spark's Python processes, or here if there are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coterie_pipeline.session import is_quick

__all__ = ["Batches", "as_text", "frame_of", "map_batches", "no_rows"]

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


def as_text(values: pa.Array) -> pa.StringArray:
    """Bytes as texts: Spark's may be any bytes, and what is not UTF-8 passes as in its readers."""
    nulls, offsets, data = values.buffers()
    return pa.StringArray.from_buffers(len(values), offsets, data, nulls)


def frame_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A table as a frame, all in one partition."""
    # Spark can't take an Arrow table without rows.
    rows = spark.createDataFrame(table, schema) if table.num_rows else no_rows(spark, schema)
    return rows.coalesce(1)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows; of an empty list, Spark would have a Python process make it."""
    nothing = (F.lit(None).cast(each.dataType).alias(each.name) for each in schema.fields)
    return spark.range(0).select(*nothing)
