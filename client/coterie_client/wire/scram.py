"""SCRAM (RFC 5802, RFC 7677), the client's part of the conversation.  Pure: the nonce is handed in.

Names and passwords are used as their UTF-8 bytes, without SASLprep: Kafka stores them like that, so
that preparing a password would lock out whoever has more than ASCII in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from coterie_client.errors import ServerNotProvenError
from coterie_protocol.errors import SaslAuthenticationFailedError

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "ScramClient"]

#: RFC 7677 wants no fewer; a server that asks for less makes a stolen exchange cheap to break.
ITERATIONS_MIN: Final = 4_096
#: Kafka itself permits 16,384. Far more would stall the event loop for whoever is told to.
ITERATIONS_MAX: Final = 200_000

#: "no channel binding", as base64 of "n,,".
_GS2_HEADER: Final = "n,,"
_CHANNEL: Final = "c=" + base64.b64encode(_GS2_HEADER.encode()).decode()


class ScramClient:
    """One conversation: `first`, then `final` with the server's first message, then `verify`.

    `digest` is hashlib's name of the hash, `nonce` some printable ASCII without commas that was
    never used before.
    """

    __slots__ = ("_digest", "_expected_signature", "_first_bare", "_nonce", "_password")

    def __init__(self, digest: str, username: str, password: str, nonce: str) -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._expected_signature = b""

    def first(self) -> bytes:
        """The message that begins the conversation."""
        return (_GS2_HEADER + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """The proof that this side knows the password."""
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
        """Raise unless the server has shown that it knows the password as well."""
        fields = _fields(server_final, "final message")
        signature = _decoded(fields.get("v", ""), "final message")
        # An empty signature must not pass for a conversation that never got to the proof.
        if not self._expected_signature or not hmac.compare_digest(
            signature, self._expected_signature
        ):
            raise ServerNotProvenError(
                "The server's SCRAM signature is wrong: it does not know the password, so it may be"
                " an impostor; check the address before trying again."
            )

    def _challenge(self, fields: dict[str, str]) -> tuple[str, bytes, int]:
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""), "first message")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise _unsound("first message")
        digits = fields.get("i", "")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
            raise _unsound("first message")
        iterations = int(digits)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ServerNotProvenError(
                f"The server asks for {iterations} SCRAM iterations, and this client does"
                f" {ITERATIONS_MIN} to {ITERATIONS_MAX}; set the user's password anew with a number"
                " in between."
            )
        return nonce, salt, iterations

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes, which: str) -> dict[str, str]:
    """The attributes of a server's message; an attribute `e` is its refusal."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise _unsound(which) from None
    fields = {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
    if "e" in fields:
        raise SaslAuthenticationFailedError(f"the server says {fields['e']!r}")
    if "m" in fields:
        raise ServerNotProvenError(
            "The server asks for a mandatory extension of SCRAM, and this client knows none; use"
            " another mechanism."
        )
    return fields


def _decoded(text: str, which: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _unsound(which) from None


def _unsound(which: str) -> ServerNotProvenError:
    return ServerNotProvenError(
        f"The server's SCRAM {which} makes no sense; check that the address is that of a Kafka"
        " listener with this mechanism."
    )
