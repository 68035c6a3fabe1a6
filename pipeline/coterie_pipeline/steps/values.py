"""The values of a line as the columns that `schema` declares, in the form that Arrow takes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from coterie_pipeline.schema import ENVELOPE, columns, divided
from coterie_protocol.journal import KINDS

__all__ = ["to_columns"]

_Convert = Callable[[Any], Any]


def to_columns(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The columns of a line that was judged to be good, by name."""
    for name in ENVELOPE:
        yield name, values.get(name)
    for name, column, convert in _fields(values["kind"]):
        value = values.get(name)
        if value is not None:
            yield column, value if convert is None else convert(value)


@cache
def _fields(kind: str) -> tuple[tuple[str, str, _Convert | None], ...]:
    """The fields of a kind: the name and the column of each, and what makes one of the other."""
    apart = {each.field: each.column for each in divided() if each.kind == kind}
    types = {field.name: field.dataType for field in columns().fields}
    names = [field.name for field in dataclasses.fields(KINDS[kind]) if field.name not in ENVELOPE]
    return tuple(
        (name, column, _converter(types[column]))
        for name, column in ((name, apart.get(name, name)) for name in names)
    )


def _converter(type_: DataType) -> _Convert | None:
    """What turns JSON's values into a type's; None if they are the same."""
    if isinstance(type_, StringType):
        return _text
    if isinstance(type_, MapType):
        inner = _converter(type_.valueType)
        return lambda value: [(k, inner(v) if inner else v) for k, v in value.items()]
    if isinstance(type_, ArrayType):
        each = _converter(type_.elementType)
        return None if each is None else lambda value: [each(item) for item in value]
    if isinstance(type_, StructType):
        parts = [(field.name, _converter(field.dataType)) for field in type_.fields]
        return lambda value: {
            name: part(value[name]) if part and value.get(name) is not None else value.get(name)
            for name, part in parts
        }
    return None


def _text(value: object) -> str | None:
    """Any JSON as text; texts without quotes."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
