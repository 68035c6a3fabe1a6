"""Questions about groups that other nodes have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coterie_server.group import Refusal
from coterie_server.http.answers import error, not_ready
from coterie_server.http.others import ASKED_BY, ASKED_NODE, NodeSilentError, OtherNodes

if TYPE_CHECKING:
    from coterie_server.http.node_view import NodeView
    from coterie_server.http.streams import Streams
    from coterie_server.serving import NodeNote

__all__ = ["Elsewhere", "refuse_misdirected"]

#: Streams about a group of this node.
Tell = Callable[[web.Request, str], Awaitable[web.StreamResponse]]


def refuse_misdirected(node: NodeView) -> Middleware:
    """A middleware that refuses what another node is asked: the asker has come to a wrong one."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        meant = request.headers.get(ASKED_NODE, str(node.node_id))
        if node.is_open and meant != str(node.node_id):
            raise Refusal("misdirected", f"This is node {node.node_id}, and not the one asked.")
        return await handler(request)

    return check


@final
class Elsewhere:
    """Has the node answer that has a group."""

    def __init__(self, node: NodeView, others: OtherNodes) -> None:
        self._node = node
        self.others = others

    def asked(self, request: web.Request, *, siblings: bool = False) -> list[NodeNote]:
        """The other nodes, or other workers, that are to be asked as well."""
        if ASKED_BY in request.headers:
            return []
        among = self.others.siblings
        return [each for each in self._node.others() if not siblings or each.node_id in among]

    async def answer(
        self, request: web.Request, group_id: str, *, takes_long: bool = False
    ) -> web.Response | None:
        """The answer about a group that another node has; None if it is to be found here.

        Raises `Refusal` if that can't be told just now.
        """
        owner = self._node.elsewhere(group_id)
        if owner is None:
            if reason := self._node.not_shown(group_id):
                raise not_ready(reason)
            return None
        if ASKED_BY in request.headers:  # by a node that knows less
            raise not_ready(f"Node {owner.node_id} has the group {group_id!r} now; ask again.")
        try:
            me = self._node.node_id
            answer = await self.others.ask(owner, request, me, takes_long=takes_long)
        except NodeSilentError as silent:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(silent))
        return web.Response(
            status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type}
        )

    async def stream(
        self, request: web.Request, streams: Streams, tell: Tell
    ) -> web.StreamResponse:
        """Stream about a group, by `tell` or what another node tells; may raise `Refusal`."""
        self._node.require_ready()
        group_id = request.match_info["group"]
        with streams.admit():
            owner = self._node.elsewhere(group_id)
            if owner is not None and ASKED_BY not in request.headers:
                return await streams.pass_on(request, owner)
            elsewhere = await self.answer(request, group_id)
            return await tell(request, group_id) if elsewhere is None else elsewhere
