"""Lists of groups over HTTP: pages, all of them at once, and a watch of the lines that change."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, final

import aiohttp
from aiohttp import hdrs, web

from coterie_server.http.answers import json_body, not_ready
from coterie_server.http.groups import (
    KnownGroups,
    PageQuery,
    lines_of_groups,
    page_of_groups,
)
from coterie_server.http.list_watch import ListWatches
from coterie_server.http.merged_pages import merged_pages
from coterie_server.http.others import (
    ASKED_BY,
    SHARDS,
    Answer,
    NodeSilentError,
    shards_as_text,
    shards_in,
)
from coterie_server.http.streams import ALIVE_S, Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie_server.http.elsewhere import Elsewhere
    from coterie_server.http.list_watch import ListWatch
    from coterie_server.http.node_view import NodeView
    from coterie_server.serving import NodeNote

__all__ = ["GroupLists"]


@final
class GroupLists:
    """Lists the groups of all nodes."""

    def __init__(
        self,
        node: NodeView,
        elsewhere: Elsewhere,
        streams: Streams,
        groups: KnownGroups,
        one_at_a_time: asyncio.Lock,
    ) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._streams = streams
        self._groups = groups
        self._one_at_a_time = one_at_a_time
        self._watches = ListWatches(node, groups)

    async def close(self, _app: web.Application) -> None:
        """End all watches, so that their clients turn to other nodes."""
        self._watches.close()

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """List a page of the groups."""
        self._node.require_open()
        query = PageQuery.read(request.query)
        list_groups = self._list_all if query.is_lines else self._list_page
        try:
            return await list_groups(request, query, self._elsewhere.asked(request))
        except NodeSilentError as silent:  # a list that lacks some would look like a whole one
            raise not_ready(str(silent)) from silent

    async def _list_page(
        self, request: web.Request, query: PageQuery, others: Sequence[NodeNote]
    ) -> web.StreamResponse:
        page, shards = await self._own_page(query)
        if others:
            page, shards = await self._with_others(request, query, page, shards, others)
        self._require_all(request, shards)
        answer = json_body(page)
        answer.headers[SHARDS] = shards_as_text(shards)
        return answer

    async def _own_page(self, query: PageQuery) -> tuple[bytes, frozenset[int]]:
        """A page of this node's groups, and the shards that it has all of them of."""
        async with self._one_at_a_time:
            names, lives = self._node.group_names(), self._node.own_lives()
            page = await page_of_groups(names, self._groups, query)
        await self._node.confirm_all()
        return page, frozenset(shard for shard, _ in lives & self._node.own_lives())

    def _require_all(self, request: web.Request, shards: frozenset[int]) -> None:
        """Raise `Refusal` if there are shards that no node has listed."""
        unlisted, known = self._node.unlisted(shards)
        if unlisted and ASKED_BY not in request.headers:
            raise not_ready(
                f"The groups of {unlisted} of {known} shards can't be told of just now, so the list"
                " would lack them; ask again."
            )

    async def _with_others(
        self,
        request: web.Request,
        query: PageQuery,
        own: bytes,
        shards: frozenset[int],
        others: Sequence[NodeNote],
    ) -> tuple[bytes, frozenset[int]]:
        pages = [own]
        asked = self._elsewhere.others
        answers = await asked.ask_all(others, request, self._node.node_id)
        for node_id, answer in answers.items():
            if not isinstance(answer, Answer):
                raise answer
            if answer.status != HTTPStatus.OK:
                raise NodeSilentError(f"Node {node_id}: {answer.message}")
            pages.append(answer.body)
            shards |= answer.shards
        async with self._one_at_a_time:
            return await merged_pages(pages, query), shards

    async def _list_all(
        self, request: web.Request, query: PageQuery, others: Sequence[NodeNote]
    ) -> web.StreamResponse:
        """List all groups, as fast as the client reads."""
        async with AsyncExitStack() as stack:
            lists = [await self._opened(stack, request, node, is_endless=False) for node in others]
            names, own = self._node.group_names(), self._node.own_shards()
            shards = own.union(*(shards_in(each.headers) for each in lists))
            self._require_all(request, shards)
            response = web.StreamResponse(
                headers={"Content-Type": "application/x-ndjson", SHARDS: shards_as_text(shards)}
            )
            await response.prepare(request)
            if request.method == hdrs.METH_HEAD:
                return response
            with suppress(OSError, TimeoutError, aiohttp.ClientError):
                await self._list_own(response, names, query)
                is_whole = own <= self._node.own_shards()
                for each in lists:
                    async for piece in each.content.iter_any():
                        await response.write(piece)
                if is_whole:
                    await response.write_eof()
                    return response
            # The list has begun; only its abrupt end can say now that it lacks something.
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _list_own(
        self, response: web.StreamResponse, names: list[str], query: PageQuery
    ) -> None:
        pieces = lines_of_groups(names, self._groups, query)
        while True:
            # A client that reads slowly holds up no other.
            async with self._one_at_a_time:
                piece = await anext(pieces, None)
            if piece is None:
                break
            await self._node.confirm_all()
            await response.write(piece)

    # -- watching ------------------------------------------------------------------------------

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Tell the lines of groups that change, as server-sent events."""
        self._node.require_ready()
        query = PageQuery.read(request.query)
        try:
            with self._streams.admit():
                return await self._watch(request, query)
        except NodeSilentError as silent:
            raise not_ready(str(silent)) from silent

    async def _watch(self, request: web.Request, query: PageQuery) -> web.StreamResponse:
        async with AsyncExitStack() as stack:
            # It ends when a node comes; so any that comes while others are asked is noticed.
            watch = self._watches.join()
            stack.callback(self._watches.leave, watch)
            upstreams = [
                await self._opened(stack, request, node, is_endless=True)
                for node in self._elsewhere.asked(request)
            ]
            response = await self._streams.begin_dated(request)
            telling = _Telling(self._streams, watch, query, response)
            ends = [asyncio.ensure_future(telling.pass_on(each)) for each in upstreams]
            ends.append(asyncio.ensure_future(telling.own()))
            try:
                ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                why = next(iter(ended)).result()
            finally:
                for each in ends:
                    each.cancel()
                await asyncio.wait(ends)
            await self._streams.end(response, why)
        return response

    async def _opened(
        self, stack: AsyncExitStack, request: web.Request, node: NodeNote, *, is_endless: bool
    ) -> aiohttp.ClientResponse:
        opened = await self._elsewhere.others.open(
            node, request, self._node.node_id, is_endless=is_endless
        )
        stack.callback(opened.close)
        return opened


class _Telling:
    """Sends one watcher what changes here and, if this node was asked first, what others tell."""

    def __init__(
        self, streams: Streams, watch: ListWatch, query: PageQuery, response: web.StreamResponse
    ) -> None:
        self._streams, self._watch = streams, watch
        self._query, self._response = query, response

    async def own(self) -> str:
        """Send what changes here; returns why it ends."""
        changes = self._watch.changes
        place = changes.number
        while True:
            missed = changes.after(place)
            if missed is None:
                return "The watcher has missed changes; ask again."
            for number, lines in missed:
                told = b"".join(line.told(self._query) for line in lines)
                if told:
                    await self._response.write(told)
                place = number
            if changes.ended:
                return changes.ended
            if not await changes.changed(place, ALIVE_S):
                await self._streams.say_alive(self._response)

    async def pass_on(self, upstream: aiohttp.ClientResponse) -> str:
        """Send what another node tells, in whole events; returns why that ends."""
        rest = b""
        try:
            async for piece in upstream.content.iter_any():
                *whole, rest = (rest + piece).split(b"\n\n")
                told = [
                    each for each in whole if each.startswith((b"event: group", b"event: gone"))
                ]
                if told:
                    await self._response.write(b"\n\n".join(told) + b"\n\n")
        except (OSError, TimeoutError, aiohttp.ClientError):
            return "Another node can't be heard any more; ask again."
        return "Another node tells no more; ask again."
