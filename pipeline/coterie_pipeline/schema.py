"""The schema of journal lines in Spark, derived from the dataclasses that declare them.

All kinds share one wide row.  A field that has one type wherever it occurs is one column of its
name; where kinds disagree, as about `members`, each has a column `<kind>_<field>` of its own.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from coterie_protocol.journal import KINDS

__all__ = [
    "ENVELOPE",
    "Divided",
    "columns",
    "divided",
    "struct_of",
]

#: The fields that every line has.
ENVELOPE: Final = ("v", "ts", "node", "seq", "group", "kind")

_PLAIN: Final[Mapping[object, DataType]] = {
    str: StringType(),
    int: LongType(),
    bool: BooleanType(),
    Any: StringType(),  # as JSON
}

#: Fields that are kept as JSON: nearly all lines are commits, and maps of maps cost much to store.
_AS_JSON: Final = frozenset({("offsets_committed", "offsets")})

_ENVELOPE_TYPES: Final[Mapping[str, DataType]] = {
    name: LongType() if name in ("v", "ts", "seq") else StringType() for name in ENVELOPE
}


@dataclass(frozen=True, slots=True)
class Divided:
    """A field that has different types in different kinds: its column and type for one kind."""

    field: str
    kind: str
    type: DataType

    @property
    def column(self) -> str:
        """The column for this kind."""
        return f"{self.kind}_{self.field}"


@cache
def divided() -> tuple[Divided, ...]:
    """The fields that have a column for each kind."""
    return tuple(
        Divided(name, kind, type_)
        for name, by_kind in _fields().items()
        if _is_divided(by_kind)
        for kind, type_ in by_kind.items()
    )


@cache
def columns() -> StructType:
    """The columns of a parsed line, with a column for each kind of a divided field."""
    shared = {
        name: next(iter(by_kind.values()))
        for name, by_kind in _fields().items()
        if not _is_divided(by_kind)
    }
    return _struct({**_ENVELOPE_TYPES, **shared, **{each.column: each.type for each in divided()}})


@cache
def _fields() -> Mapping[str, Mapping[str, DataType]]:
    """By field, its type in each kind."""
    found: dict[str, dict[str, DataType]] = {}
    for kind, event in KINDS.items():
        for name, hint in _hints(event).items():
            if name not in ENVELOPE:
                is_json = (kind, name) in _AS_JSON
                found.setdefault(name, {})[kind] = StringType() if is_json else _type_of(hint)
    return found


def _is_divided(by_kind: Mapping[str, DataType]) -> bool:
    return len(set(by_kind.values())) > 1


def _hints(cls: type[Any]) -> Mapping[str, object]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _type_of(hint: Any) -> DataType:  # noqa: ANN401  # whatever annotates a field
    """The Spark type for a field's annotation."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _struct({name: _type_of(each) for name, each in _hints(hint).items()})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return _type_of(inner)
    if origin is tuple:
        return ArrayType(_type_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapType(_type_of(arguments[0]), _type_of(arguments[1]))
    raise TypeError(f"there is no Spark type for {hint}")


def _struct(fields: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


def struct_of(ddl: str) -> StructType:
    """Columns as Spark's SQL declares them."""
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found
