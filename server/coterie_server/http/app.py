"""The HTTP pages: health, metrics, groups, and forcing a rebalance."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from aiohttp import web
from aiohttp.web_urldispatcher import MatchInfoError

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import CAUSES
from coterie_server.backfill import Backfill
from coterie_server.group import Refusal
from coterie_server.history import Beginning, HistoryLimit, RebalanceRecord
from coterie_server.http.access import AllowedHosts, is_cross_site
from coterie_server.http.answers import (
    as_json,
    error,
    errors_as_json,
    json_body,
    no_group,
    not_ready,
    refuse_other_hosts,
    refused,
)
from coterie_server.http.groups import (
    PageQuery,
    QueryError,
    group_in_full,
    lines_of_groups,
    merged_pages,
    page_of_groups,
)
from coterie_server.http.node_view import NodeView
from coterie_server.http.others import ASKED_BY, Answer, NodeSilentError, OtherNodes
from coterie_server.http.owners import WATCHERS_MAX, OwnerPages
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
    pages = _Pages(node, backfill, metrics, others or OtherNodes())
    owners = pages.owner_pages(watchers_max)
    app = web.Application(
        middlewares=[
            errors_as_json,
            refuse_other_hosts(hosts or AllowedHosts()),
            require_token(tokens or Tokens()),
        ]
    )
    app.add_routes(
        [
            web.get("/healthz", pages.health),
            web.get("/readyz", pages.readiness),
            web.get("/metrics", pages.metrics),
            web.get("/v1/nodes", pages.nodes),
            web.get("/v1/groups", pages.groups),
            web.get("/v1/groups/{group}", pages.group),
            web.get("/v1/groups/{group}/owners", owners.owners),
            web.get("/v1/groups/{group}/owners/watch", owners.watch, allow_head=False),
            web.post("/v1/groups/{group}/rebalance", pages.force_rebalance),
        ]
    )
    app.on_shutdown.append(owners.close)
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
        self, node: NodeView, backfill: Backfill, metrics: Metrics, others: OtherNodes
    ) -> None:
        self._node = node
        self._others = others
        self._backfill = backfill
        self._history = backfill.history
        self._metrics = metrics
        #: An answer is made in short pieces, so that members are served in between; many answers at
        #: once would make many pieces before a member's turn comes.
        self._one_at_a_time = asyncio.Lock()

    def owner_pages(self, watchers_max: int) -> OwnerPages:
        """The pages that say who owns what."""
        return OwnerPages(
            self._node, self._others, self._from_its_node, self._one_at_a_time, watchers_max
        )

    async def health(self, _request: web.Request) -> web.Response:
        """Answer as long as the event loop runs."""
        return as_json({"status": "ok"})

    async def readiness(self, request: web.Request) -> web.Response:
        """Say whether the node serves, and if not, why; so do the other workers."""
        reason = self._node.not_ready()
        siblings = self._asked(request, siblings=True)
        if reason is None and siblings:
            reason = await self._why_not_ready(request, siblings)
        if reason is None:
            return as_json({"status": "ready"})
        return not_ready(reason if request[MAY_READ] else _UNTOLD)

    async def _why_not_ready(self, request: web.Request, nodes: Sequence[NodeNote]) -> str | None:
        answers = await self._others.ask_all(nodes, request, self._node.node_id)
        for node_id, answer in answers.items():
            # One that does not answer has ended, and is started again: others have its groups soon.
            if isinstance(answer, Answer) and answer.status != HTTPStatus.OK:
                return f"Node {node_id}: {json.loads(answer.body)['message']}"
        unowned = self._node.unowned()
        return f"{unowned} shards are with no node just now." if unowned else None

    def _asked(self, request: web.Request, *, siblings: bool = False) -> list[NodeNote]:
        """The other nodes, or other workers, that are to be asked as well."""
        if ASKED_BY in request.headers:
            return []
        among = self._others.siblings
        return [each for each in self._node.others() if not siblings or each.node_id in among]

    async def nodes(self, request: web.Request) -> web.Response:
        """Show the nodes, which shards each has, and how it is."""
        if not self._node.is_open:
            return not_ready(self._node.not_ready() or "")
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
        answers = await self._others.ask_all(self._asked(request), readiness, self._node.node_id)
        found = {self._node.node_id: self._node.not_ready()}
        for node_id, answer in answers.items():
            if not isinstance(answer, Answer):
                found[node_id] = str(answer)
            elif answer.status == HTTPStatus.OK:
                found[node_id] = None
            else:
                found[node_id] = str(json.loads(answer.body)["message"])
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
        siblings = self._asked(request, siblings=True)
        answers = await self._others.ask_all(siblings, request, self._node.node_id)
        pages = {
            node_id: answer.body
            for node_id, answer in answers.items()
            if isinstance(answer, Answer)
        }
        return merge({**pages, self._node.node_id: own})

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """List a page of the groups."""
        if not self._node.is_open:
            return not_ready(self._node.not_ready() or "")
        try:
            query = PageQuery.read(request.query)
        except QueryError as problem:
            return error(HTTPStatus.BAD_REQUEST, "bad_request", str(problem))
        others = self._asked(request)
        try:
            if query.is_lines:
                return await self._stream(request, query, others)
            async with self._one_at_a_time:
                page = await page_of_groups(self._node.group_names(), self._node.find, query)
            if others:
                page = await self._with_others(request, query, page, others)
            return json_body(page)
        except NodeSilentError as silent:  # a list that lacks some would look like a whole one
            return not_ready(str(silent))

    async def _with_others(
        self, request: web.Request, query: PageQuery, own: bytes, others: Sequence[NodeNote]
    ) -> bytes:
        pages = [own]
        answers = await self._others.ask_all(others, request, self._node.node_id)
        for node_id, answer in answers.items():
            if isinstance(answer, NodeSilentError):
                raise answer
            if answer.status != HTTPStatus.OK:
                raise NodeSilentError(f"Node {node_id} answers {answer.status}.")
            pages.append(answer.body)
        return merged_pages(pages, query.limit)

    async def _stream(
        self, request: web.Request, query: PageQuery, others: Sequence[NodeNote]
    ) -> web.StreamResponse:
        """List all groups, as fast as the client reads."""
        async with AsyncExitStack() as stack:
            lists: list[aiohttp.ClientResponse] = []
            for node in others:
                opened = await self._others.open(node, request, self._node.node_id)
                stack.callback(opened.close)
                lists.append(opened)
            response = await self._stream_own(request, query)
            try:
                for each in lists:
                    async for piece in each.content.iter_any():
                        await response.write(piece)
            except (OSError, TimeoutError, aiohttp.ClientError):
                # The list has begun; only its abrupt end can say now that it lacks something.
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write_eof()
        return response

    async def _stream_own(self, request: web.Request, query: PageQuery) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        pieces = lines_of_groups(self._node.group_names(), self._node.find, query)
        while True:
            # A client that reads slowly holds up no other.
            async with self._one_at_a_time:
                piece = await anext(pieces, None)
            if piece is None:
                break
            await response.write(piece)
        return response

    async def group(self, request: web.Request) -> web.Response:
        """Show a group and its last rebalances."""
        if not self._node.is_open:
            return not_ready(self._node.not_ready() or "")
        group_id = request.match_info["group"]
        elsewhere = await self._from_its_node(request, group_id)
        if elsewhere is not None:
            return elsewhere
        group = self._node.find(group_id)
        if group is None:
            return no_group(group_id)
        taken_over_ms = self._node.taken_over_ms(group_id)
        if taken_over_ms is None:
            beginning = await self._backfill.look_up(group_id, group.generation)
        else:  # what this node knows from before that has gaps
            beginning = Beginning(taken_over_ms, HistoryLimit.TAKEN_OVER)
        async with self._one_at_a_time:
            return await self._show(group_id, beginning)

    async def _from_its_node(self, request: web.Request, group_id: str) -> web.Response | None:
        """The answer about a group that another node has; None if it is to be found here."""
        owner = self._node.elsewhere(group_id)
        if owner is None:
            reason = self._node.not_shown(group_id)
            return None if reason is None else not_ready(reason)
        if ASKED_BY in request.headers:  # by a node that knows less
            return not_ready(f"Node {owner.node_id} has the group {group_id!r} now; ask again.")
        try:
            answer = await self._others.ask(owner, request, self._node.node_id)
        except NodeSilentError as silent:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(silent))
        return web.Response(
            status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type}
        )

    async def _show(self, group_id: str, beginning: Beginning) -> web.Response:
        group = await self._node.group(group_id)
        if group is None:
            return no_group(group_id)
        running = self._history.running(group_id)
        more = {
            "node": self._node.node_id,
            "shard": self._node.shard_of(group_id),
            "rebalance": None if running is None else _rebalance(running),
            "rebalances": [
                _rebalance(each)
                for each in self._history.last(group_id)
                if beginning.limit is not HistoryLimit.TAKEN_OVER
                or each.started_ms >= (beginning.since_ms or 0)
            ],
            "history": {
                "since_ms": beginning.since_ms,
                "limit": beginning.limit,
                "message": _LIMITS[beginning.limit],
            },
        }
        return json_body(await group_in_full(group, more))

    async def force_rebalance(self, request: web.Request) -> web.Response:
        """Start a rebalance of a group of static members."""
        if is_cross_site(request.headers.get("Origin"), request.host):
            message = "A web page of another site may not start a rebalance."
            return error(HTTPStatus.FORBIDDEN, "foreign_origin", message)
        reason = self._node.not_ready()
        if reason is not None:
            return not_ready(reason)
        elsewhere = await self._from_its_node(request, request.match_info["group"])
        if elsewhere is not None:
            return elsewhere
        try:
            group = await self._node.force_rebalance(request.match_info["group"])
        except Refusal as refusal:
            return refused(refusal)
        except CoterieError as problem:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(problem))
        async with self._one_at_a_time:
            return json_body(await group_in_full(group, {}))


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


def _rebalance(rebalance: RebalanceRecord) -> dict[str, Any]:
    values = dataclasses.asdict(rebalance)
    for late in values["late"]:
        late["host"] = late["host"].lstrip("/")
    stopped_ms, silent_ms = (values.pop(f"{name}_partition_ms") for name in ("stopped", "silent"))
    del values["group"]
    return values | {
        "because": CAUSES.get(rebalance.cause, rebalance.cause),
        "prepare_ms": rebalance.prepare_ms,
        "complete_ms": rebalance.complete_ms,
        "total_ms": rebalance.total_ms,
        "stopped_partition_seconds": None if stopped_ms is None else stopped_ms / 1000,
        "silent_partition_seconds": None if silent_ms is None else silent_ms / 1000,
    }


#: Why a node does not serve, to those who may not read.
_UNTOLD: Final = "The node does not serve; ask with a token for reading to be told why."

#: Why no earlier rebalances are shown.
_LIMITS: Final[Mapping[HistoryLimit, str]] = {
    HistoryLimit.COMPLETE: "These are all rebalances of the group.",
    HistoryLimit.KEPT: "A node keeps the last few rebalances of a group; the journal has the rest.",
    HistoryLimit.JOURNAL: "The node's journal goes back no further.",
    HistoryLimit.READ_BACK: "The node reads only the end of its journal; the rest is in its files.",
    HistoryLimit.UNREADABLE: "The node's journal can't be read; the node's log says why.",
    HistoryLimit.READING: "The node is still reading its journal; ask again.",
    HistoryLimit.NO_JOURNAL: "The node keeps no journal, so this is all since it started.",
    HistoryLimit.TAKEN_OVER: "Another node coordinated the group before; its journal has the rest.",
}
