"""SASL: authenticating on a new connection.  Pure.

The mechanisms are PLAIN, SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628).

SaslHandshake names the mechanism, then SaslAuthenticate carries its messages.  The caller passes in
how to ask the server, the nonce, and the token.

Names and passwords are used as their UTF-8 bytes, without SASLprep: Kafka stores them like that, so
preparing a password would lock out users whose passwords are not plain ASCII.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final, cast

from coterie_client.errors import ServerNotProvenError
from coterie_client.wire.credentials import Sasl, SaslMechanism
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    class_for,
)
from coterie_protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "ScramClient", "authenticate", "conversation"]

Ask = Callable[[Any], Awaitable[Any]]

_DIGESTS: Final = {
    SaslMechanism.SCRAM_SHA_256: "sha256",
    SaslMechanism.SCRAM_SHA_512: "sha512",
}

#: RFC 7677 requires at least this; fewer make a recorded exchange cheap to break.
ITERATIONS_MIN: Final = 4_096
#: Kafka itself permits 16,384. Far more would let a server stall the client's event loop.
ITERATIONS_MAX: Final = 200_000

#: "no channel binding", as base64 of "n,,".
_GS2_HEADER: Final = "n,,"
_CHANNEL: Final = "c=" + base64.b64encode(_GS2_HEADER.encode()).decode()


async def authenticate(
    ask: Ask, sasl: Sasl, server: str, nonce: str, token: str | None = None
) -> int:
    """Authenticate; return for how many milliseconds that holds, 0 being forever."""
    handshake = cast(
        SaslHandshakeResponse, await ask(SaslHandshakeRequest(mechanism=str(sasl.mechanism)))
    )
    _accept_mechanism(handshake, sasl, server)
    messages = conversation(sasl, nonce, token)
    message = next(messages)
    while True:
        answer = cast(
            SaslAuthenticateResponse, await ask(SaslAuthenticateRequest(auth_bytes=message))
        )
        if answer.error_code:
            sentence = answer.error_message or "no reason given"
            whom = f"to user {sasl.username!r}" if sasl.username else "of the token"
            detail = f"{server} says {whom}: {sentence}"
            raise class_for(ErrorCode.of(answer.error_code))(detail)
        try:
            message = messages.send(answer.auth_bytes)
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


def conversation(sasl: Sasl, nonce: str, token: str | None = None) -> Generator[bytes, bytes, None]:
    """Yield what the client sends; the server's answer to each message is sent in.

    Ends when the server has proved what the mechanism lets it prove, and raises if it does not.
    """
    if sasl.mechanism == SaslMechanism.PLAIN:
        yield f"\0{sasl.username}\0{sasl.password}".encode()
        return
    if sasl.mechanism == SaslMechanism.OAUTHBEARER:
        assert token is not None, "OAUTHBEARER without a token"
        yield from _bearer(token, sasl.extensions)
        return
    scram = ScramClient(
        _DIGESTS[SaslMechanism(sasl.mechanism)], sasl.username, sasl.password, nonce
    )
    server_first = yield scram.first()
    server_final = yield scram.final(server_first)
    scram.verify(server_final)


def _bearer(token: str, extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    pairs = {"auth": f"Bearer {token}", **extensions}
    text = "\1".join(f"{key}={value}" for key, value in pairs.items())
    refusal = yield f"{_GS2_HEADER}\1{text}\1\1".encode()
    if refusal:
        # The server tells why in JSON, and ends the conversation once that is acknowledged.
        yield b"\1"
        raise SaslAuthenticationFailedError(f"the server says {_status_in(refusal)!r}")


def _status_in(refusal: bytes) -> str:
    try:
        return str(json.loads(refusal)["status"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "no"


class ScramClient:
    """One conversation: `first`, then `final` with the server's first message, then `verify`.

    `digest` is hashlib's name of the hash, `nonce` printable ASCII without commas, never used
    before.
    """

    __slots__ = ("_digest", "_expected_signature", "_first_bare", "_nonce", "_password")

    def __init__(self, digest: str, username: str, password: str, nonce: str) -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._expected_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (_GS2_HEADER + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the second message, which proves that this side knows the password."""
        fields = _fields(server_first, "first message")
        nonce, salt, iterations = self._challenge(fields)
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"{_CHANNEL},r={nonce}"
        exchange = b",".join((self._first_bare.encode(), server_first, without_proof.encode()))
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), exchange)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._expected_signature = self._hmac(self._hmac(salted, b"Server Key"), exchange)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise unless the server has proved that it knows the password as well."""
        fields = _fields(server_final, "final message")
        signature = _decoded(fields.get("v", ""), "final message")
        # An empty signature must not pass for a conversation that never got to the proof.
        if not self._expected_signature or not hmac.compare_digest(
            signature, self._expected_signature
        ):
            raise ServerNotProvenError(
                "The server's SCRAM signature is wrong: it does not know the password and may be an"
                " impostor; check the address before trying again."
            )

    def _challenge(self, fields: dict[str, str]) -> tuple[str, bytes, int]:
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""), "first message")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise _malformed("first message")
        digits = fields.get("i", "")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
            raise _malformed("first message")
        iterations = int(digits)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ServerNotProvenError(
                f"The server asks for {iterations} SCRAM iterations, but this client accepts"
                f" {ITERATIONS_MIN} to {ITERATIONS_MAX}; set the user's password again with a"
                " number in that range."
            )
        return nonce, salt, iterations

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes, which: str) -> dict[str, str]:
    """The attributes of a server's message; the attribute `e` is a refusal."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise _malformed(which) from None
    fields = {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
    if "e" in fields:
        raise SaslAuthenticationFailedError(f"the server says {fields['e']!r}")
    if "m" in fields:
        raise ServerNotProvenError(
            "The server requires a SCRAM extension, and this client supports none; use another"
            " mechanism."
        )
    return fields


def _decoded(text: str, which: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _malformed(which) from None


def _malformed(which: str) -> ServerNotProvenError:
    return ServerNotProvenError(
        f"The server's SCRAM {which} is malformed; check that the address is that of a Kafka"
        " listener with this mechanism."
    )
