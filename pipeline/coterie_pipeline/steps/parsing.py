"""From text to columns: the fields of journal lines, and why some lines can't be read.

Nearly all lines of a journal are commits, and written by a program: those are recognized by their
text, and parsed within Spark.  All other lines are judged one by one in Python, by the code that
judges them wherever journals are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from coterie_pipeline.schema import columns
from coterie_pipeline.steps.arrow import map_batches
from coterie_pipeline.steps.values import to_columns
from coterie_protocol.journal import SCHEMA_VERSION, JournalError, OffsetsCommitted, read_values

__all__ = [
    "COMMIT",
    "COMMITS",
    "CONTROL",
    "DAMAGED",
    "REST_DAMAGED",
    "UNREAD",
    "Parsed",
    "lines_schema",
    "parse",
    "parse_in_turn",
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
# Names have no commas, as lines are cut there, and are ASCII, as Coterie escapes all else.
_NAME: Final = r'"[ !#-+\--\[\]-~]*+"'
_DATE: Final = "(?!0[0-9]|[4-9][0-9]{12})[0-9]{1,13}+"
_COUNT: Final = "(?!0[0-9])[0-9]{1,9}+"
_OFFSET: Final = "(?!0[0-9])[0-9]{1,18}+"
_OFFSETS: Final = rf'"{_COUNT}":{_OFFSET}'
_TOPIC: Final = rf"{_NAME}:\{{(?:{_OFFSETS}(?:,{_OFFSETS})*+)?+\}}"
COMMIT: Final = (
    rf'^\{{"v":{SCHEMA_VERSION},"ts":{_DATE},"node":{_NAME},"seq":{_OFFSET},"group":{_NAME},'
    rf'"kind":"{_COMMITTED}","member":{_NAME},"generation":-?{_COUNT},'
    rf'"offsets":\{{(?:{_TOPIC}(?:,{_TOPIC})*+)?+\}}\}}$'
)

#: Expressions of this kind recurse in Java, so they are not tried on long lines.
_COMMIT_BYTES_MAX: Final = 4_096


def _without_end(part: int, begin: int) -> str:
    """A part of a line from a character on, but for the last one, as SQL."""
    # Of bytes: in a text, Spark would count the characters twice.
    return f"substr(binary(part[{part}]), {begin}, octet_length(part[{part}]) - {begin})"


#: The columns of a commit, as SQL over the parts of its line: what is between the commas, of which
#: only the last part may have more.
_COMMIT_COLUMNS: Final[Mapping[str, str]] = {
    "segment": "segment",
    "v": str(SCHEMA_VERSION),
    "ts": "substr(part[1], 6)",
    "node": _without_end(2, 9),
    "seq": "substr(part[3], 7)",
    "group": _without_end(4, 10),
    "kind": f"'{_COMMITTED}'",
    "member": _without_end(6, 11),
    "generation": "substr(part[7], 14)",
    f"{_COMMITTED}_offsets": _without_end(8, 11),
    "digest": "xxhash64(value)",
}
_COMMIT_PARTS: Final = 9


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


@dataclass(frozen=True, slots=True)
class Parsed:
    """Lines as columns, in two frames: together they have a row for each line."""

    #: The commits that are recognized by their text: their columns, but for `part`.
    commits: DataFrame
    #: All other lines, with all columns; `why` says what is wrong with one that can't be taken into
    #: account.
    others: DataFrame

    def together(self) -> DataFrame:
        """All of them, with all columns."""
        commits = self.commits.withColumn("part", F.lit(COMMITS))
        rows = self.others.unionByName(commits, allowMissingColumns=True)
        return rows.select(*lines_schema().names)


def parse(raw: DataFrame) -> Parsed:
    """Read lines: `segment` and `value`, the text without its line break, become columns.

    `raw` is read twice.
    """
    return Parsed(_commits(raw.where(_is_commit())), _others(raw.where(~_is_commit())))


def parse_in_turn(raw: DataFrame) -> Iterator[DataFrame]:
    """The frames of much text, of which each is to be stored before the next one is asked for.

    Only when the commits are stored is it known whether any line looked like one and is none, so
    that nearly always every line is matched once.
    """
    looks = raw.select("segment", "value", _is_whole_commit().alias("is_whole"))
    odd = Observation()
    candidates = looks.where(_has_looks_of_commit()).observe(
        odd, F.count_if(~F.col("is_whole")).alias("lines")
    )
    yield _commits(candidates.where("is_whole"))
    is_other = ~_is_commit() if odd.get["lines"] else ~_has_looks_of_commit()
    yield _others(raw.where(is_other))


def _is_commit() -> Column:
    """Whether a line is a commit, as far as that can be told by its text."""
    return _has_looks_of_commit() & _is_whole_commit()


def _has_looks_of_commit() -> Column:
    value = F.col("value")
    is_short = F.octet_length(value) <= _COMMIT_BYTES_MAX
    return is_short & value.contains(f'"kind":"{_COMMITTED}"')


def _is_whole_commit() -> Column:
    return F.col("value").rlike(COMMIT)


def _commits(raw: DataFrame) -> DataFrame:
    types = {field.name: field.dataType.simpleString() for field in lines_schema().fields}
    return raw.selectExpr(
        "segment", "value", f"split(value, ',', {_COMMIT_PARTS}) AS part"
    ).selectExpr(
        *(f"CAST({sql} AS {types[name]}) AS `{name}`" for name, sql in _COMMIT_COLUMNS.items())
    )


def _others(raw: DataFrame) -> DataFrame:
    schema = lines_schema()
    lines = raw.select(
        "segment", F.col("value").cast("binary"), F.xxhash64("value").alias("digest")
    )
    return map_batches(lines, _judging(to_arrow_schema(schema)), schema)


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
