"""What may be said before a login, in every state: to a real Kafka broker, and to Coterie."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from coterie_protocol import API_VERSIONS, ApiKey, encode_request
from coterie_protocol import messages as m
from tests.interop.kafka_broker import KafkaBroker
from tests.live.daemon import HOST, Daemon
from tests.support.ports import free_port

pytestmark = pytest.mark.interop

USER, PASSWORD, OTHER = "ann", "pencil", "crayon"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS: Final = f'{MODULE} required user_{USER}="{PASSWORD}" user_bob="eraser";'
SASL: Final = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "400",
    "listener.name.limited.connections.max.reauth.ms": "60000",
}
LISTENERS: Final = {"SASLPLAIN": "SASL_PLAINTEXT", "LIMITED": "SASL_PLAINTEXT"}
#: Far less than the delay of a refusal, and far more than an answer takes.
SOON_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Servers:
    """Where both listen, by the names of the listeners."""

    kafka: dict[str, tuple[str, int]]
    coterie: dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def servers(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Servers]:
    """Start both with the same users."""
    folder = tmp_path_factory.mktemp("logins")
    properties = dict(SASL)
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties[f"{prefix}.plain.sasl.jaas.config"] = JAAS
        properties[f"{prefix}.scram-sha-256.sasl.jaas.config"] = scram
    ports = {name: free_port() for name in LISTENERS}
    ours = Daemon(
        folder / "coterie",
        settings={
            **SASL,
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
        },
        environ={"COTERIE_PLAIN_SASL_JAAS_CONFIG": JAAS},
        arguments=[
            each for name, port in ports.items() for each in ("--listen", f"{name}://{HOST}:{port}")
        ],
    )
    with KafkaBroker(folder / "kafka", properties, listeners=LISTENERS) as broker, ours:
        yield Servers(
            {name: _address(broker.address_of(name)) for name in LISTENERS},
            {name: (HOST, port) for name, port in ports.items()},
        )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def versions(version: int = 3, name: str = "test") -> bytes:
    message = m.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return encode_request(message, version, 7, "client")


def changed(frame: bytes, version: int) -> bytes:
    return frame[:6] + version.to_bytes(2) + frame[8:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return encode_request(m.SaslHandshakeRequest(mechanism=mechanism), version, 7, "client")


def token(user: str = USER, password: str = PASSWORD, version: int = 2) -> bytes:
    said = f"\0{user}\0{password}".encode()
    return encode_request(m.SaslAuthenticateRequest(auth_bytes=said), version, 7, "client")


def raw(token: bytes) -> bytes:
    return len(token).to_bytes(4) + token


METADATA: Final = encode_request(m.MetadataRequest(topics=()), 4, 7, "client")
GARBAGE: Final = raw(b"\x60\x82garbage")
UNKNOWN_API: Final = raw(b"\x03\xe7\0\0\0\0\0\x07\xff\xff")
CUT_SHORT: Final = raw(handshake()[4:-3])
TOO_LARGE: Final = (524_289).to_bytes(4)
NEWER_VERSIONS: Final = changed(versions(), 99)

BEFORE: Final = {
    "at first": [],
    "after versions in vain": [NEWER_VERSIONS],
    "after versions": [versions()],
}
FRAMES: Final = {
    **{f"versions {v}": versions(v) for v in API_VERSIONS[ApiKey.API_VERSIONS]},
    "versions 99": NEWER_VERSIONS,
    "versions, badly named": versions(name="no name!"),
    "handshake 0": handshake(version=0),
    "handshake 1": handshake(),
    "handshake 99": changed(handshake(), 99),
    "handshake for GSSAPI": handshake("GSSAPI"),
    "handshake for GSSAPI, 0": handshake("GSSAPI", 0),
    "handshake, cut short": CUT_SHORT,
    "metadata": METADATA,
    "token": token(),
    "garbage": GARBAGE,
    "unknown API": UNKNOWN_API,
    "empty": raw(b""),
}
TOKENS: Final = {
    **{f"right {v}": token(version=v) for v in (0, 1, 2)},
    **{f"wrong {v}": token(password=OTHER, version=v) for v in (0, 1, 2)},
    "unknown user": token(user="eve"),
    "no user": token(user=""),
    "no password": token(password=""),
    "99": changed(token(), 99),
    "garbage": GARBAGE,
    "empty": raw(b""),
}
BARE: Final = {
    "right": raw(f"\0{USER}\0{PASSWORD}".encode()),
    "wrong": raw(b"\0ann\0x"),
    "with a header": token(),
    "empty": raw(b""),
}
IN: Final = [handshake(), token()]
AFTERWARDS: Final = {
    "versions": versions(),
    "metadata": METADATA,
    "handshake": handshake(),
    "handshake for the other": handshake("SCRAM-SHA-256"),
    "handshake for GSSAPI": handshake("GSSAPI"),
    "token": token(),
}

#: A name, a listener, what is said first, and what is said then.
CASES: Final = [
    *(
        (f"{frame_name} {when}", "SASLPLAIN", before, frame)
        for when, before in BEFORE.items()
        for frame_name, frame in FRAMES.items()
    ),
    *((f"token: {name}", "SASLPLAIN", [handshake()], frame) for name, frame in TOKENS.items()),
    *((f"bare: {name}", "SASLPLAIN", [handshake(version=0)], f) for name, f in BARE.items()),
    *((f"known: {name}", "SASLPLAIN", IN, frame) for name, frame in AFTERWARDS.items()),
    *((f"limited: {name}", "LIMITED", IN, frame) for name, frame in AFTERWARDS.items()),
    ("again, as the same", "LIMITED", [*IN, handshake()], token()),
    ("again, with a wrong password", "LIMITED", [*IN, handshake()], token(password=OTHER)),
    ("again, as another", "LIMITED", [*IN, handshake()], token("bob", "eraser")),
    ("again, by the other mechanism", "LIMITED", [*IN, handshake("SCRAM-SHA-256")], token()),
    ("again at once", "LIMITED", [*IN, *IN], handshake()),
]


@pytest.mark.parametrize(
    ("listener", "before", "frame"),
    [each[1:] for each in CASES],
    ids=[each[0].replace(" ", "-") for each in CASES],
)
def test_both_do_the_same(
    listener: str, before: list[bytes], frame: bytes, servers: Servers
) -> None:
    kafka = said(servers.kafka[listener], before, frame)
    assert said(servers.coterie[listener], before, frame) == kafka


@pytest.mark.parametrize("frame", [METADATA, versions(), handshake()])
def test_request_in_place_of_a_token_is_not_answered(frame: bytes, servers: Servers) -> None:
    """Kafka says that it is out of place before it closes."""
    kafka = said(servers.kafka["SASLPLAIN"], [handshake()], frame)
    ours = said(servers.coterie["SASLPLAIN"], [handshake()], frame)
    assert kafka.startswith("a while: ")
    assert kafka.endswith(", closed")
    assert ours == "a while: closed"


@pytest.mark.parametrize("before", [[], [handshake()]], ids=["at first", "as a token"])
def test_frame_that_is_too_large_is_refused_at_once(before: list[bytes], servers: Servers) -> None:
    """Kafka waits as after a wrong password."""
    assert said(servers.kafka["SASLPLAIN"], before, TOO_LARGE) == "a while: closed"
    assert said(servers.coterie["SASLPLAIN"], before, TOO_LARGE) == "at once: closed"


def said(address: tuple[str, int], before: list[bytes], frame: bytes) -> str:
    """What becomes of a frame."""
    with socket.create_connection(address, timeout=10) as connection:
        for each in before:
            connection.sendall(each)
            assert _answer(connection) is not None
        began = time.monotonic()
        connection.sendall(frame)
        answer = _answer(connection)
        when = "at once" if time.monotonic() - began < SOON_S else "a while"
        if answer is None:
            return f"{when}: closed"
        told = f"{when}: {_told(frame, answer)}"
        connection.settimeout(SOON_S)
        try:
            rest = connection.recv(1)
        except TimeoutError:
            return told
    assert rest == b""
    return f"{told}, closed"


def _answer(connection: socket.socket) -> bytes | None:
    """The next frame; None if the connection is closed."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
        try:
            more = connection.recv(65_536)
        except ConnectionResetError:
            return None
        if not more:
            return None
        data += more
    return data[4:]


def _told(frame: bytes, answer: bytes) -> str:
    """The error, and the text behind it, of what SASL is about; of other answers, that they are."""
    api, version = int.from_bytes(frame[4:6]), int.from_bytes(frame[6:8])
    if api == ApiKey.API_VERSIONS:
        return f"versions, error {int.from_bytes(answer[4:6])}"
    if api == ApiKey.SASL_HANDSHAKE and version <= 1:
        return f"handshake, error {int.from_bytes(answer[4:6])}, {len(answer)} bytes"
    if api == ApiKey.SASL_AUTHENTICATE and version <= 2:
        return f"token, {answer[4:]!r}"
    return "answer"
