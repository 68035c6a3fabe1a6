"""Messages with something in every field, and the places in them where a test may put a value.

Both come from the declarations alone: nothing here knows how bytes are made.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie_protocol.schema import (
    Array,
    FieldSpec,
    Primitive,
    WireType,
    declaration_of,
)

__all__ = ["Place", "filled", "places", "sample_of", "unlike_default", "with_value"]

_SAMPLES: dict[Primitive, Any] = {
    Primitive.BOOL: True,
    Primitive.INT8: 1,
    Primitive.INT16: 1,
    Primitive.INT32: 1,
    Primitive.INT64: 1,
    Primitive.FLOAT64: 1.5,
    Primitive.UUID: uuid.UUID(int=1),
    Primitive.STRING: "a",
    Primitive.BYTES: b"b",
    Primitive.RECORDS: b"r",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A field of a message or of a part in it, or the first element of an array of primitives."""

    #: As errors name it: "topics[0].partitions[0].error_code".
    path: str
    #: The names of the fields on the way; where one of them is an array, its first element is next.
    names: tuple[str, ...]
    spec: FieldSpec
    type: WireType
    #: Whether this is an element of the field and not the field itself.
    is_element: bool = False

    def is_nullable(self, version: int) -> bool:
        """Whether null may stand here."""
        return not self.is_element and version in self.spec.nullable


def places(cls: type[Any], version: int) -> Iterator[Place]:
    """Every place in a class's messages, those of fields that the version lacks included."""
    return _places(cls, version, "", ())


def _places(cls: type[Any], version: int, above: str, names: tuple[str, ...]) -> Iterator[Place]:
    for spec in declaration_of(cls).fields:
        path = f"{above}.{spec.name}" if above else spec.name
        way = (*names, spec.name)
        yield Place(path, way, spec, spec.type)
        if version not in spec.versions:
            continue
        inner = spec.type
        if isinstance(inner, Array):
            path, inner = f"{path}[0]", inner.element
            if isinstance(inner, Primitive):
                yield Place(path, way, spec, inner, is_element=True)
        if isinstance(inner, type):
            yield from _places(inner, version, path, way)


def filled(cls: type[Any], version: int) -> Any:
    """A message with a value unlike the default in every field that the version has."""
    specs = declaration_of(cls).fields
    return cls(
        **{
            spec.name: sample_of(spec.type, version) if version in spec.versions else spec.default
            for spec in specs
        }
    )


def sample_of(wire_type: WireType, version: int) -> Any:
    """A value of a type; an array has one element."""
    if isinstance(wire_type, Primitive):
        return _SAMPLES[wire_type]
    if isinstance(wire_type, Array):
        return (sample_of(wire_type.element, version),)
    return filled(wire_type, version)


def unlike_default(spec: FieldSpec, version: int) -> list[Any]:
    """Values of a field, as some version might carry them, that are not its default."""
    values = [sample_of(spec.type, version)]
    if spec.type is Primitive.BOOL:
        values = [True, False]
    if spec.nullable.last >= spec.nullable.first:
        values.append(None)
    return [value for value in values if value != spec.default]


def with_value(message: Any, place: Place, value: Any) -> Any:
    """The message with another value in one place."""
    return _replaced(message, place.names, value, is_element=place.is_element)


def _replaced(message: Any, names: tuple[str, ...], value: Any, *, is_element: bool) -> Any:
    name, *below = names
    if below:
        inner = getattr(message, name)
        first = inner[0] if isinstance(inner, tuple) else inner
        changed = _replaced(first, tuple(below), value, is_element=is_element)
        value = (changed, *inner[1:]) if isinstance(inner, tuple) else changed
    elif is_element:
        value = (value, *getattr(message, name)[1:])
    return dataclasses.replace(message, **{name: value})
