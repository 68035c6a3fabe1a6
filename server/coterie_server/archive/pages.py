"""The console and its JSON over journals, in the words of a node's own pages."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar, final

from aiohttp import web

from coterie_server.address import Address
from coterie_server.archive.ends import GroupEnd, MemberEnd
from coterie_server.archive.journals import Journals
from coterie_server.group import no_group
from coterie_server.history import HistoryLimit, rebalance_json
from coterie_server.http.access import AllowedHosts
from coterie_server.http.answers import (
    GROUP_PATH,
    as_json,
    error,
    errors_as_json,
    json_body,
    refuse_other_hosts,
)
from coterie_server.http.console import ConsoleFacts, add_console
from coterie_server.http.groups import GroupSummary, PageQuery, write_place
from coterie_server.http.past import TOO_LONG, asked_time
from coterie_server.http.server import HttpServer
from coterie_server.past import Asked, StoppedError

__all__ = ["create_archive_app", "serve_archive"]

T = TypeVar("T")

#: A page ends with the group that makes it this long.
_PAGE_BYTES: Final = 4_194_304
#: How many unreadable lines are shown.
_EXAMPLES: Final = 20

_OVER: Final = "This is what was written down: nothing changes any more."
_LIMIT: Final = "These are the last rebalances in the journal; its time line has them all."

_dumps: Final = partial(json.dumps, separators=(",", ":"))


def create_archive_app(journals: Journals, hosts: AllowedHosts | None = None) -> web.Application:
    """The pages of journals, for browsers that ask for them by an allowed name."""
    pages = _Pages(journals)
    app = web.Application(middlewares=[errors_as_json, refuse_other_hosts(hosts or AllowedHosts())])
    add_console(app)
    app.add_routes(
        [
            web.get("/v1/console", pages.console),
            web.get("/v1/journal", pages.journal),
            web.get("/v1/groups", pages.groups),
            web.get("/v1/watch", pages.watch, allow_head=False),
            web.get(GROUP_PATH, pages.group),
            web.get(f"{GROUP_PATH}/watch", pages.watch, allow_head=False),
            web.get(f"{GROUP_PATH}/offsets", pages.offsets),
            web.get(f"{GROUP_PATH}/past", pages.past),
        ]
    )
    return app


@asynccontextmanager
async def serve_archive(journals: Journals, address: Address) -> AsyncIterator[Address]:
    """Answer there, as long as this lasts; raises `OSError` if the address can't be had."""
    server = HttpServer(create_archive_app(journals, AllowedHosts((address.host,))))
    await server.start(address.host, address.port)
    try:
        yield Address(address.host, server.port)
    finally:
        await server.close()


@final
class _Pages:
    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self._one_at_a_time = asyncio.Lock()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        async with self._one_at_a_time:
            return await asyncio.to_thread(work)

    async def console(self, _request: web.Request) -> web.Response:
        """Answer the console's first question."""
        facts = ConsoleFacts(mode="journal", node=None, actions="none", past=True, operations=())
        return facts.answer()

    async def journal(self, _request: web.Request) -> web.Response:
        """Tell what was read, and what could not be."""
        found = self._journals.scan
        nodes = [
            {"node": name, "lines": it.lines, "first_ms": it.first_ms, "last_ms": it.last_ms}
            for name, it in sorted(found.nodes.items())
        ]
        return as_json(
            {
                "files": len(found.files),
                "lines": found.lines,
                "commits": found.commits,
                "groups": len(found.names),
                "nodes": nodes,
                "missing": len(found.missing),
                "unread": found.unread,
                "torn": found.torn,
                "examples": [asdict(each) for each in found.examples[:_EXAMPLES]],
            }
        )

    async def groups(self, request: web.Request) -> web.Response:
        """List a page of the groups."""
        query = PageQuery.read(request.query)
        if query.is_lines:
            lines = await self._in_thread(lambda: self._lines(query))
            return web.Response(body=lines, content_type="application/x-ndjson")
        return json_body(await self._in_thread(lambda: self._page(query)))

    def _lines(self, query: PageQuery) -> bytes:
        names = sorted(each for each in self._journals.names() if self._is_wanted(each, query))
        return "".join(f"{self._row(each)}\n" for each in names).encode()

    def _page(self, query: PageQuery) -> bytes:
        journals, after = self._journals, query.after
        wanted = (name for name in journals.names() if self._is_wanted(name, query))
        places = (self._place(name, query.order) for name in wanted)
        shown = heapq.nsmallest(
            query.limit + 1, (each for each in places if after is None or each > after)
        )
        rows: list[str] = []
        room = _PAGE_BYTES
        for place in shown[: query.limit]:
            rows.append(self._row(str(place[-1])))
            room -= len(rows[-1])
            if room < 0:
                break
        following = write_place(shown[len(rows) - 1]) if len(rows) < len(shown) else None
        return f'{{"groups":[{",".join(rows)}],"next":{_dumps(following)}}}'.encode()

    def _is_wanted(self, name: str, query: PageQuery) -> bool:
        is_named = query.names(name)
        return is_named and (
            not query.states or self._journals.brief_end(name).state in query.states
        )

    def _place(self, name: str, order: str) -> tuple[int | str, ...]:
        started_ms, count = self._journals.rebalances(name)
        places: dict[str, tuple[int | str, ...]] = {
            "recent": (-started_ms, name),
            "flapping": (-count, -started_ms, name),
        }
        return places.get(order, (name,))

    def _row(self, name: str) -> str:
        found = self._journals.brief_end(name)
        summary = GroupSummary(
            group=name,
            state=found.state,
            generation=found.generation,
            type=found.type,
            protocol=found.protocol,
            members=len(found.members),
            partitions=found.partitions,
            last_rebalance=found.latest,
            rebalances_last_hour=self._journals.rebalances(name)[1],
        )
        return summary.json()

    async def group(self, request: web.Request) -> web.Response:
        """Show a group as the journal ends."""
        group_id = request.match_info["group"]
        if not self._journals.has(group_id):
            raise no_group(group_id)
        return json_body(await self._in_thread(lambda: self._in_full(group_id)))

    def _in_full(self, group_id: str) -> bytes:
        found = self._journals.end(group_id)
        members = [_member(found.members[name]) for name in sorted(found.members)]
        orders = [asdict(each) for each in self._journals.standing(found)]
        return _dumps({**_group(found), "operations": orders, "members": members}).encode()

    async def offsets(self, request: web.Request) -> web.Response:
        """Show no offsets: they are what a coordinator has."""
        group_id = request.match_info["group"]
        if not self._journals.has(group_id):
            raise no_group(group_id)
        return as_json({"group": group_id, "now_ms": self._journals.last_ms, "offsets": []})

    async def past(self, request: web.Request) -> web.Response:
        """Tell who owned what in a group, when, and why that changed."""
        group_id = request.match_info["group"]
        if not self._journals.has(group_id):
            raise no_group(group_id)
        until_ms = self._journals.until_ms(group_id)
        asked = Asked(group_id, *asked_time(request.query, until_ms))
        try:
            return json_body(await self._in_thread(lambda: self._journals.past(asked)))
        except StoppedError:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "too_much", TOO_LONG)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Say that nothing will happen."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event, data in (
            ("begin", {"now_ms": self._journals.last_ms}),
            ("end", {"message": _OVER}),
        ):
            await response.write(f"event: {event}\ndata: {_dumps(data)}\n\n".encode())
        await response.write_eof()
        return response


def _group(found: GroupEnd) -> dict[str, Any]:
    phases = {"PreparingRebalance": "join", "CompletingRebalance": "sync"}
    phase = phases.get(found.state)
    awaiting = {
        "phase": phase,
        "members": found.awaited,
        "unclaimed": [],
        "initial_delay": False,
        "until_ms": None,
    }
    running = found.rebalance
    return {
        "group": found.group,
        "state": found.state,
        "generation": found.generation,
        "type": found.type,
        "protocol": found.protocol,
        "node": found.node,
        "shard": None,
        "leader": found.leader,
        "offsets": None,
        "awaiting": None if phase is None else awaiting,
        "next_probing_ms": None,
        "rebalance": None if running is None else rebalance_json(running),
        "rebalances": [rebalance_json(each) for each in found.rebalances],
        "history": {"since_ms": None, "limit": HistoryLimit.KEPT, "message": _LIMIT},
    }


def _member(member: MemberEnd) -> dict[str, Any]:
    nothing = ("address", "standbys", "warming", "lags")
    return {
        **asdict(member),
        "parked": False,
        **dict.fromkeys(nothing),
        "labels": {},
        "targets": None,
    }
