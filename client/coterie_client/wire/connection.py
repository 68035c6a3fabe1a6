"""One connection that is ready for requests: dialled, API versions known, authenticated.

dial (TCP, TLS) -> ApiVersions -> SaslHandshake, SaslAuthenticate -> ready
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
import ssl
from typing import Any, Final, Self

from coterie_client.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    CoterieClientError,
    TlsFailedError,
    UnknownHostError,
    VersionNotSpokenError,
    WrongServerError,
)
from coterie_client.log import Log
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.channel import Channel, ConnectionLimits, Counters
from coterie_client.wire.deadlines import time_limit
from coterie_client.wire.dialling import Dial, dial_tcp
from coterie_client.wire.sasl import authenticate
from coterie_client.wire.security import PLAINTEXT, Sasl, Security
from coterie_client.wire.tls import is_plaintext_answer
from coterie_client.wire.tokens import current_token
from coterie_client.wire.versions import Encoded, Versions, api_of
from coterie_protocol import (
    ApiKey,
    correlation_id_of,
    decode_response,
    encode_request,
    response_class,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import class_for
from coterie_protocol.exceptions import CoterieError, ProtocolError
from coterie_protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslHandshakeRequest,
)
from coterie_protocol.strangers import Speech
from coterie_protocol.version import VERSION

__all__ = ["Connection"]

_log = Log(__name__)

#: The version of the first ApiVersions request; every server since Kafka 2.4 supports it.
_VERSIONS_ASKED_FIRST: Final = 3
_ERROR_CODE_BYTES: Final = slice(4, 6)
_NONCE_BYTES: Final = 24
#: The share of a SASL session's lifetime after which another connection takes over, and that after
#: which the session must not be relied on: the server began to count a little earlier.
_LIFETIME_USED: Final = 0.85
_LIFETIME_SAFE: Final = 0.95

_HANDSHAKE_ENDED: Final = "the server ended the TLS handshake, as one does that expects no TLS"


class Connection:
    """A ready connection to one node, made by `open`.

    Requests may overlap: they go out in the order of the calls, and are answered in that order.
    """

    def __init__(
        self,
        channel: Channel,
        versions: Versions,
        client_id: str | None,
        counters: Counters,
        ages_at_s: float | None,
        expires_at_s: float | None,
    ) -> None:
        self._channel = channel
        self._client_id = client_id
        self._counters = counters
        self._ages_at_s = ages_at_s
        self._expires_at_s = expires_at_s
        #: The API versions that the server supports.
        self.versions = versions

    @classmethod
    async def open(
        cls,
        address: NodeAddress,
        *,
        security: Security = PLAINTEXT,
        client_id: str | None = "coterie",
        limits: ConnectionLimits | None = None,
        dial: Dial = dial_tcp,
        counters: Counters | None = None,
    ) -> Self:
        """Connect, ask for the server's versions and authenticate, all within the time limit.

        Raises `ConnectionFailedError` if another attempt may succeed, and otherwise
        `TlsFailedError` or the server's error about the credentials.
        """
        counters = counters or Counters()
        limits = limits or ConnectionLimits()
        opening = _Opening(address, security, client_id, limits, counters)
        try:
            versions, lifetime_ms = await opening.run(dial)
        except BaseException:
            counters.connections_failed += 1
            await opening.undo()
            raise
        counters.connections_opened += 1
        opening.channel.in_use = True
        ages_at_s = expires_at_s = None
        if lifetime_ms > 0:
            now_s = asyncio.get_running_loop().time()
            ages_at_s = now_s + lifetime_ms / 1000 * _LIFETIME_USED
            expires_at_s = now_s + lifetime_ms / 1000 * _LIFETIME_SAFE
        _log.debug("connected", node=str(address), security=security.protocol)
        return cls(opening.channel, versions, client_id, counters, ages_at_s, expires_at_s)

    @property
    def address(self) -> NodeAddress:
        """The node's address."""
        return self._channel.address

    @property
    def closed(self) -> bool:
        """Whether it accepts no more requests."""
        return self._channel.closing

    @property
    def in_flight(self) -> int:
        """The number of pending requests."""
        return self._channel.in_flight

    def aged(self, now_s: float) -> bool:
        """Whether the authentication ends soon, so that a new connection should take over."""
        return self._ages_at_s is not None and now_s >= self._ages_at_s

    def expired(self, now_s: float) -> bool:
        """Whether the authentication may have ended, so that no more requests should be sent."""
        return self._expires_at_s is not None and now_s >= self._expires_at_s

    def version_for(self, request: type[Any]) -> int:
        """The highest version of a request class that both sides support."""
        return self.versions.version_for(request)

    async def request(self, message: Any, *, timeout_s: float) -> Any:
        """Send a request, or a `ByVersion`, and return its answer, which may carry an error.

        Raises `ConnectionLostError` or `AnswerTimedOutError` if there is no answer; the latter ends
        the connection, because the answers that follow can't be told apart any more. Cancelling the
        calling task leaves the connection intact.
        """
        return await _exchange(
            self._channel, self.versions, message, self._client_id, timeout_s=timeout_s
        )

    def abort(self) -> None:
        """Close at once, failing pending requests."""
        self._channel.abort()

    def finish(self) -> None:
        """Close after the last pending answer."""
        self._channel.finish()

    async def close(self) -> None:
        """Close, failing pending requests, and wait until the socket is gone. Idempotent."""
        await self._channel.close()


async def _exchange(
    channel: Channel, versions: Versions, message: Any, client_id: str | None, *, timeout_s: float
) -> Any:
    """Send a request in the highest version that fits, and decode the answer in that version."""
    sent: list[Encoded] = []

    def encode(correlation_id: int) -> bytes:
        sent.append(versions.encode(message, correlation_id, client_id))
        return sent[0].frame

    def decode(payload: bytes) -> Any:
        return decode_response(response_class(sent[0].api), sent[0].version, payload)[1]

    title = api_of(message).title
    return await channel.exchange(encode, decode, title=title, timeout_s=timeout_s)


class _Opening:
    """The steps from dialling to a ready connection."""

    def __init__(
        self,
        address: NodeAddress,
        security: Security,
        client_id: str | None,
        limits: ConnectionLimits,
        counters: Counters,
    ) -> None:
        self._address = address
        self._security = security
        self._client_id = client_id
        self._timeout_s = limits.connect_timeout_ms / 1000
        self._dialled = False
        self.channel = Channel(address, limits, counters)

    async def undo(self) -> None:
        """Close what has been opened so far."""
        self.channel.abort()
        # A cancelled dial cleans up by itself, and uvloop's then does not call the protocol.
        if self._dialled:
            await self.channel.gone()

    async def run(self, dial: Dial) -> tuple[Versions, int]:
        """Take all steps; return the server's versions and how long the authentication holds."""
        tls = self._security.tls_context()
        step = "connect"
        limit: asyncio.Timeout | None = None
        try:
            async with time_limit(self._timeout_s) as limit:
                await dial(lambda: self.channel, self._address, tls)
                self._dialled = True
                step = "learn the server's versions"
                versions = await self._learn_versions()
                step = "authenticate"
                return versions, await self._authenticate(versions)
        except ssl.SSLError as error:
            raise self._tls_failed(error) from error
        except TimeoutError as error:
            if limit is None or not limit.expired():  # the operating system gave up first
                raise self._failed(str(error) or "it timed out") from error
            reason = f"it took more than {self._timeout_s:g} s to {step}"
            if self._dialled and self.channel.was_silent:
                reason += ", as the server is silent: it may hang, or not speak Kafka's protocol"
            raise self._failed(reason) from None
        except socket.gaierror as error:
            raise self._unknown_host(error) from error
        except ConnectionError as error:  # dialling itself raises a plain OSError
            raise self._failed(_HANDSHAKE_ENDED if tls else str(error) or "it was lost") from error
        except OSError as error:
            raise self._failed(str(error) or type(error).__name__) from error
        except CoterieClientError as error:
            if not error.retriable:
                raise
            raise self._ended_early(step, error) from error

    async def _learn_versions(self) -> Versions:
        server = str(self._address)
        answer = await self._ask_versions(_VERSIONS_ASKED_FIRST)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: the answer then comes in version 0, and says which versions to use.
            spoken = Versions.told(server, answer).common(ApiKey.API_VERSIONS)
            answer = await self._ask_versions(max(0, min(spoken.last, _VERSIONS_ASKED_FIRST)))
        if answer.error_code:
            raise class_for(ErrorCode.of(answer.error_code))(f"{server}, ApiVersions")
        return Versions.told(server, answer)

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        question = ApiVersionsRequest(
            client_software_name="coterie", client_software_version=_software_version()
        )

        def encode(correlation_id: int) -> bytes:
            return encode_request(question, version, correlation_id, self._client_id)

        def decode(payload: bytes) -> ApiVersionsResponse:
            return _read_versions(version, payload)

        answer = await self.channel.exchange(
            encode, decode, title="ApiVersions", timeout_s=self._timeout_s
        )
        assert isinstance(answer, ApiVersionsResponse)
        return answer

    async def _authenticate(self, versions: Versions) -> int:
        sasl = self._security.sasl
        if sasl is None:
            return 0
        self._check_handshake(versions, sasl)

        async def ask(message: Any) -> Any:
            return await _exchange(
                self.channel, versions, message, self._client_id, timeout_s=self._timeout_s
            )

        try:
            token = None if sasl.token is None else await current_token(sasl.token)
            return await authenticate(ask, sasl, str(self._address), _new_nonce(), token)
        except CoterieError as error:
            if not isinstance(error, ConnectionFailedError):
                _log.warning("not authenticated", node=str(self._address), error=str(error))
            raise

    def _check_handshake(self, versions: Versions, sasl: Sasl) -> None:
        # Version 0 announces tokens without frames, which no server since Kafka 1.0 needs.
        if versions.version_for(SaslHandshakeRequest) < 1:
            raise VersionNotSpokenError(
                f"{self._address} is too old for authentication with {sasl.mechanism}: it does not"
                " support SaslHandshake version 1; use a newer server."
            )

    # What went wrong, in words

    def _failed(self, reason: str) -> ConnectionFailedError:
        return ConnectionFailedError(
            f"No connection to {self._address} ({self._security.protocol}): {reason}. Check that a"
            " server listens there with that security protocol, then try again."
        )

    def _unknown_host(self, error: socket.gaierror) -> UnknownHostError:
        return UnknownHostError(
            f"The host {self._address.host} is not known here ({error.strerror}). Check the name."
        )

    def _ended_early(self, step: str, error: CoterieClientError) -> ConnectionFailedError:
        speech = self.channel.speech
        if speech is Speech.TLS:
            return WrongServerError(f"{self._address} speaks TLS, so connect with TLS.")
        if speech is not None:
            return WrongServerError(
                f"{self._address} answers {speech}, not Kafka's protocol. Check the port: Coterie"
                " serves its clients on 9092 unless it was told otherwise."
            )
        if isinstance(error, ConnectionLostError) and self.channel.was_silent:
            hint = "" if self._security.tls else ", as one does that expects TLS"
            return self._failed(f"the server closed the connection without an answer{hint}")
        if isinstance(error.__cause__, ProtocolError):
            return self._failed(f"what it answers is not Kafka's protocol ({error.__cause__})")
        reason = str(error).removesuffix(" Try again.").rstrip(".")
        return self._failed(f"could not {step}: {reason}")

    def _tls_failed(self, error: ssl.SSLError) -> CoterieClientError:
        if is_plaintext_answer(error):
            return WrongServerError(
                f"{self._address} answers without TLS, so connect without it, or to another port."
            )
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return self._failed(_HANDSHAKE_ENDED)
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error
        return TlsFailedError(
            f"TLS with {self._address} failed: {reason}. Check the certificates, their names, and"
            " that the listener uses TLS."
        )


def _read_versions(version: int, payload: bytes) -> ApiVersionsResponse:
    """Decode the answer to ApiVersions; UNSUPPORTED_VERSION always comes in version 0."""
    correlation_id_of(payload)  # raises if it is too short for a header
    if int.from_bytes(payload[_ERROR_CODE_BYTES], signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return decode_response(ApiVersionsResponse, version, payload)[1]


def _new_nonce() -> str:
    return base64.b64encode(os.urandom(_NONCE_BYTES)).decode()


def _software_version() -> str:
    """Coterie's version in the characters that Kafka permits: letters, digits, dots and dashes."""
    return re.sub(r"[^a-zA-Z0-9.-]+", "-", VERSION)
