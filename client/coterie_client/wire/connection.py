"""One connection that is ready for requests: connected, versions known, authenticated.

dial (TCP, TLS) -> ApiVersions -> SaslHandshake, SaslAuthenticate -> ready
"""

from __future__ import annotations

import asyncio
import re
import ssl
from importlib.metadata import version as installed_version
from typing import Any, Final, Self

from coterie_client.errors import (
    ConnectionFailedError,
    CoterieClientError,
    TlsFailedError,
    VersionNotSpokenError,
)
from coterie_client.log import Log
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.channel import Channel
from coterie_client.wire.counters import ConnectionLimits, Counters
from coterie_client.wire.deadlines import time_limit
from coterie_client.wire.dialling import Dial, dial_tcp
from coterie_client.wire.sasl import authenticate
from coterie_client.wire.security import PLAINTEXT, Sasl, Security
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
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslHandshakeRequest,
)

__all__ = ["Connection"]

_log = Log(__name__)

#: What ApiVersions is first asked in; every server since Kafka 2.4 knows it.
_VERSIONS_ASKED_FIRST: Final = 3
_ERROR_CODE_BYTES: Final = slice(4, 6)
#: The share of a session's lifetime after which another connection takes over.
_LIFETIME_USED: Final = 0.85


class Connection:
    """A ready connection to one node; `open` makes it.

    Requests may overlap: they go out in the order of the calls, and are answered in that order.
    """

    def __init__(
        self,
        channel: Channel,
        versions: Versions,
        client_id: str | None,
        counters: Counters,
        expires_at_s: float | None,
    ) -> None:
        self._channel = channel
        self._client_id = client_id
        self._counters = counters
        self._expires_at_s = expires_at_s
        #: What the server speaks.
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
        """Connect, learn the server's versions and authenticate, all within the time limit.

        Raises `ConnectionFailedError` when that may succeed another time, and otherwise
        `TlsFailedError`, or what the server says against the credentials.
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
        expires_at_s = None
        if lifetime_ms > 0:
            now_s = asyncio.get_running_loop().time()
            expires_at_s = now_s + lifetime_ms / 1000 * _LIFETIME_USED
        _log.debug("connected", node=str(address), security=security.protocol)
        return cls(opening.channel, versions, client_id, counters, expires_at_s)

    @property
    def address(self) -> NodeAddress:
        """Where the node is reached."""
        return self._channel.address

    @property
    def closed(self) -> bool:
        """Whether it takes no more requests."""
        return self._channel.closing

    @property
    def in_flight(self) -> int:
        """How many answers are due."""
        return self._channel.in_flight

    def expired(self, now_s: float) -> bool:
        """Whether the server will soon want to be authenticated to anew, on a new connection."""
        return self._expires_at_s is not None and now_s >= self._expires_at_s

    def version_for(self, request: type[Any]) -> int:
        """The highest version of a request class that both sides speak."""
        return self.versions.version_for(request)

    async def request(self, message: Any, *, timeout_s: float) -> Any:
        """Send a request, or a `ByVersion`, and return its answer, whatever error that may carry.

        Raises `ConnectionLostError` or `AnswerTimedOutError` when there is no answer; the latter
        ends the connection, because the answers behind it can't be told apart any more. A caller
        that is cancelled leaves the connection as it is.
        """
        return await _exchange(
            self._channel, self.versions, message, self._client_id, timeout_s=timeout_s
        )

    def abort(self) -> None:
        """Drop the connection at once, failing what is due."""
        self._channel.abort()

    def finish(self) -> None:
        """Close as soon as no answer is due."""
        self._channel.finish()

    async def close(self) -> None:
        """Close, failing what is due, and return when the socket is gone. May be called again."""
        await self._channel.close()


async def _exchange(
    channel: Channel, versions: Versions, message: Any, client_id: str | None, *, timeout_s: float
) -> Any:
    """Send a request in the version that fits, and read its answer in that same version."""
    sent: list[Encoded] = []

    def encode(correlation_id: int) -> bytes:
        sent.append(versions.encode(message, correlation_id, client_id))
        return sent[0].frame

    def decode(payload: bytes) -> Any:
        return decode_response(response_class(sent[0].api), sent[0].version, payload)[1]

    title = api_of(message).title
    return await channel.exchange(encode, decode, title=title, timeout_s=timeout_s)


class _Opening:
    """The steps until a connection is ready."""

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
        """Drop what there is of the connection."""
        self.channel.abort()
        # A dial that was cancelled cleans up itself, and uvloop's then tells the protocol nothing.
        if self._dialled:
            await self.channel.gone()

    async def run(self, dial: Dial) -> tuple[Versions, int]:
        """Take all steps; answer the server's versions and how long the authentication holds."""
        tls = self._security.tls_context()
        step = "connect"
        limit: asyncio.Timeout | None = None
        try:
            async with time_limit(self._timeout_s) as limit:
                await dial(lambda: self.channel, self._address, tls)
                self._dialled = True
                step = "tell its versions"
                versions = await self._learn_versions()
                step = "authenticate"
                return versions, await self._authenticate(versions)
        except ssl.SSLError as error:
            raise self._tls_failed(error) from error
        except TimeoutError as error:
            if limit is None or not limit.expired():  # the system gave up before we did
                raise self._failed(str(error) or "it timed out") from error
            reason = f"it took more than {self._timeout_s:g} s to {step}"
            raise self._failed(reason) from None
        except (OSError, UnicodeError) as error:  # the latter for hosts that can be no name
            raise self._failed(str(error) or type(error).__name__) from error
        except CoterieClientError as error:
            if not error.retriable:
                raise
            raise self._failed(f"it could not {step}: {error}") from error

    async def _learn_versions(self) -> Versions:
        server = str(self._address)
        answer = await self._ask_versions(_VERSIONS_ASKED_FIRST)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: the answer then comes in version 0, and says which versions to ask in.
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
            return await authenticate(ask, sasl, str(self._address))
        except CoterieError as error:
            if not isinstance(error, ConnectionFailedError):
                _log.warning("not authenticated", node=str(self._address), error=str(error))
            raise

    def _check_handshake(self, versions: Versions, sasl: Sasl) -> None:
        # Version 0 announces tokens without frames, which died out with Kafka 1.0.
        if versions.version_for(SaslHandshakeRequest) < 1:
            raise VersionNotSpokenError(
                f"{self._address} is too old to authenticate to with {sasl.mechanism}: it lacks"
                " SaslHandshake version 1; use a newer server."
            )

    def _failed(self, reason: str) -> ConnectionFailedError:
        return ConnectionFailedError(
            f"No connection to {self._address} ({self._security.protocol}): {reason}. Check that a"
            " server listens there with that security protocol, then try again."
        )

    def _tls_failed(self, error: ssl.SSLError) -> CoterieClientError:
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return self._failed(f"it ended within the TLS handshake ({error})")
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error
        return TlsFailedError(
            f"No TLS with {self._address}: {reason}. Check the certificates and their names, and"
            " that the listener speaks TLS."
        )


def _read_versions(version: int, payload: bytes) -> ApiVersionsResponse:
    """Read the answer to ApiVersions; a refusal of the version comes in version 0 always."""
    correlation_id_of(payload)  # refuses what is too short for a header
    if int.from_bytes(payload[_ERROR_CODE_BYTES], signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return decode_response(ApiVersionsResponse, version, payload)[1]


def _software_version() -> str:
    """The version as Kafka permits it: letters, digits, dots and dashes."""
    return re.sub(r"[^a-zA-Z0-9.-]+", "-", installed_version("coterie"))
