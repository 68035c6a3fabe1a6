"""Hypothesis strategies for every declared message, over the full range of what can travel."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from coterie_protocol._twin import remember
from coterie_protocol.schema import (
    Array,
    Declaration,
    FieldSpec,
    Kind,
    Primitive,
    WireType,
    declaration_of,
    declarations,
)

__all__ = ["MESSAGES", "messages", "versions_of"]

#: Every request and response in every version, and the structures that stand alone.
MESSAGES: list[tuple[type[Any], int]] = []


def versions_of(cls: type[Any]) -> range:
    """The versions of a declared class."""
    versions = declaration_of(cls).versions
    return range(versions.first, versions.last + 1)


def _travels_alone(declaration: Declaration) -> bool:
    """Whether it is a message, or is embedded in one: neither a part of one nor the server's own.

    What is declared elsewhere depends on what has been imported.
    """
    if not declaration.cls.__module__.startswith("coterie_protocol."):
        return False
    return declaration.kind is not Kind.STRUCT or declaration.versions.last < 100  # not "0+"


def _fill() -> None:
    # They declare the embedded structures.
    import coterie_protocol.consumer  # noqa: PLC0415
    import coterie_protocol.loads  # noqa: PLC0415
    import coterie_protocol.member_data  # noqa: PLC0415
    import coterie_protocol.streams._data  # noqa: F401, PLC0415

    # Their order depends on what has been imported before; a module's own does not.
    for declaration in sorted(declarations(), key=lambda each: each.cls.__module__):
        if _travels_alone(declaration):
            MESSAGES.extend((declaration.cls, v) for v in versions_of(declaration.cls))


_fill()

_texts = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(
    st.characters(codec="utf-8"), min_size=120, max_size=300
)

_PRIMITIVES: dict[Primitive, st.SearchStrategy[Any]] = {
    Primitive.BOOL: st.booleans(),
    Primitive.INT8: st.integers(-(2**7), 2**7 - 1),
    Primitive.INT16: st.integers(-(2**15), 2**15 - 1),
    Primitive.INT32: st.integers(-(2**31), 2**31 - 1),
    Primitive.INT64: st.integers(-(2**63), 2**63 - 1),
    # NaN equals nothing, and JSON knows only finite numbers.
    Primitive.FLOAT64: st.floats(allow_nan=False, allow_infinity=False),
    Primitive.UUID: st.uuids(),
    Primitive.STRING: _texts,
    Primitive.BYTES: st.binary(max_size=200),
    Primitive.RECORDS: st.binary(max_size=200),
}


@remember
def messages(cls: type[Any], version: int, *, own: bool = False) -> st.SearchStrategy[Any]:
    """Messages of a class that a version can carry, with Coterie's own fields if that is wanted."""
    fields = {
        spec.name: _field(spec, version)
        for spec in declaration_of(cls).fields
        if version in spec.versions and (own or not spec.is_own)
    }
    absent = {
        spec.name: st.just(spec.default)
        for spec in declaration_of(cls).fields
        if spec.name not in fields
    }
    return st.builds(cls, **fields, **absent)


def _field(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    values = _typed(spec.type, version)
    if spec.tag is not None:
        values = st.just(spec.default) | values
    return st.none() | values if version in spec.nullable else values


def _typed(wire_type: WireType, version: int) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, Primitive):
        return _PRIMITIVES[wire_type]
    if isinstance(wire_type, Array):
        return st.lists(_typed(wire_type.element, version), max_size=4).map(tuple)
    return messages(wire_type, version)
