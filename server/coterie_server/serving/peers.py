"""Asks other nodes, in Kafka's own protocol, for what only they know or may do.

Where a node lets in only clients that it knows, another node proves first that both use the same
store: see `coterie_server.security.sasl.node`.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from coterie_protocol import (
    ApiKey,
    CoterieError,
    FrameReader,
    decode_response,
    encode_request,
    response_class,
)
from coterie_protocol import messages as m
from coterie_protocol.messages import ApiVersionsRequest
from coterie_server.security.sasl import (
    NODE_MECHANISM,
    NodeNotProvenError,
    NodeProof,
    certificate_binding,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.serving.cluster import NodeNote
    from coterie_server.tls import ServerTls

__all__ = ["NODE_CLIENT_ID", "AskNode", "Asker", "PeerError", "ask_node", "unverified_tls", "wake"]

#: How long another node may take, besides what the request allows it.
_PATIENCE_S: Final = 5.0
_ALLOWED_MAX_S: Final = 30.0
#: What nodes call themselves; one that need prove nothing is known by that alone.
NODE_CLIENT_ID: Final = "coterie-node"
_SHARDS_ARE_FREE: Final = ApiVersionsRequest(
    client_software_name=NODE_CLIENT_ID, client_software_version="0", shards_are_free=True
)
_SHARDS_ARE_FREE_VERSION: Final = 3
#: How long to try to wake other nodes, which look by themselves before long.
_WAKE_S: Final = 0.1
_CHUNK_BYTES: Final = 65_536
_NONCE_BYTES: Final = 24

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

AskNode = Callable[["NodeNote", ApiKey, Any, int], Awaitable[Any]]
"""Sends a node a request, in a version of its API, and returns its response."""


class PeerError(CoterieError):
    """Another node could not be asked, or has not answered."""

    def __init__(self, sentence: str, *, was_sent: bool = False) -> None:
        super().__init__(sentence)
        #: Whether the request was sent, so that it may have been carried out.
        self.was_sent = was_sent


def unverified_tls() -> ssl.SSLContext:
    """TLS with a node, whose certificate need not be verified: the proof is bound to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks nodes, as a node that can prove what it is."""

    node_id: int
    #: What all nodes on the store know; none if no node has to prove what it is.
    secret: bytes = field(default=b"", repr=False)
    tls: Callable[[], ssl.SSLContext] = unverified_tls
    #: Whether it proves that even to nodes that let in everyone.
    always_proves: bool = False

    @classmethod
    def of(cls, node_id: int, secret: bytes, tls: ServerTls | None, *, always_proves: bool) -> Self:
        """A node that shows its own certificate, if it has one."""
        context = unverified_tls if tls is None else tls.as_client
        return cls(node_id, secret, context, always_proves)

    async def __call__(self, node: NodeNote, api: ApiKey, message: Any, version: int) -> Any:  # noqa: ANN401
        """Ask a node by its first listener; there is little to ask, so each time it is dialled."""
        address = next(iter(node.addresses.values()))
        was_sent = False
        try:
            async with asyncio.timeout(_PATIENCE_S + _allowed_s(message)):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=self.tls() if node.has_tls else None
                )
                link = _Link(reader, writer)
                try:
                    if node.wants_proof or self.always_proves:
                        await self._prove(link)
                    was_sent = True
                    return await link.ask(api, message, version)
                finally:
                    writer.close()
        except (OSError, EOFError, CoterieError) as error:
            why = str(error) or "it takes too long"
            problem = f"node {node.node_id} at {address} does not answer: {why}"
            raise PeerError(problem, was_sent=was_sent) from error

    async def _prove(self, link: _Link) -> None:
        """Prove that this is a node, and have that proved by the other one."""
        handshake = m.SaslHandshakeRequest(mechanism=NODE_MECHANISM)
        shaken = await link.ask(ApiKey.SASL_HANDSHAKE, handshake, _HANDSHAKE_VERSION)
        if shaken.error_code:
            raise NodeNotProvenError(f"it refuses other nodes, with error {shaken.error_code}")
        nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        proof = NodeProof(self.secret, self.node_id, nonce, link.binding())
        challenge = await link.exchange_tokens(proof.first())
        proof.verify(await link.exchange_tokens(proof.final(challenge)))


class _Link:
    """A connection to a node, on which one request follows another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()

    def binding(self) -> bytes:
        """What a proof is bound to; nothing without TLS."""
        tls = self._writer.get_extra_info("ssl_object")
        if tls is None:
            return b""
        certificate: bytes | None = tls.getpeercert(binary_form=True)
        if certificate is None:
            raise NodeNotProvenError("it shows no certificate")
        return certificate_binding(certificate)

    async def exchange_tokens(self, token: bytes) -> bytes:
        """Send a token, and return the other side's."""
        asked = m.SaslAuthenticateRequest(auth_bytes=token)
        answer = await self.ask(ApiKey.SASL_AUTHENTICATE, asked, _AUTHENTICATE_VERSION)
        if answer.error_code:
            raise NodeNotProvenError(
                f"it does not take this node for one on its store: {answer.error_message}"
            )
        told: bytes = answer.auth_bytes
        return told

    async def ask(self, api: ApiKey, message: Any, version: int) -> Any:  # noqa: ANN401  # any request
        """Send a request and return its response."""
        self._writer.write(encode_request(message, version, 0, NODE_CLIENT_ID))
        while True:
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise EOFError("it closed the connection")
            for payload in self._frames.feed(data):
                _, response = decode_response(response_class(api), version, payload)
                return response


#: Asks nodes that need no proof.
ask_node: Final = Asker(node_id=-1)


async def wake(nodes: Iterable[NodeNote], ask: AskNode) -> None:
    """Have nodes look at once who has which shard."""
    asked = (
        ask(node, ApiKey.API_VERSIONS, _SHARDS_ARE_FREE, _SHARDS_ARE_FREE_VERSION) for node in nodes
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(_WAKE_S):
            await asyncio.gather(*asked, return_exceptions=True)


def _allowed_s(message: Any) -> float:  # noqa: ANN401  # any request
    """How long its client lets a request take: a deletion waits for the groups of all nodes."""
    return min(max(getattr(message, "timeout_ms", 0) / 1000, 0.0), _ALLOWED_MAX_S)
