"""Authenticating on a new connection: SaslHandshake, then the mechanism's tokens."""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, cast

from coterie_client.wire.scram import ScramClient
from coterie_client.wire.security import Sasl, SaslMechanism
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import UnsupportedSaslMechanismError, class_for
from coterie_protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = ["authenticate", "tokens"]

Ask = Callable[[Any], Awaitable[Any]]

_DIGESTS: Final = {
    SaslMechanism.SCRAM_SHA_256: "sha256",
    SaslMechanism.SCRAM_SHA_512: "sha512",
}
_NONCE_BYTES: Final = 24


def tokens(sasl: Sasl, nonce: str) -> Generator[bytes, bytes, None]:
    """What the client sends; each step is sent the server's answer to the one before it.

    It ends when the server has proved all that the mechanism lets it prove, and raises when it
    can't.
    """
    if sasl.mechanism == SaslMechanism.PLAIN:
        yield f"\0{sasl.username}\0{sasl.password}".encode()
        return
    scram = ScramClient(
        _DIGESTS[SaslMechanism(sasl.mechanism)], sasl.username, sasl.password, nonce
    )
    server_first = yield scram.first()
    server_final = yield scram.final(server_first)
    scram.verify(server_final)


async def authenticate(ask: Ask, sasl: Sasl, server: str) -> int:
    """Authenticate; answer for how many milliseconds that holds, 0 being for good."""
    handshake = cast(
        SaslHandshakeResponse, await ask(SaslHandshakeRequest(mechanism=str(sasl.mechanism)))
    )
    _accept_mechanism(handshake, sasl, server)
    conversation = tokens(sasl, base64.b64encode(os.urandom(_NONCE_BYTES)).decode())
    token = next(conversation)
    while True:
        answer = cast(
            SaslAuthenticateResponse, await ask(SaslAuthenticateRequest(auth_bytes=token))
        )
        if answer.error_code:
            sentence = answer.error_message or "no reason given"
            detail = f"{server} says to user {sasl.username!r}: {sentence}"
            raise class_for(ErrorCode.of(answer.error_code))(detail)
        try:
            token = conversation.send(answer.auth_bytes)
        except StopIteration:
            return answer.session_lifetime_ms


def _accept_mechanism(handshake: SaslHandshakeResponse, sasl: Sasl, server: str) -> None:
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise UnsupportedSaslMechanismError(
            f"{server} does not offer {sasl.mechanism}, but {offered}"
        )
    if handshake.error_code:
        raise class_for(ErrorCode.of(handshake.error_code))(f"{server}, SASL handshake")
