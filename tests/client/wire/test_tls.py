"""TLS, with certificates made as the tests run and a proxy that speaks it for the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coterie_client.errors import (
    ConfigurationError,
    ConnectionFailedError,
    TlsFailedError,
    WrongServerError,
)
from coterie_client.wire import Connection, ConnectionLimits, Network, Security, Tls
from coterie_client.wire.addresses import NodeAddress
from coterie_protocol.messages import MetadataRequest
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.client.wire.doubles import PATIENCE_S, FakeServer, heartbeat
from tests.support.certificates import name


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Whom the tests' servers are certified by."""
    return trustme.CA()


@pytest.fixture
def cafile(authority: trustme.CA, tmp_path: Path) -> Path:
    """Its certificate, as a file."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """A server's context with a certificate for these names."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


async def _relay(
    to: NodeAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    behind_reader, behind_writer = await asyncio.open_connection(to.host, to.port)
    try:
        with contextlib.suppress(OSError):
            await asyncio.gather(_pump(reader, behind_writer), _pump(behind_reader, writer))
    finally:
        writer.close()
        behind_writer.close()


@contextlib.asynccontextmanager
async def terminating_tls(to: NodeAddress, context: ssl.SSLContext) -> AsyncIterator[NodeAddress]:
    """A proxy that speaks TLS with clients, and plain TCP with what is behind it."""
    relays: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        relays.add(task)
        await _relay(to, reader, writer)

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with proxy:
        yield NodeAddress("localhost", proxy.sockets[0].getsockname()[1])
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*relays)


@pytest_asyncio.fixture
async def daemon() -> AsyncIterator[NodeAddress]:
    """A server of ours, in this process."""
    options = ServerOptions(
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),), topics={"orders": 3}
    )
    async with Server(options) as server:
        yield NodeAddress(server.address.host, server.address.port)


@pytest.mark.asyncio
async def test_requests_work_over_tls(
    daemon: NodeAddress, authority: trustme.CA, cafile: Path
) -> None:
    context = server_context(authority, "localhost")
    async with (
        terminating_tls(daemon, context) as address,
        Network(address, security=Security(tls=Tls(cafile=cafile))) as net,
    ):
        answer = await net.request(MetadataRequest(topics=None), timeout_s=60)
        assert [topic.name for topic in answer.topics] == ["orders"]


@pytest.mark.asyncio
async def test_given_context_is_used_as_it_is(authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with FakeServer(tls=server_context(authority, "127.0.0.1")) as server:
        security = Security(tls=Tls(context=context))
        connection = await Connection.open(server.address, security=security)
        await connection.request(heartbeat(), timeout_s=60)
        await connection.close()


@pytest.mark.asyncio
async def test_authority_that_does_not_say_what_its_key_is_for_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenSSL makes them, and `keytool`; Kafka's other clients trust these, with any Python."""
    monkeypatch.setattr(ssl, "create_default_context", _strict_context)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signer = _certificate(
        "signer", keys[0], keys[0], x509.BasicConstraints(ca=True, path_length=None)
    )
    signed = _certificate("signed", keys[1], keys[0], here)
    trusted, both = tmp_path / "trusted.pem", tmp_path / "both.pem"
    trusted.write_bytes(signer)
    secret = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(signed + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    async with FakeServer(tls=context) as server:
        security = Security(tls=Tls(cafile=trusted))
        connection = await Connection.open(server.address, security=security)
        await connection.request(heartbeat(), timeout_s=60)
        await connection.close()


def _certificate(
    called: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> bytes:
    subject, issuer = (name((x509.NameOID.COMMON_NAME, each)) for each in (called, "signer"))
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    made = x509.CertificateBuilder(issuer, subject, key.public_key())
    made = made.not_valid_before(now - day).not_valid_after(now + day)
    made = made.serial_number(x509.random_serial_number()).add_extension(extension, critical=True)
    return made.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def _strict_context(**options: Any) -> ssl.SSLContext:
    """What Python makes from 3.13 on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(**options)
    return context


@pytest.mark.asyncio
async def test_certificate_of_an_untrusted_authority_is_refused_for_good(cafile: Path) -> None:
    async with FakeServer(tls=server_context(trustme.CA(), "127.0.0.1")) as server:
        with pytest.raises(TlsFailedError, match="certificate") as caught:
            await Connection.open(server.address, security=Security(tls=Tls(cafile=cafile)))
        assert not caught.value.retriable


@pytest.mark.asyncio
async def test_certificate_for_another_name_is_refused_if_names_are_verified(
    authority: trustme.CA, cafile: Path
) -> None:
    async with FakeServer(tls=server_context(authority, "other.example")) as server:
        with pytest.raises(TlsFailedError, match=r"127\.0\.0\.1"):
            await Connection.open(server.address, security=Security(tls=Tls(cafile=cafile)))
        lax = Security(tls=Tls(cafile=cafile, verify_hostname=False))
        connection = await Connection.open(server.address, security=lax)
        await connection.close()


@pytest.mark.asyncio
async def test_chains_are_verified_even_if_names_are_not() -> None:
    lax = Security(tls=Tls(verify_hostname=False))
    async with FakeServer(tls=server_context(trustme.CA(), "127.0.0.1")) as server:
        with pytest.raises(TlsFailedError):
            await Connection.open(server.address, security=lax)


@pytest.mark.asyncio
async def test_client_certificate_lets_the_client_in(
    authority: trustme.CA, cafile: Path, tmp_path: Path
) -> None:
    context = server_context(authority, "127.0.0.1")
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    own = authority.issue_cert("client.example")
    certfile, keyfile = tmp_path / "client.pem", tmp_path / "client.key"
    own.cert_chain_pems[0].write_to_path(certfile)
    own.private_key_pem.write_to_path(keyfile)
    async with FakeServer(tls=context) as server:
        known = Security(tls=Tls(cafile=cafile, certfile=certfile, keyfile=keyfile))
        connection = await Connection.open(server.address, security=known)
        await connection.request(heartbeat(), timeout_s=60)
        await connection.close()
        with pytest.raises((TlsFailedError, ConnectionFailedError)):
            await Connection.open(server.address, security=Security(tls=Tls(cafile=cafile)))


@pytest.mark.asyncio
async def test_tls_to_a_plain_listener_fails_with_a_hint(cafile: Path) -> None:
    async with FakeServer() as server:
        with pytest.raises(ConnectionFailedError, match="expects no TLS"):
            await Connection.open(
                server.address,
                security=Security(tls=Tls(cafile=cafile)),
                limits=ConnectionLimits(connect_timeout_ms=60_000),
            )


@pytest.mark.asyncio
async def test_plain_to_a_tls_listener_fails_with_a_hint(authority: trustme.CA) -> None:
    async with FakeServer(tls=server_context(authority, "127.0.0.1")) as server:
        with pytest.raises(ConnectionFailedError, match=r"expects TLS|speaks TLS"):
            await Connection.open(
                server.address, limits=ConnectionLimits(connect_timeout_ms=60_000)
            )


@pytest.mark.asyncio
async def test_tls_to_a_server_that_answers_without_it_is_told_in_words(cafile: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(WrongServerError, match="answers without TLS"):
            await Connection.open(
                NodeAddress(*server.sockets[0].getsockname()),
                security=Security(tls=Tls(cafile=cafile)),
            )


@pytest.mark.asyncio
async def test_silent_tls_handshake_fails_in_time_and_leaves_no_socket(cafile: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ConnectionFailedError, match=r"more than 0\.05 s to connect"),
    ):
        await Connection.open(
            NodeAddress(*listener.getsockname()),
            security=Security(tls=Tls(cafile=cafile)),
            limits=ConnectionLimits(connect_timeout_ms=50),
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tls(context=ssl.create_default_context(), cafile="ca.pem"),
        lambda: Tls(context=ssl.create_default_context(), verify_hostname=False),
        lambda: Tls(keyfile="key.pem"),
        lambda: Tls(cafile="nowhere.pem").ready_context,
        lambda: Tls(cafile=__file__).ready_context,
    ],
    ids=["context and file", "context and option", "key alone", "no file", "no PEM file"],
)
def test_contradicting_tls_options_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()
