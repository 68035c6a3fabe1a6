"""Logs in to a server by SASL, with as little work of the client's own as can be."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import hmac
import itertools
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from coterie_protocol import FrameReader, decode_response, encode_request, response_class
from coterie_protocol import messages as m
from coterie_protocol.schema import declaration_of

__all__ = ["MECHANISMS", "PASSWORD", "USER", "log_in", "logged_in", "set_scram_password"]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER: Final = "bench"
PASSWORD: Final = "a password of the benchmark"  # noqa: S105  # of servers that last for a run

_HOST: Final = "127.0.0.1"
_DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS: Final = 4096
_SALT: Final = b"salt of the benchmark"
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION, _ALTER_VERSION = 1, 2, 0
_nonces = itertools.count()


class _Asking(asyncio.Protocol):
    """Asks on a connection, one question at a time."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for payload in self._reader.feed(data):
            self._answers.put_nowait(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._answers.put_nowait(None)

    async def ask(self, message: Any, version: int) -> Any:
        """The answer to a request."""
        self._transport.write(encode_request(message, version, 1, USER))
        payload = await self._answers.get()
        if payload is None:
            raise ConnectionResetError("the server closed a connection")
        api = declaration_of(type(message)).api
        assert api is not None
        return decode_response(response_class(api), version, payload)[1]


async def _open(port: int, tls: ssl.SSLContext | None = None) -> tuple[asyncio.Transport, _Asking]:
    loop = asyncio.get_running_loop()
    return await loop.create_connection(_Asking, _HOST, port, ssl=tls)


async def log_in(port: int, mechanism: str, token: str = "") -> None:
    """Connect, log in and hang up; raise unless the server lets the client in."""
    (await logged_in(port, mechanism, token)).abort()


async def logged_in(
    port: int, mechanism: str, token: str = "", tls: ssl.SSLContext | None = None
) -> asyncio.Transport:
    """Connect and log in; raise unless the server lets the client in."""
    transport, asking = await _open(port, tls)
    try:
        await _prove(asking, mechanism, token)
    except BaseException:
        transport.abort()
        raise
    return transport


async def _prove(asking: _Asking, mechanism: str, token: str) -> None:
    shaken = await asking.ask(m.SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION)
    if shaken.error_code:
        raise ConnectionError(f"{mechanism} is refused with error {shaken.error_code}")
    said = b""
    for say in _steps(mechanism, token):
        asked = m.SaslAuthenticateRequest(auth_bytes=say(said))
        answer = await asking.ask(asked, _AUTHENTICATE_VERSION)
        if answer.error_code:
            raise ConnectionError(f"the login is refused: {answer.error_message}")
        said = answer.auth_bytes


async def set_scram_password(port: int) -> None:
    """Store the user's password for both mechanisms, where no login is needed."""
    transport, asking = await _open(port)
    for number, digest in enumerate(_DIGESTS.values(), 1):
        upsertion = m.ScramCredentialUpsertion(
            name=USER,
            mechanism=number,
            iterations=_ITERATIONS,
            salt=_SALT,
            salted_password=_salted(digest, _SALT, _ITERATIONS),
        )
        asked = m.AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
        (result,) = (await asking.ask(asked, _ALTER_VERSION)).results
        if result.error_code:
            raise ConnectionError(f"no password can be set: {result.error_message}")
    transport.abort()
    await asyncio.sleep(1)  # by then logins go by it


# -- what is said ------------------------------------------------------------------------------


def _steps(mechanism: str, token: str) -> list[Callable[[bytes], bytes]]:
    """Functions from what the server said to what the client says."""
    if mechanism == "PLAIN":
        return [lambda _: f"\0{USER}\0{PASSWORD}".encode()]
    if mechanism == "OAUTHBEARER":
        return [lambda _: f"n,,\x01auth=Bearer {token}\x01\x01".encode()]
    bare = f"n={USER},r=nonce{next(_nonces)}{time.monotonic_ns()}"
    digest = _DIGESTS[mechanism]
    return [lambda _: f"n,,{bare}".encode(), functools.partial(_proof, digest, bare)]


def _proof(digest: str, bare: str, challenge: bytes) -> bytes:
    nonce, salt, iterations = (part[2:] for part in challenge.decode().split(","))
    unproved = f"c=biws,r={nonce}"
    said = f"{bare},{challenge.decode()},{unproved}".encode()
    salted = _salted(digest, base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), said, digest)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


@functools.cache
def _salted(digest: str, salt: bytes, iterations: int) -> bytes:
    """It is made once, as the server's work is measured and not the client's."""
    return hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), salt, iterations)
