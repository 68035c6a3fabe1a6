"""Messages as the JSON that Kafka's own generated converters read and write."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Any, Final

from coterie_protocol.schema import Array, Primitive, WireType, declaration_of

__all__ = ["camel_case", "from_json", "to_json"]


def camel_case(name: str) -> str:
    """A field's name as Kafka's JSON has it: `group_id` is `groupId`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def to_json(message: Any, version: int) -> dict[str, Any]:
    """The JSON of a message: all fields that the version has."""
    return {
        camel_case(spec.name): _to_value(getattr(message, spec.name), spec.type, version)
        for spec in declaration_of(type(message)).fields
        if version in spec.versions and not spec.is_own
    }


def from_json(cls: type[Any], version: int, json: dict[str, Any]) -> Any:
    """The message in some JSON, which leaves out tagged fields that have their default."""
    values = {}
    left = dict(json)
    for spec in declaration_of(cls).fields:
        name = camel_case(spec.name)
        if version in spec.versions and not (spec.tag is not None and name not in left):
            values[spec.name] = _from_value(left.pop(name), spec.type, version)
    if left:
        raise ValueError(f"{cls.__name__} v{version} has no {', '.join(left)}")
    return cls(**values)


def _to_uuid_text(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _from_uuid_text(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_WRITERS: Final[dict[Primitive, Callable[[Any], Any]]] = {
    Primitive.UUID: _to_uuid_text,
    Primitive.BYTES: _to_base64,
    Primitive.RECORDS: _to_base64,
}
_READERS: Final[dict[Primitive, Callable[[Any], Any]]] = {
    Primitive.UUID: _from_uuid_text,
    Primitive.BYTES: base64.b64decode,
    Primitive.RECORDS: base64.b64decode,
}


def _to_value(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Primitive):
        return _WRITERS[wire_type](value) if wire_type in _WRITERS else value
    if isinstance(wire_type, Array):
        return [_to_value(item, wire_type.element, version) for item in value]
    return to_json(value, version)


def _from_value(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Primitive):
        return _READERS[wire_type](value) if wire_type in _READERS else value
    if isinstance(wire_type, Array):
        return tuple(_from_value(item, wire_type.element, version) for item in value)
    return from_json(wire_type, version, value)
