"""From text to columns: the fields of journal lines, and why some lines can't be read.

Nearly all lines of a journal are commits, and written by a program: those are recognized by their
text, and parsed within Spark.  All other lines are judged one by one in Python, by the code that
judges them wherever journals are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from coterie_pipeline.schema import columns
from coterie_pipeline.steps.values import to_columns
from coterie_protocol.journal import SCHEMA_VERSION, JournalError, OffsetsCommitted, read_values

__all__ = [
    "COMMIT",
    "COMMITS",
    "CONTROL",
    "DAMAGED",
    "REST_DAMAGED",
    "UNREAD",
    "lines_schema",
    "parse",
]

#: The parts of what was read, stored apart: nearly all lines of a journal are commits.
CONTROL: Final = "control"
COMMITS: Final = "commits"
UNREAD: Final = "unread"

#: Why the rest of a file can't be read.
DAMAGED: Final = "damaged"
REST_DAMAGED: Final = "the rest of this file can't be unpacked"

_COMMITTED: Final = OffsetsCommitted.kind

# Commits as Coterie writes them.  A line of another form may be one, too; it is judged in Python.
_NAME: Final = r'"[^"\\\x00-\x1f]*+"'
_DATE: Final = "(?:0|[1-9][0-9]{0,11}|[1-3][0-9]{12})"
_COUNT: Final = "(?:0|[1-9][0-9]{0,8})"
_OFFSET: Final = "(?:0|[1-9][0-9]{0,17})"
_OFFSETS: Final = rf'"{_COUNT}":{_OFFSET}'
_TOPIC: Final = rf"{_NAME}:\{{(?:{_OFFSETS}(?:,{_OFFSETS})*+)?+\}}"
COMMIT: Final = (
    rf'^\{{"v":{SCHEMA_VERSION},"ts":{_DATE},"node":{_NAME},"seq":{_OFFSET},"group":{_NAME},'
    rf'"kind":"{_COMMITTED}","member":{_NAME},"generation":-?{_COUNT},'
    rf'"offsets":\{{(?:{_TOPIC}(?:,{_TOPIC})*+)?+\}}\}}$'
)

#: Expressions of this kind recurse in Java, so they are not tried on long lines.
_COMMIT_BYTES_MAX: Final = 4_096

_COMMIT_SCHEMA: Final = (
    "v BIGINT, ts BIGINT, node STRING, seq BIGINT, `group` STRING, kind STRING, member STRING,"
    " generation BIGINT, offsets MAP<STRING, MAP<STRING, BIGINT>>"
)


def lines_schema() -> StructType:
    """The columns of parsed lines."""
    schema = StructType().add("segment", StringType())
    for field in columns().fields:
        schema.add(field)
    return (
        schema.add("why", StringType())
        .add("line", StringType())
        .add("digest", LongType())
        .add("part", StringType())
    )


def parse(raw: DataFrame) -> DataFrame:
    """Read lines: `segment` and `value`, the text without its line break, become columns.

    Every line has a row.  `why` says what is wrong with one that can't be taken into account.
    `raw` is read twice.
    """
    return _commits(raw.where(_is_commit())).unionByName(_others(raw.where(~_is_commit())))


def _is_commit() -> Column:
    """Whether a line is a commit, as far as that can be told by its looks."""
    value = F.col("value")
    return F.coalesce(
        (F.length(value) <= _COMMIT_BYTES_MAX)
        & value.contains(f'"kind":"{_COMMITTED}"')
        & value.rlike(COMMIT)
        & F.is_valid_utf8(value),
        F.lit(False),
    )


def _commits(raw: DataFrame) -> DataFrame:
    read = raw.select("segment", "value", F.from_json("value", _COMMIT_SCHEMA).alias("it"))
    values = {
        **{name: f"it.`{name}`" for name in (*_ENVELOPE, "member", "generation")},
        f"{_COMMITTED}_offsets": "it.offsets",
        "segment": "segment",
        "digest": "xxhash64(value)",
        "part": f"'{COMMITS}'",
    }
    return read.selectExpr(
        *(
            f"CAST({values.get(field.name, 'NULL')} AS {field.dataType.simpleString()})"
            f" AS `{field.name}`"
            for field in lines_schema().fields
        )
    )


_ENVELOPE: Final = ("v", "ts", "node", "seq", "group", "kind")


def _others(raw: DataFrame) -> DataFrame:
    schema = lines_schema()
    lines = raw.where(F.trim("value") != "").select(
        "segment", F.col("value").cast("binary"), F.xxhash64("value").alias("digest")
    )
    return lines.mapInArrow(_judging(to_arrow_schema(schema)), schema)


def _judging(
    schema: pa.Schema,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            segments, texts, digests = (column.to_pylist() for column in batch.columns)
            rows = [_judged(text) for text in texts]
            for row, segment, digest in zip(rows, segments, digests, strict=True):
                row["segment"], row["digest"] = segment, digest
            arrays = [pa.array([row.get(each.name) for row in rows], each.type) for each in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return run


def _judged(text: bytes) -> dict[str, Any]:
    """A line's columns, or what is wrong with it."""
    try:
        values = read_values(text)
    except JournalError as error:
        shown = text.decode(errors="replace")
        return {
            "why": error.why, "node": _storable(error.node), "seq": error.seq, "line": shown,
            "part": UNREAD,
        }  # fmt: skip
    is_commit = values["kind"] == _COMMITTED
    row: dict[str, Any] = dict(to_columns(values))
    row["part"] = COMMITS if is_commit else CONTROL
    row["line"] = None if is_commit else text.decode()
    return row


def _storable(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()
