"""Streams of server-sent events: how many there may be, and what all who watch a thing are told."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

import aiohttp
from aiohttp import web

from coterie_server.group import Refusal
from coterie_server.http.answers import error
from coterie_server.http.others import NodeSilentError, OtherNodes
from coterie_server.http.server import BoundedConnection

if TYPE_CHECKING:
    from coterie_server.http.node_view import NodeView
    from coterie_server.serving import NodeNote

__all__ = [
    "ALIVE_S",
    "WATCHERS_MAX",
    "Broadcast",
    "Streams",
    "event",
    "event_of",
    "write_in_pieces",
]

T = TypeVar("T")

WATCHERS_MAX: Final = 1000

#: How often a watcher hears of a node that has nothing to tell.
ALIVE_S: Final = 5.0
#: How many watchers are woken in one turn of the event loop.
_WOKEN_AT_ONCE: Final = 32
#: How much of an event is on its way to a watcher at a time.
_PIECE_BYTES: Final = 65_536


def event(kind: str, data: bytes) -> bytes:
    """An event; the data is JSON, which has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def event_of(kind: str, values: Mapping[str, Any]) -> bytes:
    """An event of what is not JSON yet."""
    return event(kind, json.dumps(values, separators=(",", ":")).encode())


async def write_in_pieces(response: web.StreamResponse, data: bytes) -> None:
    """Write an event that may be long, and is the same for all who watch.

    As a whole it would lie copied in the buffer of each of them who does not read.
    """
    if len(data) <= _PIECE_BYTES:
        await response.write(data)
        return
    whole = memoryview(data)
    for begin in range(0, len(data), _PIECE_BYTES):
        await response.write(whole[begin : begin + _PIECE_BYTES])


@final
class Streams:
    """Begins streams, and counts those who read them."""

    def __init__(self, node: NodeView, others: OtherNodes, watchers_max: int) -> None:
        self._node = node
        self._others = others
        self._watchers_max = watchers_max
        self._watchers = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count one more watcher, or raise `Refusal`."""
        if self._watchers >= self._watchers_max:
            raise Refusal(
                "too_many_watchers",
                f"The node has {self._watchers} watchers, and may have no more; see"
                " http.max.watchers, or ask another node.",
            )
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begin a stream."""
        connection = None if request.transport is None else request.transport.get_protocol()
        if isinstance(connection, BoundedConnection):
            connection.stay()
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # or proxies would hold events back
            }
        )
        response.force_close()
        await response.prepare(request)
        return response

    async def begin_dated(self, request: web.Request) -> web.StreamResponse:
        """Begin a stream with the node's date, by which those in it are meant."""
        response = await self.begin(request)
        await response.write(event_of("begin", {"now_ms": self._node.date_ms()}))
        return response

    async def say_alive(self, response: web.StreamResponse) -> None:
        """Let a watcher hear of the node, unless it can't tell whether it still has its groups."""
        if not self._node.not_ready():
            await response.write(b": alive\n\n")

    @staticmethod
    async def end(response: web.StreamResponse, why: str) -> None:
        """End a stream with a reason."""
        await response.write(event_of("end", {"message": why}))
        await response.write_eof()

    async def pass_on(self, request: web.Request, owner: NodeNote) -> web.StreamResponse:
        """Tell what another node tells."""
        try:
            upstream = await self._others.watch(owner, request, self._node.node_id)
        except NodeSilentError as silent:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(silent))
        with closing(upstream):
            if upstream.status != HTTPStatus.OK:
                headers = {"Content-Type": upstream.headers.get("Content-Type", "")}
                body = await upstream.read()
                return web.Response(status=upstream.status, body=body, headers=headers)
            response = await self.begin(request)
            try:
                async for piece in upstream.content.iter_any():
                    await response.write(piece)
            except (TimeoutError, aiohttp.ClientError):
                if request.transport is not None:  # its client comes anew
                    request.transport.abort()
            return response


@final
class Broadcast(Generic[T]):
    """The last entries for all who watch one thing, numbered; each has its own place in them.

    There is no buffer for any watcher: one that is too slow finds that entries are missing.
    """

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self.number = 0
        #: Why it has ended, as a sentence.
        self.ended = ""
        self._entries: deque[tuple[int, T, int]] = deque()
        self._bytes = 0
        self._waiting: list[asyncio.Future[None]] = []

    def has_all_after(self, number: int) -> bool:
        """Whether all entries after this one are kept."""
        return self.number - len(self._entries) <= number <= self.number

    def after(self, number: int) -> list[tuple[int, T]] | None:
        """The entries after this one; None if some of them are not kept any more."""
        if number == self.number:
            return []
        if not self.has_all_after(number):
            return None
        return [(at, entry) for at, entry, _ in self._entries if at > number]

    async def changed(self, after: int, timeout_s: float) -> bool:
        """Wait for an entry after this one, or the end; False if there is none in time."""
        if self.number != after or self.ended:
            return True
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout_s):
                await waiting
        except TimeoutError:
            return False
        finally:
            if not waiting.done() or waiting.cancelled():
                self._waiting = [each for each in self._waiting if each is not waiting]
        return True

    def add(self, entry: T, size_bytes: int) -> None:
        """Add an entry, and let go of the oldest where there are too many; wakes no watcher."""
        self.number += 1
        self._entries.append((self.number, entry, size_bytes))
        self._bytes += size_bytes
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._bytes -= self._entries.popleft()[2]

    async def wake(self) -> None:
        """Wake the watchers, some in each turn of the event loop, so that members are served."""
        waiting, self._waiting = self._waiting, []
        for count, each in enumerate(waiting, start=1):
            if not each.done():
                each.set_result(None)
            if count % _WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)

    def end(self, why: str) -> None:
        """Add nothing any more; the watchers learn why."""
        self.ended = self.ended or why
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
