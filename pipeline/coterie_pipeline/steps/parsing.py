"""From text to columns: the fields of journal lines, and why some lines can't be read.

Nearly all lines of a journal are commits, and are recognized by their text.  All others are judged
one by one, by the code that judges them wherever journals are read.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from coterie_pipeline.schema import columns
from coterie_pipeline.steps.arrow import Batches, map_batches
from coterie_pipeline.steps.recognizing import COMMITS, OTHERS, RECOGNIZED, recognize
from coterie_pipeline.steps.values import to_columns
from coterie_protocol.journal import SCHEMA_VERSION, JournalError, OffsetsCommitted, read_values

__all__ = [
    "COMMITS",
    "CONTROL",
    "DAMAGED",
    "OTHERS",
    "REST_DAMAGED",
    "UNREAD",
    "judge",
    "judged",
    "lines_schema",
    "parse",
    "recognized",
]

#: The parts of what was read, stored apart, beside commits.
CONTROL: Final = "control"
UNREAD: Final = "unread"

#: Why the rest of a file can't be read.
DAMAGED: Final = "damaged"
REST_DAMAGED: Final = "the rest of this file can't be unpacked"

_COMMITTED: Final = OffsetsCommitted.kind


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


def recognized(raw: DataFrame) -> DataFrame:
    """Lines as columns if their text shows that they are commits, and the others as they are.

    `raw` has `segment`, `value`, the text without its line break, and `why` if it is known already
    that a line can't be taken into account.
    """
    value = F.col("value").cast("binary")
    digest = F.when(F.col("why").isNull(), F.crc32(value)).alias("digest")
    lines = raw.select("segment", value.alias("value"), "why", digest)
    found = map_batches(lines, recognize, RECOGNIZED)
    # Constants need not go from process to process.
    return found.withColumns({"v": F.lit(SCHEMA_VERSION), "kind": F.lit(_COMMITTED)})


def judged(others: DataFrame) -> DataFrame:
    """The lines that were not recognized, with all columns: each judged for itself."""
    lines = others.select("segment", F.col("line").cast("binary"), "why", "digest")
    return map_batches(lines, judge, lines_schema())


def parse(raw: DataFrame) -> DataFrame:
    """Lines with all columns, of `raw` as it is for `recognized`, and read twice."""
    found = recognized(raw)
    commits = found.where(F.col("part") == COMMITS)
    rows = judged(found.where(F.col("part") == OTHERS))
    return rows.unionByName(commits, allowMissingColumns=True).select(*lines_schema().names)


def judge(batches: Batches) -> Batches:
    """Judge lines, of which there are segment, line, why and digest."""
    schema = to_arrow_schema(lines_schema())
    for batch in batches:
        segments, texts, whys, digests = (column.to_pylist() for column in batch.columns)
        rows = [
            _judged(text) if why is None else _unread(text, why)
            for text, why in zip(texts, whys, strict=True)
        ]
        for row, segment, digest in zip(rows, segments, digests, strict=True):
            row["segment"], row["digest"] = segment, digest
        arrays = [pa.array([row.get(each.name) for row in rows], each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unread(text: bytes, why: str) -> dict[str, Any]:
    return {"why": why, "line": text.decode(errors="replace"), "part": UNREAD}


def _judged(text: bytes) -> dict[str, Any]:
    """A line's columns, or what is wrong with it."""
    try:
        values = read_values(text)
    except JournalError as error:
        row = _unread(text, error.why)
        row["node"], row["seq"] = _storable(error.node), error.seq
        return row
    is_commit = values["kind"] == _COMMITTED
    row = dict(to_columns(values))
    row["part"] = COMMITS if is_commit else CONTROL
    row["line"] = None if is_commit else text.decode()
    return row


def _storable(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()
