"""The contenders of the wire benchmarks: libraries behind one interface."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import partial
from io import BytesIO
from typing import Any, Final

import aiokafka.protocol.commit as aiokafka_commit
import aiokafka.protocol.group as aiokafka_group
import kafka.protocol.consumer.group as kafka_group
from aiokafka.protocol import api as aiokafka_api

from bench.support.wire_by_hand import DECODERS, ENCODERS
from bench.support.wire_cases import CLIENT_ID, CORRELATION_ID, Case
from coterie_protocol import (
    ApiKey,
    Request,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from coterie_protocol._compile import format_of
from coterie_protocol.schema import declaration_of

__all__ = [
    "AIOKAFKA",
    "BY_HAND",
    "COTERIE",
    "INTERPRETED",
    "KAFKA_PYTHON",
    "Contender",
    "contenders",
    "frame_of",
]

BY_HAND: Final = "by hand"
COTERIE: Final = "coterie"
INTERPRETED: Final = "interpreted"
KAFKA_PYTHON: Final = "kafka-python"
AIOKAFKA: Final = "aiokafka"

_REQUEST_FRAME: Final = struct.Struct(">ihhih")
_RESPONSE_FRAME: Final = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to read and write one message in one version."""

    name: str
    version: int
    #: From a payload (a frame without its length) to the contender's own kind of message.
    decode: Callable[[bytes], Any]
    #: From such a message to a frame.
    encode: Callable[[Any], bytes | bytearray]
    #: All values of such a message, header first, in the order of the bytes.
    values: Callable[[Any], list[Any]]


def contenders(case: Case) -> list[Contender]:
    """All ways to read and write a message; by hand only if that function was written."""
    return [
        *_by_hand(case),
        _coterie(case),
        _kafka_python(case),
        _aiokafka(case),
        _interpreted(case),
    ]


def frame_of(case: Case, version: int) -> bytes:
    """The message in the given version, as a frame."""
    if case.is_request:
        return encode_request(case.message, version, CORRELATION_ID, CLIENT_ID)
    return encode_response(case.message, version, CORRELATION_ID)


def _plain(value: Any) -> Any:
    """Turn records and arrays alike into lists of their values, in the order of the bytes."""
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _by_hand(case: Case) -> Iterator[Contender]:
    key = type(case.message).__name__, case.version
    if key in DECODERS:
        yield Contender(BY_HAND, case.version, DECODERS[key], ENCODERS[key], _plain)


def _coterie(case: Case) -> Contender:
    cls, version = type(case.message), case.version

    def encode_answer(answer: tuple[int, Any]) -> bytes:
        return encode_response(answer[1], version, answer[0])

    values = partial(_values, version)
    if case.is_request:
        return Contender(COTERIE, version, decode_request, _encode_request, values)
    decode = partial(decode_response, cls, version)
    return Contender(COTERIE, version, decode, encode_answer, values)


def _encode_request(request: Request) -> bytes:
    return encode_request(
        request.message, request.api_version, request.correlation_id, request.client_id
    )


def _values(version: int, decoded: Request | tuple[int, Any]) -> list[Any]:
    if isinstance(decoded, Request):
        header = [decoded.api_key, decoded.api_version, decoded.correlation_id, decoded.client_id]
        return [*header, *_values_of(decoded.message, version)]
    correlation_id, message = decoded
    return [correlation_id, *_values_of(message, version)]


def _values_of(value: Any, version: int) -> Any:
    if isinstance(value, tuple):
        return [_values_of(each, version) for each in value]
    if not is_dataclass(value):
        return value
    return [
        _values_of(getattr(value, spec.name), version)
        for spec in declaration_of(type(value)).fields
        if version in spec.versions and not spec.is_own  # fields of Coterie's own are not written
    ]


def _interpreted(case: Case) -> Contender:
    """The format from which our code is generated, run directly."""
    cls, version = type(case.message), case.version
    form = format_of(cls, version)
    flexible = version in declaration_of(cls).flexible

    def decode(payload: bytes) -> Request | tuple[int, Any]:
        stream = BytesIO(payload)
        if not case.is_request:
            stream.seek(4 + flexible)
            return int.from_bytes(payload[:4]), form.parse_stream(stream)
        header = decode_request_header(payload)
        stream.seek(10 + len(header.client_id or "") + flexible)
        message = form.parse_stream(stream)
        return Request(
            ApiKey(header.api_key),
            header.api_version,
            header.correlation_id,
            header.client_id,
            message,
        )

    def encode(decoded: Request | tuple[int, Any]) -> bytes:
        tags = b"\0" if flexible else b""
        if not isinstance(decoded, Request):
            body = tags + form.build(decoded[1])
            return _RESPONSE_FRAME.pack(4 + len(body), decoded[0]) + body
        client_id = (decoded.client_id or "").encode()
        body = client_id + tags + form.build(decoded.message)
        head = decoded.api_key, decoded.api_version, decoded.correlation_id, len(client_id)
        return _REQUEST_FRAME.pack(10 + len(body), *head) + body

    return Contender(INTERPRETED, version, decode, encode, partial(_values, version))


def _kafka_python(case: Case) -> Contender:
    cls = getattr(kafka_group, type(case.message).__name__)

    def encode(message: Any) -> Any:
        header = message.header
        if case.is_request:
            message.with_header(header.correlation_id, header.client_id)
        else:
            message.with_header(header.correlation_id)
        return message.encode(header=True, framed=True)

    def values(message: Any) -> list[Any]:
        parts = message.header.to_dict(json=False), message.to_dict(json=False)
        return [value for part in parts for value in _plain(part)]

    decode = partial(cls.decode, version=case.version, header=True)
    return Contender(KAFKA_PYTHON, case.version, decode, encode, values)


def _aiokafka(case: Case) -> Contender:
    version = case.aiokafka_version
    name = type(case.message).__name__
    module = aiokafka_commit if name.startswith("OffsetCommit") else aiokafka_group
    cls = getattr(module, f"{name}_v{version}")

    def decode_request(payload: bytes) -> tuple[Any, Any]:
        stream = BytesIO(payload)
        # Its header class is for writing; it cannot be made from what was read.
        header = aiokafka_api.RequestHeader_v1.SCHEMA.decode(stream)
        return header, cls.decode(stream)

    def encode_request(decoded: tuple[Any, Any]) -> bytes:
        (_, _, correlation_id, client_id), message = decoded
        header = message.build_request_header(correlation_id, client_id)
        return _with_length(header.encode() + message.encode())

    def decode_response(payload: bytes) -> tuple[Any, Any]:
        stream = BytesIO(payload)
        header = aiokafka_api.ResponseHeader_v0.decode(stream)
        return (header.correlation_id,), cls.decode(stream)

    def encode_response(decoded: tuple[Any, Any]) -> bytes:
        (correlation_id,), message = decoded
        header = aiokafka_api.ResponseHeader_v0(correlation_id)
        return _with_length(header.encode() + message.encode())

    def values(decoded: tuple[Any, Any]) -> list[Any]:
        header, message = decoded
        return [*header, *_plain(message.to_object())]

    if case.is_request:
        return Contender(AIOKAFKA, version, decode_request, encode_request, values)
    return Contender(AIOKAFKA, version, decode_response, encode_response, values)


def _with_length(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message
