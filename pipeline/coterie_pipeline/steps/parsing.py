"""From text to columns: the fields of journal lines, and why some lines can't be read."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.schema import CORRUPT, columns, divided, line_schema, required
from coterie_protocol.journal import KINDS, SCHEMA_VERSION

__all__ = ["COMMITS", "CONTROL", "UNREAD", "parse"]

#: The parts of what was read, stored apart: nearly all lines of a journal are commits.
CONTROL: Final = "control"
COMMITS: Final = "commits"
UNREAD: Final = "unread"

_COMMITTED: Final = "offsets_committed"

#: How every line of every version begins.
_BEGINNING: Final = '{"v":'


def parse(raw: DataFrame) -> DataFrame:
    """Read lines: `segment` and `value`, the text without its line break, become columns.

    Every line has a row.  `why` says what is wrong with one that can't be taken into account.
    """
    return (
        raw.where(F.trim("value") != "")
        .withColumn(
            "parsed", F.from_json("value", line_schema(), {"columnNameOfCorruptRecord": CORRUPT})
        )
        .select("segment", "value", "parsed.*")
        .transform(_with_divided_fields)
        .withColumn("why", _why())
        .select(
            "segment",
            *columns().names,
            "why",
            F.when(F.col("kind").eqNullSafe(_COMMITTED) & F.col("why").isNull(), None)
            .otherwise(F.col("value"))
            .alias("line"),
            F.xxhash64("value").alias("digest"),
            F.when(F.col("why").isNotNull(), UNREAD)
            .when(F.col("kind") == _COMMITTED, COMMITS)
            .otherwise(CONTROL)
            .alias("part"),
        )
    )


def _with_divided_fields(lines: DataFrame) -> DataFrame:
    """Read fields whose type depends on the kind, each into its kind's column."""
    read = {
        each.column: F.when(
            F.col("kind") == each.kind,
            # Spark parses only objects and arrays, so the value is wrapped into an object.
            F.from_json(
                F.concat(F.lit('{"it":'), F.col(each.field), F.lit("}")),
                f"it {each.type.simpleString()}",
            )["it"],
        )
        for each in divided()
    }
    return lines.withColumns(read)


def _why() -> Column:
    """What is wrong with a line; the first branch spares good lines the other checks."""
    has_envelope = F.col("ts").isNotNull() & F.col("node").isNotNull() & F.col("seq").isNotNull()
    is_known = (F.col("v") == SCHEMA_VERSION) & F.coalesce(F.col("kind").isin(*KINDS), F.lit(False))
    fits = F.col(CORRUPT).isNull() & ~_lacks()
    return (
        F.when(has_envelope & is_known & fits, None)
        .when(~_is_object() & F.col("value").startswith(_BEGINNING), "torn")
        .when(~_is_object() | ~has_envelope, "foreign")
        .when(F.col("v").isNull() | (F.col("v") > SCHEMA_VERSION), "newer")
        .when(F.col("kind").isNull() | ~F.col("kind").isin(*KINDS), "unknown_kind")
        .otherwise("misfit")
    )


def _lacks() -> Column:
    """Whether a line lacks a field that all lines of its kind have."""
    lacks = F.lit(False)
    for kind, names in required().items():
        is_one_null = reduce(or_, (F.col(name).isNull() for name in names))
        lacks = F.when(F.col("kind") == kind, is_one_null).otherwise(lacks)
    return lacks


def _is_object() -> Column:
    """Whether a text is one JSON object, with any content."""
    return F.json_object_keys("value").isNotNull()
