"""What other nodes answer over HTTP, for a node that is asked about their groups.

A client may ask any node about any group.  The one that it asks passes the question on to the node
that has the group, or puts together what all of them answer.  A node that is asked by another one
answers by itself, so no question goes round in circles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from coterie_protocol.exceptions import CoterieError

if TYPE_CHECKING:
    from aiohttp import web

    from coterie_server.serving import NodeNote

__all__ = ["ASKED_BY", "Answer", "NodeSilentError", "OtherNodes"]

#: In a request of another node, its id.
ASKED_BY: Final = "Coterie-Asked-By"

#: How long another node may take to answer.
_PATIENCE: Final = aiohttp.ClientTimeout(total=5.0)
#: How long it may leave a list unfinished.
_PATIENCE_WITH_LISTS: Final = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=5.0)
#: What of a request is passed on.
_PASSED_ON: Final = ("Accept",)


class NodeSilentError(CoterieError):
    """Another node could not be asked; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What another node has answered."""

    status: int
    content_type: str
    body: bytes


class OtherNodes:
    """Asks other nodes over HTTP."""

    def __init__(self, siblings: Sequence[int] = ()) -> None:
        self._session: aiohttp.ClientSession | None = None
        #: The ids of the nodes that answer at one address with this one: the workers of one
        #: supervisor.
        self.siblings: Final = frozenset(siblings)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, node: NodeNote, request: web.Request, asker: int) -> Answer:
        """Have a node answer a request."""
        try:
            async with self._opened(node, request, asker, _PATIENCE) as response:
                body = await response.read()
                return Answer(response.status, response.headers.get("Content-Type", ""), body)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise _silent(node, error) from error

    async def ask_all(
        self, nodes: Sequence[NodeNote], request: web.Request, asker: int
    ) -> Mapping[int, Answer | NodeSilentError]:
        """Have nodes answer a request, by their ids."""
        answers = await asyncio.gather(
            *(self.ask(node, request, asker) for node in nodes), return_exceptions=True
        )
        found: dict[int, Answer | NodeSilentError] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, NodeSilentError):
                raise answer
            found[node.node_id] = answer
        return found

    async def open(
        self, node: NodeNote, request: web.Request, asker: int
    ) -> aiohttp.ClientResponse:
        """Have a node begin an answer, which the caller reads and closes."""
        try:
            response = await self._opened(node, request, asker, _PATIENCE_WITH_LISTS)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise _silent(node, error) from error
        if not response.ok:
            response.close()
            raise NodeSilentError(f"Node {node.node_id} answers {response.status}.")
        return response

    def _opened(
        self, node: NodeNote, request: web.Request, asker: int, patience: aiohttp.ClientTimeout
    ) -> aiohttp.client._RequestContextManager:
        if node.http is None:
            where = next(iter(node.addresses.values()))
            raise NodeSilentError(f"Node {node.node_id} at {where} answers no HTTP.")
        if self._session is None:
            self._session = aiohttp.ClientSession()
        passed_on = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        return self._session.request(
            request.method,
            _url(node, request),
            headers={**passed_on, ASKED_BY: str(asker)},
            timeout=patience,
            allow_redirects=False,
        )


def _url(node: NodeNote, request: web.Request) -> URL:
    return URL(f"http://{node.http}{request.raw_path}", encoded=True)


def _silent(node: NodeNote, error: BaseException) -> NodeSilentError:
    why = str(error) or "no answer in time"
    return NodeSilentError(f"Node {node.node_id} at http://{node.http} can't be asked: {why}.")
