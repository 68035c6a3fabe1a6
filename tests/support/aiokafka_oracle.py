"""aiokafka's encoders, driven by Coterie's declarations.

aiokafka writes every message and version down by hand, as a schema of named fields.  A message is
carried over by those names: where they are not Kafka's, `OTHER_NAMES` says which they stand for.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka.protocol.api import RequestHeader_v1, ResponseHeader_v0
from aiokafka.protocol.types import Schema

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.codec import request_class, response_class
from coterie_protocol.consumer import Assignment, StickyData, Subscription
from coterie_protocol.schema import Array, FieldSpec, Primitive, WireType, declaration_of

__all__ = [
    "CLASSES",
    "OTHER_NAMES",
    "embedded",
    "read_embedded",
    "read_request_frame",
    "read_response_frame",
    "request_frame",
    "response_frame",
    "used_names",
]

_MODULES: Final = (
    "admin",
    "commit",
    "coordination",
    "fetch",
    "group",
    "metadata",
    "offset",
    "produce",
)
_CLASS_NAME: Final = re.compile(r"\w+(?P<kind>Request|Response)_v(?P<version>\d+)")

#: What aiokafka's names for fields stand for; the one that the message has is meant.
OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "api_versions": ("api_keys",),
    "assignment": ("assigned_partitions", "assignments"),
    "config_key": ("name",),
    "config_value": ("value",),
    "consumer_group": ("group_id", "key"),
    "consumer_group_generation_id": ("generation_id_or_member_epoch",),
    "consumer_id": ("member_id",),
    "coordinator_id": ("node_id",),
    "coordinator_key": ("key",),
    "coordinator_type": ("key_type",),
    "create_topic_requests": ("topics",),
    "creation_responses": ("results",),
    "enabled_mechanisms": ("mechanisms",),
    "filter_responses": ("filter_results",),
    "group": ("group_id",),
    "group_assignment": ("assignments",),
    "group_protocol": ("protocol_name",),
    "group_protocols": ("protocols",),
    "host": ("host_filter",),
    "highwater_offset": ("high_watermark",),
    "isr": ("isr_nodes",),
    "leader": ("leader_id",),
    "leader_id": ("leader",),
    "max_bytes": ("partition_max_bytes",),
    "max_offsets": ("max_num_offsets",),
    "max_wait_time": ("max_wait_ms",),
    "member_assignment": ("assignment",),
    "member_metadata": ("metadata", "assignment"),
    "message_set": ("records",),
    "messages": ("records",),
    "metadata": ("committed_metadata",),
    "name": ("key",),
    "offset": ("committed_offset", "fetch_offset", "base_offset"),
    "offsets": ("old_style_offsets",),
    "partition": ("partition_index", "index"),
    "partition_id": ("partition_index",),
    "partitions": ("partition_indexes", "partition_data", "partition_responses"),
    "principal": ("principal_filter",),
    "protocol": ("protocol_data",),
    "protocol_metadata": ("metadata",),
    "protocol_name": ("name",),
    "rebalance_timeout": ("rebalance_timeout_ms",),
    "replica_assignment": ("assignments",),
    "replicas": ("replica_nodes", "broker_ids"),
    "required_acks": ("acks",),
    "resource_name": ("resource_name_filter",),
    "resource_pattern_type": ("pattern_type",),
    "resource_pattern_type_filter": ("pattern_type_filter",),
    "resource_type": ("resource_type_filter",),
    "retention_time": ("retention_time_ms",),
    "sasl_auth_bytes": ("auth_bytes",),
    "session_timeout": ("session_timeout_ms",),
    "state": ("group_state",),
    "subscription": ("topics",),
    "timeout": ("timeout_ms",),
    "timestamp": ("commit_timestamp", "log_append_time_ms"),
    "topic": ("name",),
    "topic_error_codes": ("responses",),
    "topic_errors": ("topics", "results"),
    "topic_partitions": ("topics",),
    "topics": ("topic", "responses", "topic_names", "topic_data"),
}


def request_frame(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The frame that aiokafka writes for a request."""
    request = _to_struct(message, version)
    return _framed(request.build_request_header(correlation_id, client_id), request)


def response_frame(message: Any, version: int, correlation_id: int) -> bytes:
    """The frame in which aiokafka's encoders would put a response."""
    return _framed(ResponseHeader_v0(correlation_id), _to_struct(message, version))


def read_request_frame(cls: type[Any], version: int, frame: bytes) -> tuple[Any, Any]:
    """What aiokafka's decoders read in a request: the header, and the message carried back."""
    payload = io.BytesIO(frame[4:])
    names = RequestHeader_v1.SCHEMA.names
    header = dict(zip(names, RequestHeader_v1.SCHEMA.decode(payload), strict=True))
    return SimpleNamespace(**header), _read(cls, version, payload)


def read_response_frame(cls: type[Any], version: int, frame: bytes) -> tuple[Any, Any]:
    """What aiokafka reads in a response: the header, and the message carried back."""
    payload = io.BytesIO(frame[4:])
    header = ResponseHeader_v0.decode(payload)
    return header, _read(cls, version, payload)


def embedded(structure: Any, version: int) -> bytes:
    """The bytes that aiokafka puts into a group's opaque fields."""
    schema = _EMBEDDED[type(structure)].SCHEMA
    if not _starts_with_version(schema):
        return bytes(schema.encode(_to_values(structure, version, schema)))
    values = _to_values(structure, version, _without_version(schema))
    return bytes(schema.encode([version, *values]))


def read_embedded(cls: type[Any], version: int, data: bytes) -> Any:
    """What aiokafka reads in a group's opaque fields; what it does not know has its default."""
    schema = _EMBEDDED[cls].SCHEMA
    values = list(schema.decode(io.BytesIO(data)))
    if _starts_with_version(schema):
        assert values.pop(0) == version
        schema = _without_version(schema)
    return cls(**_from_values(values, cls, version, schema))


def used_names() -> set[tuple[str, str]]:
    """The names of aiokafka's that are not ours, each with a name of ours that it stands for."""
    schemas = [(cls, version, theirs.SCHEMA) for (cls, version), theirs in CLASSES.items()]
    schemas += [(cls, 1, theirs.SCHEMA) for cls, theirs in _EMBEDDED.items()]
    used = set()
    for cls, version, schema in schemas:
        plain = _without_version(schema) if _starts_with_version(schema) else schema
        used |= set(_names(cls, version, plain))
    return {(theirs, ours) for theirs, ours in used if theirs != ours}


def _names(cls: type[Any], version: int, schema: Any) -> Iterator[tuple[str, str]]:
    for name, field in zip(schema.names, schema.fields, strict=True):
        if isinstance(field, Schema):
            yield from _names(cls, version, field)
            continue
        spec = _spec_named(cls, version, name)
        yield name, spec.name
        element = getattr(field, "array_of", None)
        if isinstance(element, Schema):
            assert isinstance(spec.type, Array)
            assert isinstance(spec.type.element, type)
            yield from _names(spec.type.element, version, element)


def _find_classes() -> Iterator[tuple[tuple[type[Any], int], Any]]:
    """Every request and response of an API that Coterie speaks, by Coterie's class and version."""
    for module in _MODULES:
        for name, theirs in vars(importlib.import_module(f"aiokafka.protocol.{module}")).items():
            match = _CLASS_NAME.fullmatch(name)
            if match and theirs.API_KEY in ApiKey.__members__.values():
                class_of = request_class if match["kind"] == "Request" else response_class
                yield (class_of(ApiKey(theirs.API_KEY)), int(match["version"])), theirs


#: aiokafka's class for each of our messages and versions that it has.
CLASSES: Final[Mapping[tuple[type[Any], int], Any]] = dict(_find_classes())

_EMBEDDED: Final[Mapping[type[Any], Any]] = {
    Subscription: ConsumerProtocolMemberMetadata,
    Assignment: ConsumerProtocolMemberAssignment,
    StickyData: StickyAssignorUserDataV1,
}


def _framed(header: Any, body: Any) -> bytes:
    payload = header.encode() + body.encode()
    return len(payload).to_bytes(4, "big") + bytes(payload)


def _read(cls: type[Any], version: int, payload: io.BytesIO) -> Any:
    schema = CLASSES[cls, version].SCHEMA
    message = cls(**_from_values(schema.decode(payload), cls, version, schema))
    assert not payload.read(), "aiokafka left something unread"
    return message


def _starts_with_version(schema: Any) -> bool:
    return bool(schema.names[:1] == ("version",))


def _without_version(schema: Any) -> Any:
    return Schema(*zip(schema.names[1:], schema.fields[1:], strict=True))


def _to_struct(message: Any, version: int) -> Any:
    theirs = CLASSES[type(message), version]
    return theirs(*_to_values(message, version, theirs.SCHEMA))


def _spec_named(cls: type[Any], version: int, name: str) -> FieldSpec:
    """Our field for a name of aiokafka's."""
    meant = (name, *OTHER_NAMES.get(name, ()))
    found = [
        spec
        for spec in declaration_of(cls).fields
        if version in spec.versions and spec.name in meant
    ]
    assert len(found) == 1, f"{cls.__name__} v{version}: {name} may be any of {found}"
    return found[0]


def _to_values(message: Any, version: int, schema: Any) -> tuple[Any, ...]:
    values = []
    for name, field in zip(schema.names, schema.fields, strict=True):
        if isinstance(field, Schema):  # some neighbouring fields, grouped
            values.append(_to_values(message, version, field))
        else:
            spec = _spec_named(type(message), version, name)
            values.append(_to_value(getattr(message, spec.name), spec.type, version, field))
    return tuple(values)


def _to_value(value: Any, wire_type: WireType, version: int, field: Any) -> Any:
    if value is None or isinstance(wire_type, Primitive):
        return value
    if isinstance(wire_type, Array):
        return [_to_value(item, wire_type.element, version, field.array_of) for item in value]
    if isinstance(field, Schema):
        return _to_values(value, version, field)
    only = _only_field(wire_type, version)
    return _to_value(getattr(value, only.name), only.type, version, field)


def _from_values(values: Any, cls: type[Any], version: int, schema: Any) -> dict[str, Any]:
    """Our fields by name, to make a `cls` of."""
    found: dict[str, Any] = {}
    for value, name, field in zip(values, schema.names, schema.fields, strict=True):
        if isinstance(field, Schema):
            found |= _from_values(value, cls, version, field)
        else:
            spec = _spec_named(cls, version, name)
            found[spec.name] = _from_value(value, spec.type, version, field)
    return found


def _from_value(value: Any, wire_type: WireType, version: int, field: Any) -> Any:
    if value is None or isinstance(wire_type, Primitive):
        return value
    if isinstance(wire_type, Array):
        element = wire_type.element
        return tuple(_from_value(item, element, version, field.array_of) for item in value)
    if isinstance(field, Schema):
        return wire_type(**_from_values(value, wire_type, version, field))
    only = _only_field(wire_type, version)
    return wire_type(**{only.name: _from_value(value, only.type, version, field)})


def _only_field(cls: type[Any], version: int) -> FieldSpec:
    """The field of a part that has but one, for which aiokafka has no schema of its own."""
    (spec,) = (spec for spec in declaration_of(cls).fields if version in spec.versions)
    return spec
