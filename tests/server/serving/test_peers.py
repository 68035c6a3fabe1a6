"""Nodes that ask each other where clients have to log in, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
from coterie_server.serving.peers import PeerError

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
async def served(protocol: SecurityProtocol, handler: Groups) -> AsyncIterator[NodeNote]:
    loop = asyncio.get_running_loop()
    logins = Logins(CheckQueue(lambda *_: None), loop.call_later, failure_delay_ms=1)
    logins.open()
    authenticator = Authenticator(
        "default",
        logins,
        SaslTerms({}, {NODE_MECHANISM: lambda: node_conversation(SECRET, "nonce")}),
        is_required=protocol.has_sasl,
        max_receive_bytes=10_000,
        limits=Limits(),
        now=loop.time,
    )
    listener = Listener(handler)
    terms = Terms("default", protocol, authenticator)
    bound = await listener.start("127.0.0.1", 0, terms=terms)
    try:
        yield NodeNote(2, {"default": Address("127.0.0.1", bound.port)}, wants_proof=True)
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
