"""A listener without sockets whose clients have to log in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie_protocol import (
    ApiKey,
    FrameReader,
    decode_response,
    encode_request,
    response_class,
)
from coterie_protocol import messages as m
from coterie_server.address import Address
from coterie_server.net import Endpoint, Handler, Limits, Terms
from coterie_server.net.check_queue import CheckQueue
from coterie_server.net.connection import Connection
from coterie_server.net.guard import Authenticator, Logins
from coterie_server.security import SecurityProtocol
from coterie_server.security.authentication import SaslTerms
from coterie_server.security.sasl import (
    Credentials,
    PlainConversation,
    RightPasswords,
    ScramConversation,
    node_conversation,
)
from tests.server.net.doubles import FakeClient, FakeListener, FakeTransport
from tests.server.security.sasl.logins import SHA_256, credentials

__all__ = ["DELAY_MS", "MAX_RECEIVE_BYTES", "SECRET", "LoginListener", "handshake", "token", "told"]

DELAY_MS = 100
MAX_RECEIVE_BYTES = 2_000
SECRET = bytes(range(32))


class LoginListener(FakeListener):
    """Its checks are run when the test says so, and so is what comes later."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits | None = None,
        *,
        protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT,
        session_ms: int = 0,
        found: Credentials | None = None,
    ) -> None:
        super().__init__(handler, limits)
        self.checks: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.logins = Logins(
            CheckQueue(lambda run, finish: self.checks.append((run, finish))),
            lambda wait_s, call: self.later.append((self.clock.now_ms / 1000 + wait_s, call)),
            failure_delay_ms=DELAY_MS,
        )
        known = found or credentials({"ann": "pencil"})
        right = RightPasswords(b"key")
        has_sasl = protocol.has_sasl
        mechanisms = {
            "PLAIN": lambda: PlainConversation(known, right),
            "SCRAM-SHA-256": lambda: ScramConversation(
                lambda name: known.for_scram(name, SHA_256), "nonce"
            ),
        }
        self.authenticator = Authenticator(
            "OUTSIDE",
            self.logins,
            SaslTerms(
                mechanisms if has_sasl else {},  # type: ignore[arg-type]  # a dict of both kinds
                {"COTERIE-NODE": lambda: node_conversation(SECRET, "nonce")},
                dict.fromkeys(mechanisms, session_ms),
            ),
            is_required=has_sasl,
            max_receive_bytes=MAX_RECEIVE_BYTES,
            limits=self.registry.limits,
            now=self.clock,
        )
        self.endpoint = Endpoint(
            Address("coterie.example", 9092),
            Terms("OUTSIDE", protocol, authenticator=self.authenticator),
        )
        self.logins.open()

    def connect(self, peername: tuple[str, int] | None = ("127.0.0.1", 4711)) -> FakeClient:
        """Connect a client."""
        connection = Connection(self.registry, self.endpoint)
        transport = FakeTransport(connection, peername)
        connection.connection_made(transport)
        return FakeClient(connection, transport)

    def run_checks(self, count: int | None = None) -> int:
        """Do what the threads have been given, or so much of it; answer how much that was."""
        checks, self.checks = self.checks[:count], self.checks[count:] if count else []
        for run, finish in checks:
            run()
            finish()
        return len(checks)

    def wait(self, time_ms: int) -> None:
        """Let time pass, and what was to be called later be called."""
        self.pass_time(time_ms)
        due = [each for each in self.later if each[0] <= self.clock()]
        self.later = [each for each in self.later if each not in due]
        for _, call in due:
            call()

    def log_in(self, client: FakeClient, user: bytes = b"ann", password: bytes = b"pencil") -> None:
        """Log in by PLAIN."""
        client.send(handshake("PLAIN"))
        client.send(token(b"\0" + user + b"\0" + password))
        self.run_checks()
        self.turn()
        client.transport.sent = b""


def handshake(mechanism: str, version: int = 1) -> bytes:
    """A frame with a handshake."""
    return encode_request(m.SaslHandshakeRequest(mechanism=mechanism), version, 7)


def token(auth_bytes: bytes, version: int = 2) -> bytes:
    """A frame with a token."""
    return encode_request(m.SaslAuthenticateRequest(auth_bytes=auth_bytes), version, 8)


def told(client: FakeClient, *apis: tuple[ApiKey, int]) -> list[Any]:
    """What the client was told since it was last looked, given the APIs and versions asked."""
    payloads = FrameReader().feed(client.transport.sent) if client.transport.sent else []
    client.transport.sent = b""
    assert len(payloads) == len(apis)
    return [
        decode_response(response_class(api), version, payload)[1]
        for (api, version), payload in zip(apis, payloads, strict=True)
    ]
