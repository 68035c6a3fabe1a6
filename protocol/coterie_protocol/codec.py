"""Reads and writes messages: whole requests and responses, and single structures.

A *frame* is what goes over the connection: a length of four bytes, a header, a message.  Encoding
returns frames, ready to send.  Decoding takes a *payload*, a frame without its length, as
`framing.FrameReader` delivers it.

The header is read by hand, because it decides which format the rest has.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from coterie_protocol import messages as _messages  # noqa: F401  # declares all the messages
from coterie_protocol._compile import BUILD_FAILURES, PARSE_FAILURES, Codec, codec_of
from coterie_protocol._emit_parse import skip_tagged
from coterie_protocol._format import TEXT_LIMIT, Malformed
from coterie_protocol._twin import remember, twin_of
from coterie_protocol.api_keys import ApiKey
from coterie_protocol.exceptions import EncodeError, ProtocolError, UnsupportedRequest
from coterie_protocol.schema import Kind, VersionRange, declaration_of, declarations

__all__ = [
    "API_VERSIONS",
    "Request",
    "RequestHeader",
    "correlation_id_of",
    "decode",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "encode_response_in_turns",
    "request_class",
    "response_class",
]

M = TypeVar("M")

_CLASSES: Final = {(d.api, d.kind): d.cls for d in declarations() if d.api is not None}

#: Every API that Coterie speaks, and in which versions.
API_VERSIONS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        api: declaration_of(cls).versions
        for (api, kind), cls in sorted(_CLASSES.items(), key=lambda item: item[0][0])
        if kind is Kind.REQUEST
    }
)

_HEADER: Final = struct.Struct(">hhih")
_HEADER_SIZE: Final = _HEADER.size
#: The same header, with API and version read as one number: the route.
_ROUTED_HEADER: Final = struct.Struct(">Iih")
_API_AND_VERSION: Final = struct.Struct(">hh")
_REQUEST_FRAME: Final = struct.Struct(">ihhih")
_RESPONSE_FRAME: Final = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_FRAME: Final = struct.Struct(">iiB")
_CORRELATION_ID: Final = struct.Struct(">i")
_LENGTH_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the fields of its header, and its message."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any


def request_class(api: ApiKey) -> type[Any]:
    """The class of an API's requests."""
    return _CLASSES[api, Kind.REQUEST]


def response_class(api: ApiKey) -> type[Any]:
    """The class of an API's responses."""
    return _CLASSES[api, Kind.RESPONSE]


def decode(cls: type[M], version: int, data: bytes) -> M:
    """Read a message or structure; it must fill `data` exactly."""
    codec = _codec_for(cls, version)
    message, pos = codec.decode(data)
    if pos != len(data):
        raise _left_over(codec, pos, data)
    return cast(M, message)


def encode(message: Any, version: int) -> bytes:
    """Write a message or structure without a header."""
    return _codec_for(type(message), version).encode(message)


def decode_request_header(payload: bytes) -> RequestHeader:
    """Read only the header; this works for unknown APIs and versions, too."""
    try:
        api_key, version, correlation_id, size = _HEADER.unpack_from(payload)
        client_id = _client_id(payload, size)
    except (struct.error, UnicodeDecodeError, Malformed) as error:
        raise _bad_header(error, payload) from error
    return RequestHeader(api_key, version, correlation_id, client_id)


def decode_request(payload: bytes) -> Request:
    """Read a request.

    Raises `UnsupportedRequest`, which carries the header, for an API or version that Coterie does
    not speak, and `ProtocolError` for malformed bytes.
    """
    try:
        route, correlation_id, size = _ROUTED_HEADER.unpack_from(payload)
        pos = _HEADER_SIZE + size
        client_id: str | None
        if size >= 0 and pos <= len(payload):
            client_id = payload[_HEADER_SIZE:pos].decode()
        else:
            client_id, pos = _client_id(payload, size), _HEADER_SIZE
        codec, api, version, flexible = _ROUTES[route]
        if flexible:
            pos = pos + 1 if payload[pos] == 0 else skip_tagged(payload, pos, len(payload))
    except KeyError:
        raise _unsupported(payload) from None
    except (struct.error, IndexError, UnicodeDecodeError, Malformed) as error:
        raise _bad_header(error, payload) from error
    try:
        message, pos = codec.parse(payload, pos)
    except PARSE_FAILURES as error:
        raise codec.explain_parse(error, payload) from error
    if pos != len(payload) and version not in declaration_of(codec.record.cls).surplus:
        raise _left_over(codec, pos, payload)
    # Filled as its twin and then given its class, as the generated parsers do it.
    request: Any = _RequestTwin()
    request.api_key = api
    request.api_version = version
    request.correlation_id = correlation_id
    request.client_id = client_id
    request.message = message
    request.__class__ = Request
    whole: Request = request  # a cast would be one more call
    return whole


def encode_request(
    message: Any, version: int, correlation_id: int, client_id: str | None = None
) -> bytes:
    """Write a request as a frame, ready to send."""
    codec = _codec_for(type(message), version)
    api, flexible = _request_header_of(type(message), version)
    name = b"" if client_id is None else _client_id_bytes(client_id)
    try:
        body = b"".join(codec.build(message, [name, b"\0"] if flexible else [name]))
    except BUILD_FAILURES as error:
        raise codec.explain_build(error, message) from error
    size = _REQUEST_FRAME.size - _LENGTH_SIZE + len(body)
    name_size = -1 if client_id is None else len(name)
    try:
        return _REQUEST_FRAME.pack(size, api, version, correlation_id, name_size) + body
    except struct.error as error:
        raise _bad_number(correlation_id, "request header") from error


def encode_response(message: Any, version: int, correlation_id: int) -> bytes:
    """Write a response as a frame, ready to send."""
    codec, flexible = _response_codec(type(message), version)
    try:
        body = b"".join(codec.build(message, []))
    except BUILD_FAILURES as error:
        raise codec.explain_build(error, message) from error
    return _response_head(len(body), correlation_id, flexible=flexible) + body


def encode_response_in_turns(
    message: Any, version: int, correlation_id: int
) -> Generator[int, None, bytes]:
    """Write a long response as `encode_response` does, but yield about once in a millisecond.

    The generator yields how many bytes there are so far, and returns the frame.
    """
    codec, flexible = _response_codec(type(message), version)
    pieces: list[bytes] = []
    chunks: list[bytes] = []
    written_bytes = 0
    try:
        for _ in codec.build_in_turns(message, pieces):
            chunks.append(b"".join(pieces))
            pieces.clear()
            written_bytes += len(chunks[-1])
            yield written_bytes
    except BUILD_FAILURES as error:
        raise codec.explain_build(error, message) from error
    head = _response_head(sum(map(len, chunks)), correlation_id, flexible=flexible)
    return b"".join((head, *chunks))


def _response_head(body_bytes: int, correlation_id: int, *, flexible: bool) -> bytes:
    try:
        if flexible:
            return _FLEXIBLE_RESPONSE_FRAME.pack(body_bytes + 5, correlation_id, 0)
        return _RESPONSE_FRAME.pack(body_bytes + 4, correlation_id)
    except struct.error as error:
        raise _bad_number(correlation_id, "response header") from error


def correlation_id_of(payload: bytes) -> int:
    """The correlation id of a response, which tells the request that it answers."""
    if len(payload) < _CORRELATION_ID.size:
        raise ProtocolError("cut off", subject="response header", field="correlation_id")
    return cast(int, _CORRELATION_ID.unpack_from(payload)[0])


def decode_response(cls: type[M], version: int, payload: bytes) -> tuple[int, M]:
    """Read a response of the given class; return its correlation id and message."""
    correlation_id = correlation_id_of(payload)
    codec, flexible = _response_codec(cls, version)
    pos = _CORRELATION_ID.size
    if flexible:
        try:
            pos = skip_tagged(payload, pos, len(payload))
        except Malformed as error:
            raise ProtocolError(
                error.reason,
                subject="response header",
                field="tagged fields",
                offset=error.offset or pos,
            ) from error
    message, pos = codec.decode(payload, pos)
    if pos != len(payload):
        raise _left_over(codec, pos, payload)
    return correlation_id, message


class _Routes(dict[int, tuple[Codec, ApiKey, int, bool]]):
    """By route, everything that reading a request takes, so that one look-up finds it.

    Unknown routes are not kept, so no client can make this grow.
    """

    def __missing__(self, route: int) -> tuple[Codec, ApiKey, int, bool]:
        api_key, version = _API_AND_VERSION.unpack(route.to_bytes(_API_AND_VERSION.size))
        cls = _CLASSES[cast(ApiKey, api_key), Kind.REQUEST]
        flexible = version in declaration_of(cls).flexible
        self[route] = codec_of(cls, version), ApiKey(api_key), version, flexible
        return self[route]


_ROUTES: Final = _Routes()


@remember
def _request_header_of(cls: type[Any], version: int) -> tuple[int, bool]:
    declaration = declaration_of(cls)
    if declaration.kind is not Kind.REQUEST or declaration.api is None:
        raise EncodeError("not a request", subject=declaration.subject)
    return int(declaration.api), version in declaration.flexible


@remember
def _response_codec(cls: type[Any], version: int) -> tuple[Codec, bool]:
    """The codec of a response, and whether the response's header has tagged fields.

    An ApiVersions response never has them: a client that asked in a version which the server does
    not know must be able to read the response (KIP-511).
    """
    codec = _codec_for(cls, version)
    declaration = declaration_of(cls)
    if declaration.kind is not Kind.RESPONSE:
        raise EncodeError("not a response", subject=declaration.subject)
    return codec, version in declaration.flexible and declaration.api is not ApiKey.API_VERSIONS


def _codec_for(cls: type[Any], version: int) -> Codec:
    try:
        return codec_of(cls, version)
    except KeyError:
        subject = cls.__name__
        raise EncodeError("no such version", subject=subject, version=version) from None


def _client_id_bytes(client_id: str) -> bytes:
    try:
        name = client_id.encode()
    except (AttributeError, UnicodeEncodeError):
        reason = f"{client_id!r} is not a string that has UTF-8"
        raise EncodeError(reason, subject="request header", field="client_id") from None
    if len(name) > TEXT_LIMIT:
        reason = f"{len(name)} bytes, {TEXT_LIMIT} at most"
        raise EncodeError(reason, subject="request header", field="client_id")
    return name


def _bad_number(correlation_id: int, subject: str) -> EncodeError:
    reason = f"{correlation_id!r} is not a number of 32 bits"
    return EncodeError(reason, subject=subject, field="correlation_id")


def _client_id(payload: bytes, size: int) -> str | None:
    if size == -1:
        return None
    stop = _HEADER.size + size
    if size < 0 or stop > len(payload):
        raise Malformed(f"{size} bytes announced, {len(payload) - _HEADER.size} left")
    return payload[_HEADER.size : stop].decode()


_RequestTwin: Final = cast(Any, twin_of(Request))


def _bad_header(error: Exception, payload: bytes) -> ProtocolError:
    reason = error.reason if isinstance(error, Malformed | UnicodeDecodeError) else "cut off"
    field, offset = None, 0
    if isinstance(error, IndexError):
        field, offset = "tagged fields", len(payload)
    elif isinstance(error, Malformed) and error.offset is not None:
        field, offset = "tagged fields", error.offset
    elif len(payload) >= _HEADER.size:
        field, offset = "client_id", _HEADER.size - 2
    return ProtocolError(reason, subject="request header", field=field, offset=offset)


def _unsupported(payload: bytes) -> UnsupportedRequest:
    header = decode_request_header(payload)
    return UnsupportedRequest(header.api_key, header.api_version, header.correlation_id)


def _left_over(codec: Codec, pos: int, data: bytes) -> ProtocolError:
    return ProtocolError(
        f"{len(data) - pos} bytes left over",
        subject=declaration_of(codec.record.cls).subject,
        version=codec.version,
        offset=pos,
    )
