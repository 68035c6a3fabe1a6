"""The HTTP pages: health, metrics, groups, and forcing a rebalance."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import CAUSES
from coterie_server.backfill import Backfill
from coterie_server.group import Refusal
from coterie_server.history import Beginning, HistoryLimit, RebalanceRecord
from coterie_server.http.access import AllowedHosts, is_cross_site
from coterie_server.http.groups import (
    PageQuery,
    QueryError,
    group_in_full,
    lines_of_groups,
    page_of_groups,
)
from coterie_server.http.node_view import NodeView
from coterie_server.log.logger import get_logger
from coterie_server.metrics import Metrics

__all__ = ["create_app"]

_log = get_logger(__name__)

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Probes and scrapers ask by the name of a service, whatever that is, and what they see is not
#: secret: whether the node is well, and numbers without the names of groups or members.
_BY_ANY_NAME: Final = frozenset({"/healthz", "/readyz", "/metrics"})

_dumps: Final = partial(json.dumps, separators=(",", ":"))


def create_app(
    node: NodeView, backfill: Backfill, metrics: Metrics, hosts: AllowedHosts | None = None
) -> web.Application:
    """The pages of a node, for clients that ask for it by an allowed name."""
    pages = _Pages(node, backfill, metrics)
    app = web.Application(
        middlewares=[_errors_as_json, _refuse_other_hosts(hosts or AllowedHosts())]
    )
    app.add_routes(
        [
            web.get("/healthz", pages.health),
            web.get("/readyz", pages.readiness),
            web.get("/metrics", pages.metrics),
            web.get("/v1/groups", pages.groups),
            web.get("/v1/groups/{group}", pages.group),
            web.post("/v1/groups/{group}/rebalance", pages.force_rebalance),
        ]
    )
    return app


class _Pages:
    def __init__(self, node: NodeView, backfill: Backfill, metrics: Metrics) -> None:
        self._node = node
        self._backfill = backfill
        self._history = backfill.history
        self._metrics = metrics
        #: An answer is made in short pieces, so that members are served in between; many answers at
        #: once would make many pieces before a member's turn comes.
        self._one_at_a_time = asyncio.Lock()

    async def health(self, _request: web.Request) -> web.Response:
        """Answer as long as the event loop runs."""
        return _json({"status": "ok"})

    async def readiness(self, _request: web.Request) -> web.Response:
        """Say whether the node serves, and if not, why."""
        reason = self._node.not_ready()
        return _json({"status": "ready"}) if reason is None else _not_ready(reason)

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape of Prometheus."""
        async with self._one_at_a_time:
            snapshot = await self._node.snapshot()
            body, content_type = self._metrics.render(snapshot, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """List a page of the groups."""
        if not self._node.is_open:
            return _not_ready(self._node.not_ready() or "")
        try:
            query = PageQuery.read(request.query)
        except QueryError as error:
            return _error(HTTPStatus.BAD_REQUEST, "bad_request", str(error))
        if query.is_lines:
            return await self._stream(request, query)
        async with self._one_at_a_time:
            names = self._node.group_names()
            return _json_body(await page_of_groups(names, self._node.find, query))

    async def _stream(self, request: web.Request, query: PageQuery) -> web.StreamResponse:
        """List all groups, as fast as the client reads."""
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
        await response.write_eof()
        return response

    async def group(self, request: web.Request) -> web.Response:
        """Show a group and its last rebalances."""
        if not self._node.is_open:
            return _not_ready(self._node.not_ready() or "")
        group_id = request.match_info["group"]
        group = self._node.find(group_id)
        if group is None:
            return _no_group(group_id)
        beginning = await self._backfill.look_up(group_id, group.generation)
        async with self._one_at_a_time:
            return await self._show(group_id, beginning)

    async def _show(self, group_id: str, beginning: Beginning) -> web.Response:
        group = await self._node.group(group_id)
        if group is None:
            return _no_group(group_id)
        running = self._history.running(group_id)
        more = {
            "rebalance": None if running is None else _rebalance(running),
            "rebalances": [_rebalance(each) for each in self._history.last(group_id)],
            "history": {
                "since_ms": beginning.since_ms,
                "limit": beginning.limit,
                "message": _LIMITS[beginning.limit],
            },
        }
        return _json_body(await group_in_full(group, more))

    async def force_rebalance(self, request: web.Request) -> web.Response:
        """Start a rebalance of a group of static members."""
        if is_cross_site(request.headers.get("Origin"), request.host):
            message = "A web page of another site may not start a rebalance."
            return _error(HTTPStatus.FORBIDDEN, "foreign_origin", message)
        reason = self._node.not_ready()
        if reason is not None:
            return _not_ready(reason)
        try:
            group = await self._node.force_rebalance(request.match_info["group"])
        except Refusal as refusal:
            return _refused(refusal)
        except CoterieError as error:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(error))
        async with self._one_at_a_time:
            return _json_body(await group_in_full(group, {}))


def _rebalance(rebalance: RebalanceRecord) -> dict[str, Any]:
    values = dataclasses.asdict(rebalance)
    for late in values["late"]:
        late["host"] = late["host"].lstrip("/")
    stopped_ms = values.pop("stopped_partition_ms")
    del values["group"]
    return values | {
        "because": CAUSES.get(rebalance.cause, rebalance.cause),
        "prepare_ms": rebalance.prepare_ms,
        "complete_ms": rebalance.complete_ms,
        "total_ms": rebalance.total_ms,
        "stopped_partition_seconds": None if stopped_ms is None else stopped_ms / 1000,
    }


#: Why no earlier rebalances are shown.
_LIMITS: Final[Mapping[HistoryLimit, str]] = {
    HistoryLimit.COMPLETE: "These are all rebalances of the group.",
    HistoryLimit.KEPT: "A node keeps the last few rebalances of a group; the journal has the rest.",
    HistoryLimit.JOURNAL: "The node's journal goes back no further.",
    HistoryLimit.READ_BACK: "The node reads only the end of its journal; the rest is in its files.",
    HistoryLimit.UNREADABLE: "The node's journal can't be read; the node's log says why.",
    HistoryLimit.READING: "The node is still reading its journal; ask again.",
    HistoryLimit.NO_JOURNAL: "The node keeps no journal, so this is all since it started.",
}


# -- answers -----------------------------------------------------------------------------------


def _json(values: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.json_response(values, status=status, dumps=_dumps)


def _json_body(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json", charset="utf-8")


def _error(status: HTTPStatus, name: str, message: str) -> web.Response:
    return _json({"error": name, "message": message}, status)


def _not_ready(reason: str) -> web.Response:
    return _error(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", reason)


#: The status of some refusals; any other is a conflict with the state that the group is in.
_REFUSALS: Final[Mapping[str, HTTPStatus]] = {
    "group_not_found": HTTPStatus.NOT_FOUND,
    "not_available": HTTPStatus.SERVICE_UNAVAILABLE,
}


def _no_group(group_id: str) -> web.Response:
    return _refused(Refusal("group_not_found", f"There is no group {group_id!r} here."))


def _refused(refusal: Refusal) -> web.Response:
    status = _REFUSALS.get(refusal.name, HTTPStatus.CONFLICT)
    return _error(status, refusal.name, str(refusal))


def _refuse_other_hosts(hosts: AllowedHosts) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: _Page) -> web.StreamResponse:
        host = request.headers.get("Host")
        if request.path in _BY_ANY_NAME or hosts.allow(host):
            return await handler(request)
        message = (
            f"{host!r} is not a name of this node. Ask by its IP address, or add the name to the"
            " setting http.allowed.hosts."
        )
        return _error(HTTPStatus.FORBIDDEN, "unknown_host", message)

    return check


@web.middleware
async def _errors_as_json(request: web.Request, handler: _Page) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.path} does not allow {request.method}, only {allowed}."
        answer = _error(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", message)
        answer.headers["Allow"] = allowed
        return answer
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        name = status.name.lower()
        return _error(status, name, f"{request.method} {request.path}: {status.phrase}.")
    except Exception:  # noqa: BLE001  # whatever it is, the client gets an answer
        _log.exception("HTTP request failed", path=request.path)
        message = "The request failed because of a fault in the node; its log has the details."
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", message)
