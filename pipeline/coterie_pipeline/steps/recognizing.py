"""Commits, recognized by their text: nearly all lines of a journal, and written by a program.

Whole batches are matched and cut at once by Arrow, which takes a twentieth of the time that reading
each line as JSON would.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from coterie_pipeline.schema import columns
from coterie_pipeline.steps.arrow import Batches, as_text
from coterie_protocol.journal import SCHEMA_VERSION, OffsetsCommitted

__all__ = ["COMMITS", "HEAD", "OTHERS", "RECOGNIZED", "REST", "recognize", "with_constants"]

#: The parts of what was read: commits, and what is to be judged.
COMMITS: Final = "commits"
OTHERS: Final = "others"

_COMMITTED: Final = OffsetsCommitted.kind

# Commits as Coterie writes them.  A line of another form may be one, too; it is judged for itself.
# At each character it is certain how to go on, and there are few groups: so no text is gone over
# twice, however long it is.
_NAME: Final = r"[ !#-\[\]-~]*"  # Coterie escapes all that is not ASCII
_DATE: Final = "(?:0|[1-3][0-9]{0,12}|[4-9][0-9]{0,11})"
_COUNT: Final = "(?:0|[1-9][0-9]{0,8})"
_NUMBER: Final = "(?:0|[1-9][0-9]{0,17})"
_OFFSETS: Final = f'"{_COUNT}":{_NUMBER}'
_TOPIC: Final = rf'"{_NAME}":\{{(?:{_OFFSETS}(?:,{_OFFSETS})*)?\}}'
HEAD: Final = (
    rf'^\{{"v":{SCHEMA_VERSION},"ts":(?P<ts>{_DATE}),"node":"(?P<node>{_NAME})",'
    rf'"seq":(?P<seq>{_NUMBER}),"group":"(?P<rest>.*)$'
)
REST: Final = (
    rf'^(?P<group>{_NAME})","kind":"{_COMMITTED}","member":"(?P<member>{_NAME})",'
    rf'"generation":(?P<generation>-?{_COUNT}),'
    rf'"offsets":(?P<offsets>\{{(?:{_TOPIC}(?:,{_TOPIC})*)?\}})\}}$'
)

_NAMES: Final = ("ts", "node", "seq", "group", "member", "generation", f"{_COMMITTED}_offsets")

#: What becomes of lines: the columns of a commit, or what is known of another line.
RECOGNIZED: Final = StructType(
    [
        StructField("segment", StringType()),
        *(columns()[name] for name in _NAMES),
        StructField("why", StringType()),
        StructField("line", StringType()),
        StructField("digest", LongType()),
        StructField("part", StringType()),
    ]
)


def recognize(batches: Batches) -> Batches:
    """Divide lines, of which there are segment, value, why and digest, into commits and others."""
    schema = to_arrow_schema(RECOGNIZED)
    for batch in batches:
        _, value, why, _ = batch.columns
        head = pc.extract_regex(value, HEAD)
        rest = pc.extract_regex(pc.struct_field(head, "rest"), REST)
        is_commit = pc.and_(rest.is_valid(), why.is_null())
        found = pa.record_batch(
            [*batch.columns, head, rest], ["segment", "value", "why", "digest", "head", "rest"]
        )
        commits = found.filter(is_commit)
        # Spark takes a batch without rows for the end of all.
        if len(commits):
            yield _commits(commits, schema)
        if len(commits) < len(found):
            yield _others(found.filter(pc.invert(is_commit)), schema)


def with_constants(commits: pa.RecordBatch) -> pa.RecordBatch:
    """Commits that were recognized, with what is the same for all."""
    kinds: dict[str, object] = {"v": SCHEMA_VERSION, "kind": _COMMITTED}
    types = to_arrow_schema(columns())
    constants = [
        pa.repeat(pa.scalar(value, types.field(name).type), len(commits))
        for name, value in kinds.items()
    ]
    names = [*commits.schema.names, *kinds]
    return pa.record_batch([*commits.columns, *constants], names)


def _commits(found: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    head, rest = found["head"], found["rest"]
    given = {
        "segment": found["segment"],
        **{name: pc.struct_field(head, name) for name in ("ts", "node", "seq")},
        **{name: pc.struct_field(rest, name) for name in ("group", "member", "generation")},
        f"{_COMMITTED}_offsets": pc.struct_field(rest, "offsets"),
        "digest": found["digest"],
        "part": pa.repeat(COMMITS, len(found)),
    }
    return _batch(given, len(found), schema)


def _others(found: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    given = {
        "segment": found["segment"],
        "why": found["why"],
        "line": as_text(found["value"]),
        "digest": found["digest"],
        "part": pa.repeat(OTHERS, len(found)),
    }
    return _batch(given, len(found), schema)


def _batch(given: dict[str, pa.Array], count: int, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        _typed(given[each.name], each.type) if each.name in given else pa.nulls(count, each.type)
        for each in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    # Arrow makes numbers of texts only, and all of these are ASCII.
    if pa.types.is_binary(array.type):
        array = array.cast(pa.string())
    return array if array.type == type_ else array.cast(type_)
