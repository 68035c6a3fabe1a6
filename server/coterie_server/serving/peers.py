"""Asks other nodes, in Kafka's own protocol, for what only they know or may do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import (
    ApiKey,
    CoterieError,
    FrameReader,
    decode_response,
    encode_request,
    response_class,
)
from coterie_protocol.messages import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.serving.cluster import NodeNote

__all__ = ["AskNode", "PeerError", "ask_node", "wake"]

#: How long another node may take, besides what the request allows it.
_PATIENCE_S: Final = 5.0
_ALLOWED_MAX_S: Final = 30.0
_SHARDS_ARE_FREE: Final = ApiVersionsRequest(
    client_software_name="coterie-node", client_software_version="0", shards_are_free=True
)
_SHARDS_ARE_FREE_VERSION: Final = 3
#: How long to try to wake other nodes, which look by themselves before long.
_WAKE_S: Final = 0.1
_CHUNK_BYTES: Final = 65_536

AskNode = Callable[["NodeNote", ApiKey, Any, int], Awaitable[Any]]
"""Sends a node a request, in a version of its API, and returns its response."""


class PeerError(CoterieError):
    """Another node could not be asked, or has not answered."""

    def __init__(self, sentence: str, *, was_sent: bool = False) -> None:
        super().__init__(sentence)
        #: Whether the request was sent, so that it may have been carried out.
        self.was_sent = was_sent


async def ask_node(node: NodeNote, api: ApiKey, message: Any, version: int) -> Any:  # noqa: ANN401
    """Ask a node by its first listener, over a connection of its own, as there is little to ask."""
    address = next(iter(node.addresses.values()))
    was_sent = False
    try:
        async with asyncio.timeout(_PATIENCE_S + _allowed_s(message)):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                was_sent = True
                writer.write(encode_request(message, version, 0, "coterie-node"))
                return await _response(reader, api, version)
            finally:
                writer.close()
    except (OSError, EOFError, CoterieError) as error:
        why = str(error) or "it takes too long"
        problem = f"node {node.node_id} at {address} does not answer: {why}"
        raise PeerError(problem, was_sent=was_sent) from error


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


async def _response(reader: asyncio.StreamReader, api: ApiKey, version: int) -> Any:  # noqa: ANN401
    frames = FrameReader()
    while True:
        data = await reader.read(_CHUNK_BYTES)
        if not data:
            raise EOFError("it closed the connection")
        for payload in frames.feed(data):
            _, response = decode_response(response_class(api), version, payload)
            return response
