"""What other nodes answer over HTTP, for a node that is asked about their groups.

A client may ask any node about any group.  The one that it asks passes the question on to the node
that has the group, or puts together what all of them answer.  A node that is asked by another one
answers by itself, so no question goes round in circles.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from coterie_protocol.exceptions import CoterieError

if TYPE_CHECKING:
    from coterie_server.serving import NodeNote
    from coterie_server.tls import ServerTls

__all__ = [
    "ASKED_BY",
    "ASKED_NODE",
    "PASSED_BODY",
    "SHARDS",
    "Answer",
    "NodeSilentError",
    "OtherNodes",
    "shards_as_text",
    "shards_in",
]

#: In a request of another node, its id.
ASKED_BY: Final = "Coterie-Asked-By"
#: The id of the node that is meant: at an address of its own machine alone, others find another.
ASKED_NODE: Final = "Coterie-Asked-Node"
#: In a list of groups, the numbers of the shards that it has all groups of.
SHARDS: Final = "Coterie-Shards"

#: How long another node may take to answer.
_PATIENCE: Final = aiohttp.ClientTimeout(total=5.0)
#: The same for what a node itself takes its time for, such as the past of a group.
_LONG_PATIENCE: Final = aiohttp.ClientTimeout(total=30.0, connect=5.0)
#: How long it may leave a list unfinished.
_PATIENCE_WITH_LISTS: Final = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=5.0)
#: How long it may tell a watcher nothing, not even that it is there.
_PATIENCE_WITH_WATCHES: Final = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=20.0)
#: What of a request is passed on.
_PASSED_ON: Final = ("Accept", "Content-Type", "Last-Event-ID")
#: In a request, its body, where that has been read and is to be passed on.
PASSED_BODY: Final = web.RequestKey("passed_body", bytes)


class NodeSilentError(CoterieError):
    """Another node could not be asked; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What another node has answered."""

    status: int
    content_type: str
    body: bytes
    #: Of a list, the shards that it has all groups of.
    shards: frozenset[int] = frozenset()

    @property
    def message(self) -> str:
        """Of an error, what is wrong."""
        try:
            return str(json.loads(self.body)["message"])
        except (ValueError, TypeError, KeyError):
            return f"it answers with status {self.status}."


def shards_as_text(shards: Iterable[int]) -> str:
    """Numbers of shards, for a header."""
    return ",".join(map(str, sorted(shards)))


def shards_in(headers: Mapping[str, str]) -> frozenset[int]:
    """The shards that an answer has all groups of, as far as it says so."""
    return frozenset(int(each) for each in headers.get(SHARDS, "").split(",") if each.isdecimal())


class OtherNodes:
    """Asks other nodes over HTTP."""

    def __init__(self, siblings: Sequence[int] = (), tls: ServerTls | None = None) -> None:
        #: By the certificate that the node has to have; empty for none.
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        #: Whose certificate this node shows where it is asked for one.
        self._tls = tls
        #: What it shows besides, once nodes have agreed on that.
        self.token = ""
        #: The ids of the nodes that answer at one address with this one: the workers of one
        #: supervisor.
        self.siblings: Final = frozenset(siblings)

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = self._sessions, {}
        for each in sessions.values():
            await each.close()

    async def ask(
        self, node: NodeNote, request: web.Request, asker: int, *, takes_long: bool = False
    ) -> Answer:
        """Have a node answer a request."""
        patience = _LONG_PATIENCE if takes_long else _PATIENCE
        async with await self._begun(node, request, asker, patience) as response:
            return await _whole(node, response)

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
        self, node: NodeNote, request: web.Request, asker: int, *, is_endless: bool = False
    ) -> aiohttp.ClientResponse:
        """Have a node begin an answer, which the caller reads and closes."""
        patience = _PATIENCE_WITH_WATCHES if is_endless else _PATIENCE_WITH_LISTS
        response = await self._begun(node, request, asker, patience)
        if not response.ok:
            async with response:
                answer = await _whole(node, response)
            raise NodeSilentError(f"Node {node.node_id}: {answer.message}")
        return response

    async def watch(
        self, node: NodeNote, request: web.Request, asker: int
    ) -> aiohttp.ClientResponse:
        """Have a node begin an answer without end, or refuse it; the caller closes it."""
        return await self._begun(node, request, asker, _PATIENCE_WITH_WATCHES)

    async def _begun(
        self, node: NodeNote, request: web.Request, asker: int, patience: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        try:
            response = await self._opened(node, request, asker, patience)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise _silent(node, error) from error
        if response.status == HTTPStatus.MISDIRECTED_REQUEST:
            response.close()
            raise _silent(node, "another node answers there")
        return response

    def _opened(
        self, node: NodeNote, request: web.Request, asker: int, patience: aiohttp.ClientTimeout
    ) -> aiohttp.client._RequestContextManager:
        if node.http is None:
            where = next(iter(node.addresses.values()))
            raise NodeSilentError(f"Node {node.node_id} at {where} answers no HTTP.")
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers |= {ASKED_BY: str(asker), ASKED_NODE: str(node.node_id)}
        body = request.get(PASSED_BODY)
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        # What a HEAD is answered depends on what is left out in the end.
        method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
        return self._session(node).request(
            method,
            _url(node, request),
            headers=headers,
            data=body,
            timeout=patience,
            allow_redirects=False,
            # Only with the certificate that the node has noted in the store, see `_session`.
            ssl=self._tls.as_client() if node.http_certificate and self._tls else True,
        )

    def _session(self, node: NodeNote) -> aiohttp.ClientSession:
        certificate = node.http_certificate
        found = self._sessions.get(certificate)
        if found is None:
            expected = aiohttp.Fingerprint(bytes.fromhex(certificate)) if certificate else True
            # Watchers are bounded where they come in, and each may have one to another node.
            connector = aiohttp.TCPConnector(ssl=expected, limit=0)
            found = self._sessions[certificate] = aiohttp.ClientSession(connector=connector)
        return found


def _url(node: NodeNote, request: web.Request) -> URL:
    # Not as it stands in the request line, which may have a whole URL with another host.
    return URL(f"{_origin(node)}{request.rel_url.raw_path_qs}", encoded=True)


def _origin(node: NodeNote) -> str:
    return f"http{'s' if node.http_certificate else ''}://{node.http}"


async def _whole(node: NodeNote, response: aiohttp.ClientResponse) -> Answer:
    try:
        body = await response.read()
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        raise _silent(node, error) from error
    headers = response.headers
    return Answer(response.status, headers.get("Content-Type", ""), body, shards_in(headers))


def _silent(node: NodeNote, error: BaseException | str) -> NodeSilentError:
    why = str(error) or "no answer in time"
    return NodeSilentError(f"Node {node.node_id} at {_origin(node)} can't be asked: {why}.")
