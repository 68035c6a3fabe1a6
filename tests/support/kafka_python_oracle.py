"""kafka-python's encoders, driven by Coterie's declarations.

kafka-python makes its encoders from Kafka's own JSON definitions, of which it carries a copy with
all the old versions, so its field names, in snake case, are Coterie's.  A message is carried over
field by field, by name: a field in the wrong place, of the wrong type or in the wrong version shows
in the bytes.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from coterie_protocol.consumer import Assignment, StickyData, Subscription
from coterie_protocol.schema import (
    NIL_UUID,
    Array,
    FieldSpec,
    Kind,
    Primitive,
    WireType,
    declaration_of,
)

with warnings.catch_warnings():
    # kafka-python reads its definitions with functions that Python 3.11 deprecates.
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields

__all__ = [
    "OTHER_FIELD_NAMES",
    "embedded",
    "frame",
    "newest_version",
    "read_embedded",
    "read_frame",
    "read_theirs",
    "their_class",
    "their_name",
    "to_theirs",
    "unknown_tags_everywhere",
]

_MODULES: Final = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)

_EMBEDDED: Final[Mapping[type[Any], Any]] = {
    Subscription: kafka.protocol.consumer.ConsumerProtocolSubscription,
    Assignment: kafka.protocol.consumer.ConsumerProtocolAssignment,
    StickyData: StickyAssignorUserData,
}

#: Fields that kafka-python renames after it has read Kafka's definition.
OTHER_FIELD_NAMES: Final = {
    ("MetadataResponse", "cluster_authorized_operations"): "authorized_operations",
    ("MetadataResponseTopic", "topic_authorized_operations"): "authorized_operations",
}


def their_class(cls: type[Any]) -> Any:
    """kafka-python's class for a message or structure of ours; None if it has none."""
    if declaration_of(cls).kind is Kind.STRUCT:
        return _EMBEDDED.get(cls)
    found = (getattr(module, cls.__name__, None) for module in _MODULES)
    return next((theirs for theirs in found if theirs is not None), None)


def their_name(cls: type[Any], name: str) -> str:
    """kafka-python's name for a field."""
    return OTHER_FIELD_NAMES.get((cls.__name__, name), name)


def newest_version(cls: type[Any]) -> int:
    """The newest version that kafka-python has; -1 if it does not have the message."""
    theirs = their_class(cls)
    return -1 if theirs is None else int(theirs.max_version)


def frame(message: Any, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """The frame that kafka-python writes for a request or response."""
    theirs = to_theirs(message, version)
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(theirs.encode(header=True, framed=True))


def read_frame(cls: type[Any], version: int, data: bytes) -> tuple[Any, Any]:
    """What kafka-python reads in a frame: its header, and the message carried back."""
    header, theirs = read_theirs(cls, version, data)
    return header, _from_container(theirs, cls, version)


def read_theirs(cls: type[Any], version: int, data: bytes) -> tuple[Any, Any]:
    """What kafka-python reads in a frame, header and message, as it is."""
    # Not the class's own method: ApiVersionsResponse reads an error as version 0, come what may.
    read = ApiMessage.decode.__func__
    theirs = read(their_class(cls), data, version=version, header=True, framed=True)
    return theirs.header, theirs


def embedded(structure: Any, version: int) -> bytes:
    """The bytes that kafka-python puts into a group's opaque fields."""
    theirs = to_theirs(structure, version)
    return bytes(theirs.encode(header=_starts_with_version(type(structure))))


def read_embedded(cls: type[Any], version: int, data: bytes) -> Any:
    """What kafka-python reads in a group's opaque fields."""
    theirs = their_class(cls).decode(data, version=version, header=_starts_with_version(cls))
    return _from_container(theirs, cls, version)


def to_theirs(message: Any, version: int) -> Any:
    """Carry a message over to kafka-python."""
    theirs = their_class(type(message))
    return _to_container(message, version, theirs, theirs._struct)  # noqa: SLF001  # no other way


@contextmanager
def unknown_tags_everywhere(tags: Mapping[int, bytes]) -> Iterator[None]:
    """Make kafka-python write unknown tags into every tagged section that it writes.

    Only parts that are tagged fields themselves are left alone: kafka-python writes the end of
    their sections as a constant.
    """
    added = b"".join(_varint(tag) + _varint(len(value)) + value for tag, value in tags.items())
    encode, encode_into = TaggedFields.encode, TaggedFields.encode_into

    def encode_more(self: Any, item: Any, version: int) -> bytes:
        section = bytes(encode(self, item, version=version))
        return _varint(section[0] + len(tags)) + section[1:] + added

    def encode_more_into(self: Any, item: Any, out: Any, version: int) -> None:
        start = out.pos
        encode_into(self, item, out, version=version)
        # Kafka has no section of more than four known tags: the count stays one byte.
        out.buf[start] += len(tags)
        out.ensure(len(added))
        out.buf[out.pos : out.pos + len(added)] = added
        out.pos += len(added)

    with (
        mock.patch.object(TaggedFields, "encode", encode_more),
        mock.patch.object(TaggedFields, "encode_into", encode_more_into),
    ):
        yield


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _starts_with_version(cls: type[Any]) -> bool:
    return cls is not StickyData


def _fields(cls: type[Any], version: int) -> Iterator[tuple[FieldSpec, str]]:
    for spec in declaration_of(cls).fields:
        if version in spec.versions and not spec.is_own:
            yield spec, their_name(cls, spec.name)


def _is_tagged_part(spec: FieldSpec) -> bool:
    """Whether leaving the field out means a part full of defaults, or the nil id.

    kafka-python calls either None.
    """
    is_none = dataclasses.is_dataclass(spec.default) or spec.default == NIL_UUID
    return spec.tag is not None and is_none


def _to_container(message: Any, version: int, theirs: Any, struct: Any) -> Any:
    values: dict[str, Any] = {}
    for spec, name in _fields(type(message), version):
        value = getattr(message, spec.name)
        absent = _is_tagged_part(spec) and value == spec.default
        values[name] = None if absent else _to_value(value, spec.type, version, struct.fields[name])
    return theirs(version=version, **values)


def _to_value(value: Any, wire_type: WireType, version: int, field: Any) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Array):
        return [_to_value(item, wire_type.element, version, field.array_of) for item in value]
    if isinstance(wire_type, Primitive):
        return _bits(value) if field.type_str == "bitfield" else value
    return _to_container(value, version, field.data_class, field)


def _from_container(theirs: Any, cls: type[Any], version: int) -> Any:
    values: dict[str, Any] = {}
    for spec, name in _fields(cls, version):
        value = getattr(theirs, name)
        if value is None and _is_tagged_part(spec):
            values[spec.name] = spec.default
        else:
            field = theirs._struct.fields[name]  # noqa: SLF001  # no other way
            values[spec.name] = _from_value(value, spec.type, version, field)
    return cls(**values)


def _from_value(value: Any, wire_type: WireType, version: int, field: Any) -> Any:
    if field.type_str == "bitfield":
        return _number({31} if value is None else value)
    if wire_type is Primitive.UUID:
        return NIL_UUID if value is None else value
    if value is None or isinstance(wire_type, Primitive):
        return value
    if isinstance(wire_type, Array):
        return tuple(
            _from_value(item, wire_type.element, version, field.array_of) for item in value
        )
    return _from_container(value, wire_type, version)


def _bits(number: int) -> set[int]:
    """The set of bits that kafka-python makes of authorized operations."""
    return {bit for bit in range(32) if number >> bit & 1}


def _number(bits: set[int]) -> int:
    unsigned = sum(1 << bit for bit in bits)
    return unsigned - (1 << 32) if 31 in bits else unsigned
