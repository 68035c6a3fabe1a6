"""SaslHandshake (17): choose the mechanism of authentication."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, STRING, Array, field, request, response

__all__ = [
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
]


@request(ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """Propose a mechanism."""

    mechanism: str = field(STRING)


@response(ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """Whether the server accepts the mechanism, and which ones it offers."""

    error_code: int = field(INT16, default=0)
    mechanisms: tuple[str, ...] = field(Array(STRING))
