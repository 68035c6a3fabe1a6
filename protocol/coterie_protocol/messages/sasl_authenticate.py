"""SaslAuthenticate (36): one step of the chosen mechanism."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import BYTES, INT16, INT64, STRING, field, request, response

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
]


@request(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """The client's next token."""

    auth_bytes: bytes = field(BYTES, secret=True)


@response(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's next token, or an error."""

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    auth_bytes: bytes = field(BYTES, secret=True)
    session_lifetime_ms: int = field(INT64, versions="1+", ignorable=True, default=0)
