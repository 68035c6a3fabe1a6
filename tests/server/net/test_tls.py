"""Connections over TLS, on both event loops: who is served, who is not, and what is said of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.x509.oid import NameOID

from coterie_server.net import (
    Exchange,
    Limits,
    Listener,
    RefuseReason,
    Terms,
    UnknownSubjectError,
)
from coterie_server.security import ANONYMOUS, Principal, SecurityProtocol
from coterie_server.security.distinguished_name import subject_of
from coterie_server.tls import ServerTls, TlsOptions, TlsWatch
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import PATIENCE_S, AnsweringHandler, heartbeat, until
from tests.server.net.test_listener import Client, connect
from tests.support.certificates import Authority, name

ANN = name((NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, "ann"))

Serve = Callable[..., Awaitable[Listener]]


class Principals(AnsweringHandler):
    """Notes whom requests come from."""

    def __init__(self) -> None:
        super().__init__()
        self.principals: list[Principal] = []

    def handle(self, exchange: Exchange) -> None:
        """Note who it is, and answer."""
        self.principals.append(exchange.principal)
        super().handle(exchange)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def identify(certificate: bytes) -> Principal:
    """As the server does without rules, but for a subject that none matches."""
    subject = subject_of(certificate)
    if "nobody" in subject:
        raise UnknownSubjectError("no rule matches")
    return Principal("User", subject)


@pytest_asyncio.fixture
async def serve(authority: Authority) -> AsyncIterator[Serve]:
    """Start listeners that speak TLS."""
    listeners: list[Listener] = []

    async def start(
        handler: AnsweringHandler | None = None,
        limits: Limits | None = None,
        *,
        tls: ServerTls | None = None,
        **options: Any,
    ) -> Listener:
        kept = tls or ServerTls(
            TlsOptions(keystore_location=str(authority.issue().both), **options)
        )
        listener = Listener(handler or AnsweringHandler(), limits)
        listeners.append(listener)
        terms = Terms("SSL", SecurityProtocol.SSL, kept, identify)
        await listener.start("127.0.0.1", 0, terms=terms)
        return listener

    yield start
    for listener in listeners:
        await listener.close(0)
        assert listener.stats().open == 0


async def talk(listener: Listener, context: ssl.SSLContext) -> Client:
    """Connect over TLS, and have a request answered."""
    client = await connect(listener, ssl=context)
    client.send(heartbeat(1))
    assert await client.answered(1) == [1]
    return client


async def refused(listener: Listener, reason: RefuseReason, times: int = 1) -> None:
    """Wait until so many connections have been refused."""
    await until(lambda: listener.stats().refused[reason] == times)


def told(log: LogLines) -> list[str]:
    """Why handshakes have failed."""
    return [str(line["why"]) for line in log if line.get("reason") == "handshake"]


# Who is served


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.asyncio
async def test_client_is_served_over_each_version(
    serve: Serve, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    client = await talk(await serve(), context)
    client.leave()


@pytest.mark.asyncio
async def test_many_clients_at_once_with_long_pipelines(serve: Serve, authority: Authority) -> None:
    listener = await serve()
    context = authority.client_context()
    clients = await asyncio.gather(*(connect(listener, ssl=context) for _ in range(30)))
    requests = 200
    for client in clients:
        client.send(b"".join(heartbeat(number) for number in range(requests)))
    for client in clients:
        assert await client.answered(requests) == list(range(requests))
        client.leave()


@pytest.mark.asyncio
async def test_request_in_the_flight_that_ends_the_handshake_is_answered(
    serve: Serve, authority: Authority
) -> None:
    """A client of TLS 1.3 may send its first request together with its Finished."""
    listener = await serve()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    speaking = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    reader, writer = await asyncio.open_connection(*listener.addresses[0])
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                speaking.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65_536))
        speaking.write(heartbeat(3))
        writer.write(outgoing.read())
        answer = b""
        while not answer:
            incoming.write(await reader.read(65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer = speaking.read()
    assert answer[4:8] == (3).to_bytes(4)
    writer.transport.abort()


@pytest.mark.asyncio
async def test_client_that_ends_in_good_order_is_forgotten(
    serve: Serve, authority: Authority
) -> None:
    listener = await serve()
    client = await talk(listener, authority.client_context())
    client.writer.close()
    await client.writer.wait_closed()
    await until(lambda: listener.stats().open == 0)


# Whom a certificate stands for


@pytest.mark.parametrize("client_auth", ["requested", "required"])
@pytest.mark.asyncio
async def test_subject_of_a_clients_certificate_is_its_principal(
    serve: Serve, authority: Authority, client_auth: str
) -> None:
    handler = Principals()
    trusted = {"truststore_location": str(authority.file), "client_auth": client_auth}
    listener = await serve(handler, **trusted)
    client = await talk(listener, authority.client_context(authority.issue_to(ANN)))
    assert handler.principals == [Principal("User", "CN=ann,O=Acme")]
    client.leave()


@pytest.mark.parametrize("client_auth", ["none", "requested"])
@pytest.mark.asyncio
async def test_client_without_a_certificate_is_anonymous(
    serve: Serve, authority: Authority, client_auth: str
) -> None:
    handler = Principals()
    trusted = {"truststore_location": str(authority.file), "client_auth": client_auth}
    client = await talk(await serve(handler, **trusted), authority.client_context())
    assert handler.principals == [ANONYMOUS]
    client.leave()


@pytest.mark.asyncio
async def test_certificate_that_is_not_asked_for_makes_nobody(
    serve: Serve, authority: Authority
) -> None:
    handler = Principals()
    client = await talk(await serve(handler), authority.client_context(authority.issue_to(ANN)))
    assert handler.principals == [ANONYMOUS]
    client.leave()


# Who is not served


async def turned_away(listener: Listener, context: ssl.SSLContext) -> None:
    """Connect as a client that is not served; it may find out only when it reads."""
    with contextlib.suppress(OSError):
        client = await connect(listener, ssl=context)
        with contextlib.suppress(OSError):
            assert await client.ended()
        client.leave()
    await refused(listener, RefuseReason.HANDSHAKE)


@pytest.mark.asyncio
async def test_client_without_a_required_certificate_is_refused(
    serve: Serve, authority: Authority, log: LogLines
) -> None:
    trusted = {"truststore_location": str(authority.file), "client_auth": "required"}
    await turned_away(await serve(**trusted), authority.client_context())
    assert told(log) == ["the client has sent no certificate"]


@pytest.mark.parametrize("client_auth", ["requested", "required"])
@pytest.mark.asyncio
async def test_certificate_of_another_authority_is_refused(
    serve: Serve, authority: Authority, tmp_path: Path, log: LogLines, client_auth: str
) -> None:
    foreign = Authority(tmp_path, "foreign").issue_to(ANN)
    trusted = {"truststore_location": str(authority.file), "client_auth": client_auth}
    await turned_away(await serve(**trusted), authority.client_context(foreign))
    (why,) = told(log)
    assert why.startswith("the client's certificate is not accepted: ")


@pytest.mark.asyncio
async def test_subject_without_a_name_by_the_rules_is_refused(
    serve: Serve, authority: Authority, log: LogLines
) -> None:
    nobody = authority.issue_to(name((NameOID.COMMON_NAME, "nobody")))
    trusted = {"truststore_location": str(authority.file), "client_auth": "required"}
    await turned_away(await serve(**trusted), authority.client_context(nobody))
    assert told(log) == ["no rule matches"]


@pytest.mark.asyncio
async def test_version_that_is_not_enabled_is_refused(
    serve: Serve, authority: Authority, log: LogLines
) -> None:
    context = authority.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    await turned_away(await serve(protocols="TLSv1.3"), context)
    assert told(log) == ["the client speaks only versions of TLS that are not enabled"]


@pytest.mark.asyncio
async def test_client_that_does_not_trust_the_server_is_told_of_in_the_log(
    serve: Serve, tmp_path: Path, log: LogLines
) -> None:
    listener = await serve()
    distrustful = Authority(tmp_path, "foreign").client_context()

    def shake_hands() -> None:
        # asyncio's client hangs up without a word.
        with socket.create_connection(listener.addresses[0]) as connected:
            distrustful.wrap_socket(connected, server_hostname="127.0.0.1")

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(shake_hands)
    await refused(listener, RefuseReason.HANDSHAKE)
    assert told(log) == ["the client does not trust the server's certificate"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (heartbeat(1), "the client speaks no TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP without TLS"),
        (b"\xff" * 64, "the client speaks no TLS"),
        (b"", "the client has hung up"),
        (b"\x16\x03\x01\x00", "the client has hung up"),
    ],
)
@pytest.mark.asyncio
async def test_client_that_speaks_no_tls_is_closed(
    serve: Serve, log: LogLines, said: bytes, why: str
) -> None:
    listener = await serve()
    client = await connect(listener)
    client.send(said)
    if why.endswith("up"):
        client.writer.write_eof()
    with contextlib.suppress(OSError):
        await client.reader.read()
    await refused(listener, RefuseReason.HANDSHAKE)
    assert told(log) == [why]
    client.leave()


@pytest.mark.asyncio
async def test_handshake_has_to_end_in_time(serve: Serve, log: LogLines) -> None:
    listener = await serve(limits=Limits(first_byte_timeout_ms=50))
    client = await connect(listener)
    assert await client.ended()
    await refused(listener, RefuseReason.HANDSHAKE)
    assert told(log) == ["the client took too long"]
    client.leave()


# Floods


@pytest.mark.asyncio
async def test_flood_of_half_open_handshakes_leaves_others_served(
    serve: Serve, authority: Authority
) -> None:
    """Beyond the limit the oldest go; a client that shakes hands is done long before."""
    listener = await serve(limits=Limits(max_handshakes=5))
    silent = [await connect(listener) for _ in range(20)]
    await refused(listener, RefuseReason.MAX_HANDSHAKES, 15)
    client = await talk(listener, authority.client_context())
    for each in silent[:15]:
        assert await each.ended()
    for each in (client, *silent):
        each.leave()


@pytest.mark.asyncio
async def test_flood_drops_those_of_the_address_with_the_most(serve: Serve) -> None:
    listener = await serve(limits=Limits(max_handshakes=5))
    alone = await connect(listener, local_addr=("127.0.0.2", 0))
    await until(lambda: len(listener._arrivals) == 1)  # noqa: SLF001
    silent = [await connect(listener) for _ in range(10)]
    await refused(listener, RefuseReason.MAX_HANDSHAKES, 6)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await alone.reader.read()
    for each in (alone, *silent):
        each.leave()


@pytest.mark.asyncio
async def test_handshakes_count_as_connections(serve: Serve) -> None:
    listener = await serve(limits=Limits(max_connections=2))
    silent = [await connect(listener) for _ in range(3)]
    await refused(listener, RefuseReason.MADE_ROOM)
    assert await silent[0].ended()
    for each in silent:
        each.leave()
    await until(lambda: not len(listener._arrivals))  # noqa: SLF001


@pytest.mark.asyncio
async def test_half_open_handshakes_make_room_for_one_that_is_finished(
    serve: Serve, authority: Authority
) -> None:
    listener = await serve(limits=Limits(max_connections=2))
    silent = [await connect(listener) for _ in range(4)]
    client = await talk(listener, authority.client_context())
    one_too_many = [await connect(listener) for _ in range(2)]
    await refused(listener, RefuseReason.MADE_ROOM, 5)
    client.send(heartbeat(2))
    assert await client.answered(1) == [2]
    for each in (client, *silent, *one_too_many):
        each.leave()


@pytest.mark.asyncio
async def test_places_of_failed_handshakes_are_free_again(
    serve: Serve, authority: Authority
) -> None:
    listener = await serve(limits=Limits(max_connections=1))
    for times in range(1, 4):
        client = await connect(listener)
        client.leave()
        await refused(listener, RefuseReason.HANDSHAKE, times)
    client = await talk(listener, authority.client_context())
    client.leave()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it counts open files by /proc")
@pytest.mark.asyncio
async def test_sockets_of_dropped_and_failed_handshakes_are_closed(
    serve: Serve, authority: Authority
) -> None:
    listener = await serve(limits=Limits(max_handshakes=5))
    before = open_files()
    for _ in range(20):
        client = await connect(listener)
        client.send(b"garbage of some length")
        silent = await connect(listener)
        client.leave()
        silent.leave()
    client = await talk(listener, authority.client_context())
    client.leave()
    # The event loop may have opened a few of its own.
    await until(lambda: open_files() < before + 10)


@pytest.mark.asyncio
async def test_close_does_not_wait_for_handshakes(serve: Serve) -> None:
    listener = await serve()
    client = await connect(listener)
    await until(lambda: len(listener._arrivals) == 1)  # noqa: SLF001
    async with asyncio.timeout(PATIENCE_S):
        await listener.close(60)
    assert await client.ended()
    client.leave()


@pytest.mark.asyncio
async def test_garbage_before_and_within_handshakes_leaves_others_served(
    serve: Serve, authority: Authority
) -> None:
    listener = await serve()
    chance = random.Random(17)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    garbage = [
        chance.choice((b"", hello)) + chance.randbytes(chance.randrange(1, 2_000))
        for _ in range(60)
    ]
    clients = []
    for each in garbage:
        client = await connect(listener)
        client.send(each)
        client.writer.write_eof()
        clients.append(client)
    good = await talk(listener, authority.client_context())
    await refused(listener, RefuseReason.HANDSHAKE, len(garbage))
    for client in (good, *clients):
        client.leave()


# Another certificate


def served_by(client: Client) -> bytes:
    """The certificate of the server, as the client got it."""
    found: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


@pytest.mark.asyncio
async def test_new_certificate_is_for_new_connections(
    serve: Serve, authority: Authority, log: LogLines
) -> None:
    files = authority.issue()
    tls = ServerTls(TlsOptions(keystore_location=str(files.both)))
    listener = await serve(tls=tls)
    context = authority.client_context()
    before = await talk(listener, context)
    files.both.write_bytes(authority.issue().both.read_bytes())
    tls.reload()
    after = await talk(listener, context)
    before.send(heartbeat(2))
    assert await before.answered(1) == [2]
    assert served_by(before) != served_by(after)
    assert "TLS files read again" in [line["event"] for line in log]
    before.leave()
    after.leave()


@pytest.mark.asyncio
async def test_files_that_change_are_read_without_being_told(
    serve: Serve, authority: Authority, log: LogLines
) -> None:
    files = authority.issue()
    tls = ServerTls(TlsOptions(keystore_location=str(files.both)))
    listener = await serve(tls=tls)
    watch = TlsWatch(every_s=0.01)
    watch.add(tls)
    watch.start()
    before = tls.context
    files.both.write_bytes(b"half of a file")
    await until(lambda: any("former ones are kept" in line["event"] for line in log))
    assert tls.context is before
    client = await talk(listener, authority.client_context())
    files.both.write_bytes(authority.issue().both.read_bytes())
    await until(lambda: tls.context is not before)
    await watch.close()
    complaints = [line for line in log if "former ones are kept" in line["event"]]
    assert len(complaints) == 1
    assert "has no certificate in PEM" in str(complaints[0]["reason"])
    client.leave()


# Not too many in a second


@pytest.mark.asyncio
async def test_connections_beyond_the_rate_wait_and_are_served() -> None:
    """A second's worth comes at once; the next ones are spaced out."""
    listener = Listener(AnsweringHandler(), Limits(max_connection_creation_rate=20))
    await listener.start("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    clients = [await connect(listener) for _ in range(23)]
    for client in clients:
        client.send(heartbeat(1))
    for client in clients:
        assert await client.answered(1) == [1]
        client.leave()
    took_s = loop.time() - began
    await listener.close(0)
    # uvloop's clock counts milliseconds.
    assert took_s >= 0.09


@pytest.mark.asyncio
async def test_connections_that_would_wait_too_long_are_refused(log: LogLines) -> None:
    limits = Limits(max_connection_creation_rate=1, first_byte_timeout_ms=100)
    listener = Listener(AnsweringHandler(), limits)
    await listener.start("127.0.0.1", 0)
    clients = [await connect(listener) for _ in range(3)]
    await refused(listener, RefuseReason.CREATION_RATE, 1)
    line = next(each for each in log if each.get("reason") == "max_connection_creation_rate")
    assert (line["limit"], line["wait_ms"] > 100) == (1, True)
    for client in clients:
        client.leave()
    await listener.close(0)
