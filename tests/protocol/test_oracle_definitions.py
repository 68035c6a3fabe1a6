"""Coterie's declarations say what Kafka's own definitions say, as kafka-python carries them.

Equal bytes show where a field is and what type it has. They do not show that a field may be null
where no example was, nor what a field that a version lacks is read as; the definitions do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from coterie_protocol.messages import MetadataResponse
from coterie_protocol.schema import (
    NIL_UUID,
    Array,
    FieldSpec,
    Kind,
    Primitive,
    WireType,
    declaration_of,
)
from tests.support import kafka_python_oracle as oracle
from tests.support.cases import for_each
from tests.support.every_message import by_class
from tests.support.strategies import MESSAGES, versions_of

_CLASSES = list(dict.fromkeys(cls for cls, v in MESSAGES if v <= oracle.newest_version(cls)))
_MESSAGES = [cls for cls in _CLASSES if declaration_of(cls).kind is not Kind.STRUCT]


@by_class(lambda cls, version: version <= oracle.newest_version(cls))
def test_fields_are_those_of_kafkas_definition(cls: type[Any], versions: list[int]) -> None:
    theirs = oracle.their_class(cls)._struct  # noqa: SLF001  # no other way
    for version in versions:
        assert list(_our_fields(cls, version)) == list(_their_fields(theirs, version))


@for_each("cls", _CLASSES)
def test_defaults_are_those_of_kafkas_definition(cls: type[Any]) -> None:
    theirs = oracle.their_class(cls)._struct  # noqa: SLF001  # no other way
    pairs = list(_fields_with_defaults(cls, theirs, list(versions_of(cls)), cls.__name__))
    assert [ours for ours, _ in pairs] == [kafkas for _, kafkas in pairs]


@for_each("cls", _MESSAGES)
def test_messages_go_by_kafkas_names(cls: type[Any]) -> None:
    name = oracle.their_class(cls).name
    for direction in ("Request", "Response"):
        name = name.replace(direction, f" {direction.lower()}")
    assert declaration_of(cls).subject == name


def test_a_wrong_declaration_is_noticed() -> None:
    theirs = oracle.their_class(MetadataResponse)._struct  # noqa: SLF001  # no other way
    ours = list(_our_fields(MetadataResponse, 4))
    assert ours == list(_their_fields(theirs, 4))
    assert ours != list(_their_fields(theirs, 5))


def _our_fields(cls: type[Any], version: int, path: str = "") -> Iterator[tuple[Any, ...]]:
    for spec in declaration_of(cls).fields:
        if version in spec.versions and not spec.is_own:
            name = path + oracle.their_name(cls, spec.name)
            yield name, _type_name(spec.type), spec.tag, version in spec.nullable
            if (part := _part_of(spec.type)) is not None:
                yield from _our_fields(part, version, f"{name}.")


def _their_fields(struct: Any, version: int, path: str = "") -> Iterator[tuple[Any, ...]]:
    for field in struct.fields.values():
        if field.for_version_q(version):
            name = path + field.name
            tag = field.tag if field.tagged_field_q(version) else None
            yield name, _their_type_name(field), tag, field.nullable_for_version_q(version)
            if field.is_struct() or field.is_struct_array():
                yield from _their_fields(field, version, f"{name}.")


def _type_name(wire_type: WireType) -> str:
    if isinstance(wire_type, Array):
        return f"[]{_type_name(wire_type.element)}"
    return wire_type.value if isinstance(wire_type, Primitive) else "part"


def _their_type_name(field: Any) -> str:
    if field.is_struct_array():
        return "[]part"
    if field.is_struct():
        return "part"
    # kafka-python's own type for what Kafka sends as a number.
    return "int32" if field.type_str == "bitfield" else str(field.type_str)


def _part_of(wire_type: WireType) -> type[Any] | None:
    element = wire_type.element if isinstance(wire_type, Array) else wire_type
    return element if isinstance(element, type) else None


def _fields_with_defaults(
    cls: type[Any], struct: Any, versions: list[int], path: str
) -> Iterator[tuple[Any, Any]]:
    """What we and Kafka say of each field that has a default here: value, and droppable or not."""
    for spec in declaration_of(cls).fields:
        having = [version for version in versions if version in spec.versions]
        if not having or spec.is_own:
            continue
        name = f"{path}.{spec.name}"
        field = struct.fields[oracle.their_name(cls, spec.name)]
        if spec.default is not dataclasses.MISSING and not dataclasses.is_dataclass(spec.default):
            # Where every version has the field, whether it may be dropped means nothing.
            matters = having != versions
            yield (
                (name, spec.default, spec.ignorable if matters else None),
                (name, _their_default(spec, field), bool(field._ignorable) if matters else None),  # noqa: SLF001
            )
        if (part := _part_of(spec.type)) is not None:
            yield from _fields_with_defaults(part, field, having, name)


def _their_default(spec: FieldSpec, field: Any) -> Any:
    """kafka-python's default in our terms."""
    match spec.type, field.default:
        case Array(), []:
            return ()
        case Primitive.UUID, None:
            return NIL_UUID
        case Primitive.INT32, None:  # a set of authorized operations
            return -(2**31)
        case _, default:
            return default
