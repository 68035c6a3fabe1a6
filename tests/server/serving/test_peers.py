"""Nodes that ask each other where clients have to log in, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_server.address import Address
from coterie_server.net import Exchange, Limits, Listener, Terms
from coterie_server.net.check_queue import CheckQueue
from coterie_server.net.guard import Authenticator, Logins
from coterie_server.security import Principal, SecurityProtocol
from coterie_server.security.authentication import SaslTerms
from coterie_server.security.sasl import NODE_MECHANISM, node_conversation
from coterie_server.serving import Asker
from coterie_server.serving.cluster import NodeNote
from coterie_server.serving.peers import PeerError, unverified_tls
from coterie_server.tls import ServerTls, TlsOptions
from tests.support.certificates import Authority

SECRET, OTHER = bytes(range(32)), bytes(32)
PROTOCOLS = pytest.mark.parametrize(
    "protocol", [SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.PLAINTEXT]
)


class Groups:
    """Lists no groups, to whom it may be."""

    def __init__(self) -> None:
        self.asked_by: list[Principal] = []

    def handle(self, exchange: Exchange) -> None:
        """Answer."""
        if isinstance(exchange.message, m.ListGroupsRequest):
            self.asked_by.append(exchange.principal)
            exchange.reply(m.ListGroupsResponse(groups=()))
        else:
            exchange.authenticate()


@asynccontextmanager
async def served(
    protocol: SecurityProtocol, handler: Groups, tls: ServerTls | None = None
) -> AsyncIterator[NodeNote]:
    bindings = () if tls is None else (bytes.fromhex(tls.fingerprint),)
    loop = asyncio.get_running_loop()
    logins = Logins(CheckQueue(lambda *_: None), loop.call_later, failure_delay_ms=1)
    logins.open()
    authenticator = Authenticator(
        "default",
        logins,
        SaslTerms({}, {NODE_MECHANISM: lambda: node_conversation(SECRET, "nonce", bindings)}),
        is_required=protocol.has_sasl,
        max_receive_bytes=10_000,
        limits=Limits(),
        now=loop.time,
    )
    listener = Listener(handler)
    terms = Terms("default", protocol, tls, authenticator=authenticator)
    bound = await listener.start("127.0.0.1", 0, terms=terms)
    try:
        at = Address("127.0.0.1", bound.port)
        yield NodeNote(2, {"default": at}, has_tls=tls is not None, wants_proof=True)
    finally:
        await listener.close(1)


async def ask(asker: Asker, note: NodeNote) -> None:
    message = m.ListGroupsRequest(states_filter=(), types_filter=())
    assert await asker(note, ApiKey.LIST_GROUPS, message, 4) == m.ListGroupsResponse(groups=())


@pytest.mark.asyncio
@PROTOCOLS
async def test_node_is_answered_as_a_node(protocol: SecurityProtocol) -> None:
    handler = Groups()
    async with served(protocol, handler) as note:
        await ask(Asker(7, SECRET), note)
    assert handler.asked_by == [Principal("Node", "7")]


@pytest.mark.asyncio
@PROTOCOLS
async def test_node_of_another_store_is_refused(protocol: SecurityProtocol) -> None:
    handler = Groups()
    async with served(protocol, handler) as note:
        with pytest.raises(PeerError, match="does not take this node for one on its store") as it:
            await ask(Asker(7, OTHER), note)
    assert (it.value.was_sent, handler.asked_by) == (False, [])


TLS_PROTOCOLS = pytest.mark.parametrize(
    "protocol", [SecurityProtocol.SASL_SSL, SecurityProtocol.SSL]
)


def certificate(authority: Authority) -> ServerTls:
    return ServerTls(TlsOptions(keystore_location=str(authority.issue().both)))


@pytest.mark.asyncio
@TLS_PROTOCOLS
async def test_certificate_of_the_node_that_is_asked_need_not_be_trusted(
    protocol: SecurityProtocol, tmp_path: Path
) -> None:
    handler = Groups()
    async with served(protocol, handler, certificate(Authority(tmp_path))) as note:
        await ask(Asker(7, SECRET), note)
    assert handler.asked_by == [Principal("Node", "7")]


@pytest.mark.asyncio
@TLS_PROTOCOLS
async def test_machine_in_between_can_not_pass_the_proof_on(
    protocol: SecurityProtocol, tmp_path: Path
) -> None:
    """Not even one whose certificate is of the same authority."""
    authority, handler = Authority(tmp_path), Groups()
    own = certificate(authority)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = next(iter(note.addresses.values()))
        beyond = await asyncio.open_connection(there.host, there.port, ssl=unverified_tls())
        ways = (copied(reader, beyond[1]), copied(beyond[0], writer))
        await asyncio.gather(*ways, return_exceptions=True)
        over.set()

    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            writer.write(data)
        writer.close()

    over = asyncio.Event()
    async with served(protocol, handler, certificate(authority)) as note:
        between = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=own.context)
        at = Address("127.0.0.1", between.sockets[0].getsockname()[1])
        with pytest.raises(PeerError, match="does not take this node for one on its store"):
            await ask(Asker(7, SECRET), replace(note, addresses={"default": at}))
        await over.wait()
        between.close()
    assert handler.asked_by == []


@pytest.mark.asyncio
async def test_node_with_acls_proves_itself_even_where_no_proof_is_wanted() -> None:
    handler = Groups()
    async with served(SecurityProtocol.PLAINTEXT, handler) as note:
        asker = Asker.of(7, SECRET, None, always_proves=True)
        await ask(asker, replace(note, wants_proof=False))
    assert handler.asked_by == [Principal("Node", "7")]


@pytest.mark.asyncio
async def test_node_without_a_proof_is_hung_up_on() -> None:
    handler = Groups()
    async with served(SecurityProtocol.SASL_PLAINTEXT, handler) as note:
        unproved = NodeNote(2, note.addresses)
        with pytest.raises(PeerError, match="closed the connection"):
            await ask(Asker(7, SECRET), unproved)
    assert handler.asked_by == []


@pytest.mark.asyncio
async def test_impostor_of_a_node_is_sent_no_request() -> None:
    """It takes any proof, and can't give one."""
    seen = bytearray()

    async def agree(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shaken = b"\0\0\0\0" + b"\0\0" + b"\0\0\0\0"
        challenge = b"r="
        for step in range(9):
            data = await reader.read(10_000)
            seen.extend(data)
            if not data:
                break
            if step == 0:
                answer = shaken
            else:
                if step == 1:
                    nonce = data[data.index(b",r=") + 3 : -1]
                    challenge = b"r=" + nonce + b"x,s=AAAA,i=4096"
                said = challenge if step == 1 else b"v=" + b"A" * 43 + b"="
                answer = b"\0\0\0\0\0\0\0\0" + bytes((len(said) + 1,)) + said + bytes(9)
            writer.write(len(answer).to_bytes(4) + answer)
        writer.close()
        await writer.wait_closed()
        over.set()

    over = asyncio.Event()
    server = await asyncio.start_server(agree, "127.0.0.1", 0)
    note = NodeNote(
        2, {"": Address("127.0.0.1", server.sockets[0].getsockname()[1])}, wants_proof=True
    )
    with pytest.raises(PeerError, match="does not know the secret"):
        await ask(Asker(7, SECRET), note)
    await over.wait()
    server.close()
    assert bytes((0, ApiKey.LIST_GROUPS, 0, 4)) not in seen


def test_secret_is_in_no_text() -> None:
    assert repr(SECRET)[2:20] not in repr(Asker(7, SECRET))
