"""From a declaration and a version to the format of its bytes."""

from __future__ import annotations

from typing import Any, Final

from coterie_protocol._emit_build import emit_builder
from coterie_protocol._emit_parse import emit_parser
from coterie_protocol._format import (
    Blob,
    Emitters,
    Format,
    Length,
    Many,
    Part,
    Record,
    Scalar,
    Text,
    UuidField,
)
from coterie_protocol._memo import remember
from coterie_protocol.schema import (
    Array,
    Declaration,
    FieldSpec,
    Primitive,
    WireType,
    declaration_of,
)

__all__ = ["format_of"]

_EMITTERS: Final = Emitters(emit_parser, emit_builder)

_CODES: Final = {
    Primitive.BOOL: "?",
    Primitive.INT8: "b",
    Primitive.INT16: "h",
    Primitive.INT32: "i",
    Primitive.INT64: "q",
}


@remember
def format_of(cls: type[Any], version: int) -> Record:
    """The format of a declared class in a version that it has."""
    declaration = declaration_of(cls)
    if version not in declaration.versions:
        raise KeyError(f"{declaration.subject} has no version {version}")
    return _record(declaration, version, flexible=version in declaration.flexible)


def _record(declaration: Declaration, version: int, *, flexible: bool) -> Record:
    parts: list[Part] = []
    tagged: dict[int, Part] = {}
    absent: dict[str, Any] = {}
    refused: dict[str, Any] = {}
    for spec in declaration.fields:
        if version not in spec.versions:
            absent[spec.name] = spec.default
            if not spec.ignorable:
                refused[spec.name] = spec.default
            continue
        part = Part(spec.name, _field(spec, version, flexible=flexible), spec.default)
        if spec.tag is None:
            parts.append(part)
        elif flexible:
            tagged[spec.tag] = part
        else:
            name = f"{declaration.cls.__name__}.{spec.name}"
            raise TypeError(f"{name} is tagged, and version {version} is not flexible")
    return Record(
        declaration.cls,
        tuple(parts),
        tagged=tagged if flexible else None,
        absent=absent,
        refused=refused,
        emitters=_EMITTERS,
    )


def _field(spec: FieldSpec, version: int, *, flexible: bool) -> Format:
    nullable = version in spec.nullable
    compact = flexible and spec.compact
    return _typed(spec.type, version, compact=compact, nullable=nullable)


def _typed(wire_type: WireType, version: int, *, compact: bool, nullable: bool = False) -> Format:
    match wire_type:
        case Primitive.STRING:
            return Text(Length(None if compact else "h"), nullable=nullable)
        case Primitive.BYTES | Primitive.RECORDS:
            return Blob(Length(None if compact else "i"), nullable=nullable)
        case Primitive.UUID:
            return UuidField()
        case Primitive():
            return Scalar(_CODES[wire_type])
        case Array():
            element = _typed(wire_type.element, version, compact=compact)
            return Many(Length(None if compact else "i"), element, nullable=nullable)
        case _:
            return _record(declaration_of(wire_type), version, flexible=compact)
