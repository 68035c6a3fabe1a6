"""The HTTP pages: which there are, and those about the node itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.web_urldispatcher import MatchInfoError

from coterie_server.backfill import Backfill
from coterie_server.http.access import AllowedHosts
from coterie_server.http.answers import (
    GROUP_PATH,
    as_json,
    errors_as_json,
    not_ready,
    refuse_encoded,
    refuse_other_hosts,
)
from coterie_server.http.console import ConsolePages, add_console
from coterie_server.http.elsewhere import Elsewhere, refuse_misdirected
from coterie_server.http.group_actions import OPERATIONS, GroupActions
from coterie_server.http.group_lists import GroupLists
from coterie_server.http.group_pages import GroupPages
from coterie_server.http.groups import KnownGroups
from coterie_server.http.node_view import NodeView
from coterie_server.http.others import ASKED_BY, Answer, OtherNodes
from coterie_server.http.owners import OwnerPages
from coterie_server.http.past import PastPage
from coterie_server.http.streams import WATCHERS_MAX, Streams
from coterie_server.http.tokens import MAY_READ, Tokens, require_token
from coterie_server.metrics import Metrics
from coterie_server.metrics.merged import merge
from coterie_server.serving import NodeNote

__all__ = ["create_app"]


def create_app(
    node: NodeView,
    backfill: Backfill,
    metrics: Metrics,
    hosts: AllowedHosts | None = None,
    others: OtherNodes | None = None,
    tokens: Tokens | None = None,
    watchers_max: int = WATCHERS_MAX,
) -> web.Application:
    """The pages of a node, for clients that ask for it by an allowed name, with their tokens."""
    known, elsewhere = tokens or Tokens(), Elsewhere(node, others or OtherNodes())
    streams = Streams(node, elsewhere.others, watchers_max)
    #: An answer is made in short pieces, so that members are served in between; many answers at
    #: once would make many pieces before a member's turn comes.
    one_at_a_time = asyncio.Lock()
    pages = _Pages(node, elsewhere, metrics, one_at_a_time)
    rows = KnownGroups(node.find, backfill.history, node.date_ms)
    lists = GroupLists(node, elsewhere, streams, rows, one_at_a_time)
    groups = GroupPages(node, elsewhere, streams, backfill, one_at_a_time)
    actions = GroupActions(node, elsewhere, one_at_a_time)
    owners = OwnerPages(node, elsewhere, streams, one_at_a_time)
    past = PastPage(node, elsewhere)
    console = ConsolePages(node, known, OPERATIONS, has_past=past.has_journal)
    app = web.Application(
        middlewares=[
            errors_as_json,
            refuse_encoded,
            refuse_other_hosts(hosts or AllowedHosts()),
            require_token(known),
            refuse_misdirected(node),
        ]
    )
    add_console(app)
    app.add_routes(
        [
            web.get("/healthz", pages.health),
            web.get("/readyz", pages.readiness),
            web.get("/metrics", pages.metrics),
            web.get("/v1/console", console.facts),
            web.get("/v1/nodes", pages.nodes),
            web.get("/v1/groups", lists.groups),
            web.get("/v1/watch", lists.watch, allow_head=False),
            web.get(GROUP_PATH, groups.group),
            web.get(f"{GROUP_PATH}/watch", groups.watch, allow_head=False),
            web.get(f"{GROUP_PATH}/offsets", groups.offsets),
            web.get(f"{GROUP_PATH}/past", past.past),
            web.get(f"{GROUP_PATH}/owners", owners.owners),
            web.get(f"{GROUP_PATH}/owners/watch", owners.watch, allow_head=False),
            web.post(f"{GROUP_PATH}/rebalance", actions.rebalance),
            web.post(f"{GROUP_PATH}/members/remove", actions.remove),
            web.post(f"{GROUP_PATH}/operations/{{operation}}", actions.order),
            web.post(f"{GROUP_PATH}/offsets/reset", actions.reset),
            web.delete(GROUP_PATH, actions.delete),
        ]
    )
    app.on_shutdown.extend((owners.close, groups.close, lists.close))
    _refuse_deep_paths(app.router)
    return app


#: No page has nearly as many slashes in its path; those in names of groups are percent-encoded.
_SLASHES_MAX: Final = 16


def _refuse_deep_paths(router: web.UrlDispatcher) -> None:
    """Have no page be looked for at each slash of a path that has thousands.

    Nothing else of ours is asked before that, and it would keep the event loop for seconds.
    """
    resolve = router.resolve

    async def bounded(request: web.Request) -> web.UrlMappingMatchInfo:
        if request.rel_url.raw_path.count("/") > _SLASHES_MAX:
            return MatchInfoError(web.HTTPNotFound())
        return await resolve(request)

    router.resolve = bounded  # type: ignore[method-assign]


class _Pages:
    def __init__(
        self, node: NodeView, elsewhere: Elsewhere, metrics: Metrics, one_at_a_time: asyncio.Lock
    ) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._others = elsewhere.others
        self._metrics = metrics
        self._one_at_a_time = one_at_a_time

    async def health(self, _request: web.Request) -> web.Response:
        """Answer as long as the event loop runs."""
        return as_json({"status": "ok"})

    async def readiness(self, request: web.Request) -> web.Response:
        """Say whether the node serves, and if not, why; so do the other workers."""
        reason = self._node.not_ready()
        siblings = self._elsewhere.asked(request, siblings=True)
        if reason is None and siblings:
            reason = await self._why_not_ready(request, siblings)
        if reason is None:
            return as_json({"status": "ready"})
        raise not_ready(reason if request[MAY_READ] else _UNTOLD)

    async def _why_not_ready(self, request: web.Request, nodes: Sequence[NodeNote]) -> str | None:
        answers = await self._others.ask_all(nodes, request, self._node.node_id)
        for node_id, answer in answers.items():
            # One that does not answer has ended, and is started again: others have its groups soon.
            if isinstance(answer, Answer) and answer.status != HTTPStatus.OK:
                return f"Node {node_id}: {answer.message}"
        unowned = self._node.unowned()
        return f"{unowned} shards are with no node just now." if unowned else None

    async def nodes(self, request: web.Request) -> web.Response:
        """Show the nodes, which shards each has, and how it is."""
        self._node.require_open()
        me, others = self._node.note(), self._node.others()
        health = await self._health(request)
        shards = self._node.shards()
        notes = sorted([*([] if me is None else [me]), *others], key=lambda note: note.node_id)
        return as_json(
            {
                "nodes": [_node(each, shards, health) for each in notes],
                "unowned_shards": self._node.unowned(),
            }
        )

    async def _health(self, request: web.Request) -> Mapping[int, str | None]:
        """Why each node does not serve, by its id; None if it does."""
        readiness = request.clone(rel_url="/readyz")
        answers = await self._others.ask_all(
            self._elsewhere.asked(request), readiness, self._node.node_id
        )
        found = {self._node.node_id: self._node.not_ready()}
        for node_id, answer in answers.items():
            if not isinstance(answer, Answer):
                found[node_id] = str(answer)
            elif answer.status == HTTPStatus.OK:
                found[node_id] = None
            else:
                found[node_id] = answer.message
        return found

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape of Prometheus."""
        async with self._one_at_a_time:
            snapshot = await self._node.snapshot()
            body, content_type = self._metrics.render(snapshot, request.headers.get("Accept", ""))
        if self._others.siblings and ASKED_BY not in request.headers:
            body = await self._of_all_workers(request, body)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _of_all_workers(self, request: web.Request, own: bytes) -> bytes:
        siblings = self._elsewhere.asked(request, siblings=True)
        answers = await self._others.ask_all(siblings, request, self._node.node_id)
        pages = {
            node_id: answer.body
            for node_id, answer in answers.items()
            if isinstance(answer, Answer)
        }
        return merge({**pages, self._node.node_id: own})


def _node(
    note: NodeNote, shards: Mapping[int, list[int]], health: Mapping[int, str | None]
) -> dict[str, Any]:
    reason = health.get(note.node_id)
    return {
        "node": note.node_id,
        "addresses": {name: str(address) for name, address in note.addresses.items()},
        "http": None if note.http is None else str(note.http),
        "shards": shards.get(note.node_id, []),
        "ready": reason is None,
        "reason": reason,
    }


#: Why a node does not serve, to those who may not read.
_UNTOLD: Final = "The node does not serve; ask with a token for reading to be told why."
