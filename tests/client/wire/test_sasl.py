"""Authenticating against a server that knows one user, and what it says to others."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import MutableMapping
from functools import partial
from typing import Any

import pytest

from coterie_client.errors import (
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    ServerNotProvenError,
    VersionNotSpokenError,
)
from coterie_client.wire import (
    Connection,
    Network,
    RetryOptions,
    Sasl,
    SaslMechanism,
    Security,
)
from coterie_client.wire import connection as connection_module
from coterie_protocol import API_VERSIONS, ApiKey, Request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from coterie_protocol.messages import (
    HeartbeatResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from coterie_protocol.schema import VersionRange
from tests.client.wire.doubles import PATIENCE_S, SILENCE, FakeServer, heartbeat, soon

pytestmark = pytest.mark.asyncio

WITH_PASSWORDS = [each for each in SaslMechanism if each is not SaslMechanism.OAUTHBEARER]
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."  # noqa: S105  # a test's own
USER, PASSWORD = "alice", "pa,ss=wörd"
SALT, ITERATIONS = b"some salt", 4_096


class FakeSaslServer:
    """The server's side of SASL for one user, written from the RFCs and not from our client."""

    def __init__(
        self,
        *mechanisms: SaslMechanism,
        lifetime_ms: int = 0,
        knows: str = PASSWORD,
        handshake_error: int = 0,
    ) -> None:
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.knows = knows
        self.handshake_error = handshake_error
        self.authenticated = 0
        self.tokens: list[bytes] = []
        self._mechanism = ""
        self._steps: list[bytes] = []

    async def answer(self, request: Request) -> Any:
        """Answer whatever comes, but nothing of value to strangers."""
        if request.api_key is ApiKey.SASL_HANDSHAKE:
            return self._handshake(request.message.mechanism)
        if request.api_key is ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(request.message.auth_bytes)
        assert self.authenticated
        return HeartbeatResponse()

    def _handshake(self, mechanism: str) -> SaslHandshakeResponse:
        self._mechanism, self._steps = mechanism, []
        offered = mechanism in self.mechanisms
        error = self.handshake_error or (0 if offered else ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=error, mechanisms=tuple(self.mechanisms))

    def _authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        self._steps.append(token)
        if self._mechanism == "PLAIN":
            good = token == f"\0{USER}\0{self.knows}".encode()
            return self._welcome(b"") if good else self._refusal()
        if self._mechanism == "OAUTHBEARER":
            return self._check_token(token)
        if len(self._steps) == 1:
            return SaslAuthenticateResponse(error_message=None, auth_bytes=self._challenge(token))
        return self._check_proof(token)

    def _check_token(self, message: bytes) -> SaslAuthenticateResponse:
        if len(self._steps) == 2:
            assert message == b"\1"
            return self._refusal()
        self.tokens.append(message)
        if message.startswith(f"n,,\1auth=Bearer {self.knows}\1".encode()):
            return self._welcome(b"")
        return SaslAuthenticateResponse(
            error_message=None, auth_bytes=b'{"status":"invalid_token"}'
        )

    def _challenge(self, first: bytes) -> bytes:
        nonce = first.decode().rpartition("r=")[2]
        salt = base64.b64encode(SALT).decode()
        self._server_first = f"r={nonce}-and-mine,s={salt},i={ITERATIONS}".encode()
        return self._server_first

    def _check_proof(self, final: bytes) -> SaslAuthenticateResponse:
        digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[self._mechanism]
        salted = hashlib.pbkdf2_hmac(digest, self.knows.encode(), SALT, ITERATIONS)
        without_proof, _, proof = final.rpartition(b",p=")
        exchange = b",".join(
            (self._steps[0].removeprefix(b"n,,"), self._server_first, without_proof)
        )
        stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        mask = hmac.digest(stored_key, exchange, digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), mask, strict=True))
        if hashlib.new(digest, key).digest() != stored_key:
            return self._refusal()
        server_key = hmac.digest(salted, b"Server Key", digest)
        signature = hmac.digest(server_key, exchange, digest)
        return self._welcome(b"v=" + base64.b64encode(signature))

    def _welcome(self, token: bytes) -> SaslAuthenticateResponse:
        self.authenticated += 1
        return SaslAuthenticateResponse(
            error_message=None, auth_bytes=token, session_lifetime_ms=self.lifetime_ms
        )

    def _refusal(self) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Invalid credentials, says the server",
            auth_bytes=b"",
        )


def credentials(mechanism: SaslMechanism, password: str = PASSWORD) -> Security:
    """How to connect as the one user."""
    return Security(sasl=Sasl(mechanism, USER, password))


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
async def test_correct_password_is_accepted(mechanism: SaslMechanism) -> None:
    sasl_server = FakeSaslServer(mechanism)
    async with FakeServer(sasl_server.answer) as server:
        connection = await Connection.open(server.address, security=credentials(mechanism))
        await connection.request(heartbeat(), timeout_s=60)
        assert sasl_server.authenticated == 1
        await connection.close()


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
async def test_wrong_password_is_not_retried_and_not_shown(
    mechanism: SaslMechanism, log: list[MutableMapping[str, Any]]
) -> None:
    async with FakeServer(FakeSaslServer(mechanism).answer) as server:
        with pytest.raises(SaslAuthenticationFailedError, match="says the server") as caught:
            await Connection.open(server.address, security=credentials(mechanism, "guessed it"))
        assert not caught.value.retriable
        assert "guessed it" not in f"{caught.value}{caught.value!r}{log}"
        assert USER in str(caught.value)
        await server.emptied()


async def test_error_names_the_offered_mechanisms() -> None:
    offered = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
    async with FakeServer(FakeSaslServer(*offered).answer) as server:
        with pytest.raises(UnsupportedSaslMechanismError, match="SCRAM-SHA-256, SCRAM-SHA-512"):
            await Connection.open(server.address, security=credentials(SaslMechanism.PLAIN))


async def test_other_error_of_the_handshake_is_raised_as_it_is() -> None:
    sasl_server = FakeSaslServer(SaslMechanism.PLAIN, handshake_error=ErrorCode.ILLEGAL_SASL_STATE)
    async with FakeServer(sasl_server.answer) as server:
        with pytest.raises(IllegalSaslStateError):
            await Connection.open(server.address, security=credentials(SaslMechanism.PLAIN))


async def test_server_that_accepts_any_proof_is_recognised_as_an_impostor() -> None:

    class Impostor(FakeSaslServer):
        def _check_proof(self, final: bytes) -> SaslAuthenticateResponse:
            del final
            return self._welcome(b"v=" + base64.b64encode(bytes(32)))

    mechanism = SaslMechanism.SCRAM_SHA_256
    async with FakeServer(Impostor(mechanism).answer) as server:
        with pytest.raises(ServerNotProvenError, match="impostor"):
            await Connection.open(server.address, security=credentials(mechanism))


async def test_server_without_sasl_handshake_1_is_not_sent_a_password() -> None:
    versions = {**API_VERSIONS, ApiKey.SASL_HANDSHAKE: VersionRange(0, 0)}
    sasl_server = FakeSaslServer(SaslMechanism.PLAIN)
    async with FakeServer(sasl_server.answer, versions=versions) as server:
        with pytest.raises(VersionNotSpokenError, match="too old"):
            await Connection.open(server.address, security=credentials(SaslMechanism.PLAIN))
        assert server.received == []


async def test_refused_credentials_are_not_tried_elsewhere() -> None:
    mechanism = SaslMechanism.PLAIN
    async with (
        FakeServer(FakeSaslServer(mechanism).answer) as first,
        FakeServer(FakeSaslServer(mechanism).answer) as second,
    ):
        bootstrap = (first.address, second.address)
        async with Network(bootstrap, security=credentials(mechanism, "guessed")) as net:
            with pytest.raises(SaslAuthenticationFailedError):
                await net.request(heartbeat(), timeout_s=60)
        assert second.accepted == 0


async def test_another_connection_takes_over_before_the_session_ends() -> None:
    sasl_server = FakeSaslServer(SaslMechanism.PLAIN, lifetime_ms=100)
    security = credentials(SaslMechanism.PLAIN)
    pace = RetryOptions(base_ms=1, max_ms=1)
    async with (
        FakeServer(sasl_server.answer) as server,
        Network((server.address,), security=security, reconnect=pace) as net,
    ):
        await net.request(heartbeat(), timeout_s=60)
        await net.request(heartbeat(), timeout_s=60)
        assert sasl_server.authenticated == 1
        async with asyncio.timeout(60):
            while sasl_server.authenticated == 1:
                await asyncio.sleep(0.01)
                await net.request(heartbeat(), timeout_s=60)
        assert (net.counters.errors, net.counters.connections_lost) == (0, 0)


async def test_close_fails_requests_on_replaced_connections() -> None:
    sasl_server = FakeSaslServer(SaslMechanism.PLAIN, lifetime_ms=1)

    async def answer(request: Request) -> Any:
        if request.api_key is ApiKey.HEARTBEAT and request.message.member_id == "parked":
            return SILENCE
        return await sasl_server.answer(request)

    async with FakeServer(answer) as server:
        net = Network(server.address, security=credentials(SaslMechanism.PLAIN))
        parked = asyncio.create_task(net.request(heartbeat("parked"), timeout_s=3600))
        await soon(lambda: len(server.received) == 3)
        await asyncio.sleep(0.001)
        await net.request(heartbeat(), timeout_s=60)
        assert (sasl_server.authenticated, len(server.connections)) == (2, 2)
        await net.aclose()
        with pytest.raises(ClientClosedError):
            await asyncio.wait_for(parked, PATIENCE_S)
        await server.emptied()


@pytest.mark.parametrize(
    ("mechanism", "username", "password"),
    [
        ("GSSAPI", "alice", "secret"),
        ("PLAIN", "", "secret"),
        ("PLAIN", "al\0ice", "secret"),
        ("PLAIN", "alice", "sec\0ret"),
        ("PLAIN", "alice", "\ud800"),
    ],
)
async def test_invalid_credentials_are_refused(
    mechanism: str, username: str, password: str
) -> None:
    with pytest.raises(ConfigurationError):
        Sasl(mechanism, username, password)


async def test_mechanism_may_be_given_by_name() -> None:
    assert Sasl("SCRAM-SHA-256", "alice", "secret").mechanism is SaslMechanism.SCRAM_SHA_256


# OAUTHBEARER


def bearer(token: Any = TOKEN, **extensions: str) -> Security:
    """How to connect with a token."""
    return Security(sasl=Sasl("OAUTHBEARER", token=token, extensions=extensions))


async def coroutine_source() -> str:
    """Give the token, as one who asks another server does."""
    await asyncio.sleep(0)
    return TOKEN


@pytest.mark.parametrize(
    "token", [TOKEN, lambda: TOKEN, coroutine_source, partial(coroutine_source)]
)
async def test_token_is_accepted_from_wherever_it_comes(token: Any) -> None:
    sasl_server = FakeSaslServer(SaslMechanism.OAUTHBEARER, knows=TOKEN)
    async with FakeServer(sasl_server.answer) as server:
        connection = await Connection.open(server.address, security=bearer(token))
        await connection.request(heartbeat(), timeout_s=60)
        await connection.close()
    assert sasl_server.tokens == [f"n,,\1auth=Bearer {TOKEN}\1\1".encode()]


async def test_extensions_are_sent_behind_the_token() -> None:
    sasl_server = FakeSaslServer(SaslMechanism.OAUTHBEARER, knows=TOKEN)
    security = bearer(logicalCluster="lkc-1", identityPoolId="pool")
    async with FakeServer(sasl_server.answer) as server:
        await (await Connection.open(server.address, security=security)).close()
    begin = f"n,,\1auth=Bearer {TOKEN}\1"
    assert sasl_server.tokens == [f"{begin}logicalCluster=lkc-1\1identityPoolId=pool\1\1".encode()]


async def test_refused_token_is_acknowledged_and_not_shown(
    log: list[MutableMapping[str, Any]],
) -> None:
    async with FakeServer(FakeSaslServer(SaslMechanism.OAUTHBEARER).answer) as server:
        with pytest.raises(SaslAuthenticationFailedError, match=r"of the token: .*says") as caught:
            await Connection.open(server.address, security=bearer())
        await server.emptied()
    assert TOKEN not in f"{caught.value}{caught.value!r}{log}{bearer()!r}"


async def test_server_that_goes_on_after_refusing_a_token_is_not_believed() -> None:
    class Indifferent(FakeSaslServer):
        def _refusal(self) -> SaslAuthenticateResponse:
            return self._welcome(b"")

    async with FakeServer(Indifferent(SaslMechanism.OAUTHBEARER).answer) as server:
        with pytest.raises(SaslAuthenticationFailedError, match="'invalid_token'"):
            await Connection.open(server.address, security=bearer())
        await server.emptied()


async def test_each_connection_has_a_token_of_its_own() -> None:
    """So a session goes on with the next token when the last one expires."""

    class Trusting(FakeSaslServer):
        def _check_token(self, message: bytes) -> SaslAuthenticateResponse:
            self.tokens.append(message)
            return self._welcome(b"")

    tokens = iter(f"{TOKEN}{number}" for number in range(1000))
    sasl_server = Trusting(SaslMechanism.OAUTHBEARER, lifetime_ms=1)
    async with (
        FakeServer(sasl_server.answer) as server,
        Network(server.address, security=bearer(lambda: next(tokens))) as net,
    ):
        for _ in range(3):
            await net.request(heartbeat(), timeout_s=60)
            await asyncio.sleep(0.002)
    assert len(set(sasl_server.tokens)) == 3


async def test_source_that_fails_is_a_connection_that_failed() -> None:
    def source() -> str:
        raise LookupError("the vault's password is hunter2")

    async with FakeServer(FakeSaslServer(SaslMechanism.OAUTHBEARER).answer) as server:
        with pytest.raises(ConnectionFailedError, match=r"gives tokens failed \(LookupError") as e:
            await Connection.open(server.address, security=bearer(source))
        await server.emptied()
    assert e.value.retriable
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("token", [None, 7, "", "two words", f"{TOKEN}\n"])
async def test_source_that_gives_no_token_is_a_mistake(token: Any) -> None:
    async with FakeServer(FakeSaslServer(SaslMechanism.OAUTHBEARER).answer) as server:
        with pytest.raises(ConfigurationError, match="token must be") as caught:
            await Connection.open(server.address, security=bearer(lambda: token))
        await server.emptied()
    assert TOKEN not in str(caught.value)


async def test_session_goes_on_while_there_is_no_new_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "_LIFETIME_USED", 0)
    given, works = [], True

    def source() -> str:
        given.append(TOKEN)
        if not works:
            raise LookupError("the authorization server restarts")
        return TOKEN

    sasl_server = FakeSaslServer(SaslMechanism.OAUTHBEARER, knows=TOKEN, lifetime_ms=3_600_000)
    pace = RetryOptions(base_ms=1, max_ms=1)
    async with (
        FakeServer(sasl_server.answer) as server,
        Network(server.address, security=bearer(source), reconnect=pace) as net,
    ):
        await net.request(heartbeat(), timeout_s=60)
        works = False
        while len(given) < 4:
            await net.request(heartbeat(), timeout_s=60)
            await asyncio.sleep(0)
        assert sasl_server.authenticated == 1
        works = True
        async with asyncio.timeout(PATIENCE_S):
            while sasl_server.authenticated == 1:
                await net.request(heartbeat(), timeout_s=60)
                await asyncio.sleep(0)
        assert (net.counters.errors, net.counters.connections_lost) == (0, 0)
