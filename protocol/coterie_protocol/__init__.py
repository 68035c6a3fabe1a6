"""Kafka's group protocol: bytes to messages and back.

This package knows nothing of sockets, clocks or coordinators.  `messages` declares requests and
responses, `codec` reads and writes them, `framing` cuts a stream into frames, `consumer` has the
subscriptions and assignments that members exchange inside of messages, `streams` has what members
with state put inside of those, `errors` has an exception for each of Kafka's error codes, and
`journal` declares the events that coordinators write down.
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
    encode_response_in_turns,
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
    "encode_response_in_turns",
    "request_class",
    "response_class",
]
