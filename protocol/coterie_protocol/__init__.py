"""Kafka's group protocol: bytes to messages and back.

This package knows nothing of sockets, clocks or coordinators.  `messages` declares what travels,
`codec` turns it into bytes and back, `framing` cuts a stream into frames, `consumer` reads what
members tell each other inside, and `errors` is the registry of Kafka's error codes.
"""

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.codec import (
    API_VERSIONS,
    Request,
    RequestHeader,
    correlation_id_of,
    decode,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
    request_class,
    response_class,
)
from coterie_protocol.errors import KafkaError
from coterie_protocol.exceptions import (
    CoterieError,
    EncodeError,
    ProtocolError,
    UnsupportedRequest,
)
from coterie_protocol.framing import FRAME_SIZE_LIMIT, FrameReader

__all__ = [
    "API_VERSIONS",
    "FRAME_SIZE_LIMIT",
    "ApiKey",
    "CoterieError",
    "EncodeError",
    "FrameReader",
    "KafkaError",
    "ProtocolError",
    "Request",
    "RequestHeader",
    "UnsupportedRequest",
    "correlation_id_of",
    "decode",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "request_class",
    "response_class",
]
