"""Listening for HTTP, with bounds on connections and time.

HTTP shares the process's open files and memory with the groups' clients, so its own clients must
not be able to use them up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, cast, final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from coterie_server.frames_of_errors import without_frames
from coterie_server.group import Refusal
from coterie_server.http.answers import errors_as_json
from coterie_server.log.logger import get_logger
from coterie_server.net.acceptor import Acceptor
from coterie_server.net.addresses import Peer
from coterie_server.net.sockets import adopted, listening_sockets
from coterie_server.tls import ServerTls, reason_in_words

__all__ = ["MAX_LINE_BYTES", "BoundedConnection", "ConnectionLimit", "HttpServer", "whole_body"]

_log = get_logger(__name__)

#: The longest request line: a group's name may have 32,767 bytes, percent-encoded three times that.
MAX_LINE_BYTES: Final = 131_072

#: Each connection may hold the largest answer, some megabytes; and where a process may have few
#: open files, a hundred are set aside for everything that is not a member's connection.
_CONNECTIONS_MAX: Final = 64
#: How long a client may take to shake hands for TLS.
_HANDSHAKE_S: Final = 10.0
#: How long a request's body may take to come.
_BODY_S: Final = 30.0
#: How long a client may leave an answer unread.
_UNREAD_S: Final = 60.0
#: How long a connection may be idle, before its first request or after another: longer than a
#: scraper waits between two.
_IDLE_S: Final = 120.0
#: How long a stopping server waits for answers that are being sent.
_SHUTDOWN_S: Final = 1.0


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a log line is about more than a malformed request, whose client was told already.

    Otherwise a client that sends garbage in a loop would fill the disk with tracebacks.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    without_frames(error)  # as `_forget_frames` does, for bytes that were read late
    return False


#: What aiohttp logs to.
_aiohttp_log: Final = logging.getLogger(__name__)
_aiohttp_log.addFilter(_is_our_fault)


class HttpServer:
    """Serves an application on one address, within the running event loop."""

    def __init__(
        self,
        app: web.Application,
        limit: ConnectionLimit | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self._limit = limit or ConnectionLimit()
        self._tls = tls
        app.middlewares.insert(0, _note_request)
        # No access log: a scraper would fill it.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_aiohttp_log,
            # Stop working on an answer when its client has disconnected.
            handler_cancellation=True,
            auto_decompress=False,  # also what is refused would be unpacked, to any size
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_SHUTDOWN_S,
            max_line_size=MAX_LINE_BYTES,
        )
        self._listening: list[asyncio.AbstractServer | Acceptor] = []
        self._handshakes: list[_Handshakes] = []
        self._port = 0

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; raises `OSError` if the address is not available."""
        loop = asyncio.get_running_loop()
        try:
            sockets = await listening_sockets(loop, host, port)
        except OSError:
            await self._runner.cleanup()
            raise
        await self._serve(sockets)

    async def start_shared(self, host: str, port: int, inherited: Sequence[int] = ()) -> None:
        """Begin to listen where other processes do so as well; see `Listener.start`."""
        if inherited:
            sockets = [adopted(number) for number in inherited]
        else:
            loop = asyncio.get_running_loop()
            sockets = await listening_sockets(loop, host, port, shares_port=True)
        await self._serve(sockets)

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        factory = await self._protocol_factory()
        self._port = self._port or sockets[0].getsockname()[1]
        for each in sockets:
            if self._tls is None:
                loop = asyncio.get_running_loop()
                serving = await loop.create_server(factory, sock=each, start_serving=False)
                # Known before it begins to serve: who waits for that may be cancelled.
                self._listening.append(serving)
                await serving.start_serving()
            else:
                handshakes = _Handshakes(factory, self._tls)
                self._handshakes.append(handshakes)
                self._listening.append(Acceptor(each, handshakes.receive))

    async def _protocol_factory(self) -> Callable[[], asyncio.Protocol]:
        make = self._runner.server or await self._set_up()
        return lambda: BoundedConnection(self._limit, make)

    async def _set_up(self) -> web.Server:
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise AssertionError("a runner without a server was set up")
        # Some errors are raised before any middleware is called, as for an unknown `Expect`.
        server.request_handler = partial(errors_as_json, handler=server.request_handler)
        return server

    @property
    def port(self) -> int:
        """The port it listens on first; the one the system chose if it was asked for port 0."""
        return self._port

    async def close(self) -> None:
        """Stop listening and close all connections."""
        for each in self._listening:
            each.close()
        for handshakes in self._handshakes:
            await handshakes.close()
        await self._runner.cleanup()


@final
class _Handshakes:
    """The connections that are not served yet, since they shake hands for TLS."""

    def __init__(self, factory: Callable[[], asyncio.Protocol], tls: ServerTls) -> None:
        self._factory, self._tls = factory, tls
        #: Those that are not dropped, in the order in which they began.
        self._running: dict[asyncio.Task[None], None] = {}
        #: With those that are, which end in the event loop's next turns.
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, accepted: socket.socket, peer: Peer) -> None:
        """Begin one; if there are too many, drop the oldest."""
        if len(self._running) >= _CONNECTIONS_MAX:
            self._drop(next(iter(self._running)))
        own = [accepted]
        task = asyncio.get_running_loop().create_task(self._shake_hands(own, peer))
        self._running[task] = None
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._end(ended, own))

    def _drop(self, task: asyncio.Task[None]) -> None:
        """Count one out at once: many may come before it has ended."""
        del self._running[task]
        task.cancel()

    async def close(self) -> None:
        """Drop all of them, and return when their sockets are closed."""
        for each in list(self._running):
            self._drop(each)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SHUTDOWN_S)
            await asyncio.sleep(0)  # Event loops close sockets in their next turn.

    def _end(self, task: asyncio.Task[None], own: list[socket.socket]) -> None:
        """Forget one; its socket is still its own if it was dropped before it began."""
        self._running.pop(task, None)
        self._tasks.discard(task)
        for each in own:
            each.close()

    async def _shake_hands(self, own: list[socket.socket], peer: Peer) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory,
                own.pop(),
                ssl=self._tls.context,
                ssl_handshake_timeout=_HANDSHAKE_S,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError as error:  # so are those of ssl, and timeouts
            _log.debug("no HTTPS with a client", peer=str(peer), why=reason_in_words(error))


@web.middleware
async def _note_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Have a connection know that it has a request to answer."""
    with _marked(request, is_answering=True):
        return await handler(request)


async def whole_body(request: web.Request) -> bytes:
    """The body of a request; until all of it has come, its connection has nothing to answer.

    Raises `Refusal` if that takes too long: the client may be gone without a word.
    """
    try:
        with _marked(request, is_answering=False):
            async with asyncio.timeout(_BODY_S):
                return await request.read()
    except TimeoutError:
        message = f"The body has not come within {_BODY_S:g} s."
        raise Refusal("request_timeout", message) from None


@contextlib.contextmanager
def _marked(request: web.Request, *, is_answering: bool) -> Iterator[None]:
    """Note whether a request's connection has something to answer for as long as this lasts."""
    connection = None if request.transport is None else request.transport.get_protocol()
    if not isinstance(connection, BoundedConnection):
        yield
        return
    before, connection.is_answering = connection.is_answering, is_answering
    try:
        yield
    finally:
        connection.is_answering = before


class ConnectionLimit:
    """Counts the open HTTP connections, and says how many there may be.

    Where there are too many, one that has nothing to answer makes room, or clients that send
    nothing, or never finish a request, would shut out scrapers and probes.
    """

    def __init__(self, most: int = _CONNECTIONS_MAX, unread_s: float = _UNREAD_S) -> None:
        self._most = most
        #: How long a client may leave an answer unread.
        self.unread_s: Final = unread_s
        #: In the order in which they came.
        self._open: dict[BoundedConnection, None] = {}
        self._was_logged = False

    def admit(self, connection: BoundedConnection) -> bool:
        """Count a new connection, or return False if it is one too many."""
        if len(self._open) >= self._most and not self._make_room():
            if not self._was_logged:
                self._was_logged = True
                _log.warning("HTTP connections refused", limit=self._most)
            return False
        self._open[connection] = None
        return True

    def _make_room(self) -> bool:
        """Drop the oldest idle one from the address with the most of them."""
        idle = [each for each in self._open if not each.is_busy]
        counts = Counter(each.address for each in idle)
        oldest = max(idle, key=lambda each: counts[each.address], default=None)
        if oldest is None:
            return False
        oldest.drop()
        return True

    def forget(self, connection: BoundedConnection) -> None:
        """Make room: a connection has ended."""
        self._open.pop(connection, None)
        # Logged again only after half of them have gone: once for each crowd.
        self._was_logged = self._was_logged and len(self._open) > self._most // 2


@final
class BoundedConnection(asyncio.Protocol):
    """Stands in front of the protocol that serves a connection.

    It closes a connection for which there is no room, and one whose client does not read.
    """

    _served: asyncio.Protocol

    def __init__(self, limit: ConnectionLimit, make: Callable[[], asyncio.Protocol]) -> None:
        self._limit = limit
        #: Makes that protocol, for a connection that is admitted.
        self._make = make
        #: None before the connection was admitted, and after it has ended.
        self._transport: asyncio.Transport | None = None
        self._unread: asyncio.TimerHandle | None = None
        #: Whether an answer is being made, to a request that has come as a whole.
        self.is_answering = False
        self.address = ""

    @property
    def is_busy(self) -> bool:
        """Whether it has a whole request, or an answer that its client is still to read."""
        return self.is_answering or self._unread is not None

    def stay(self) -> None:
        """Be counted no longer: its answer has no end, and is bounded elsewhere."""
        self._limit.forget(self)

    def drop(self) -> None:
        """Close it, and give up its place at once."""
        if self._transport is not None:
            self._transport.abort()
        self._limit.forget(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or close it."""
        opened = cast(asyncio.Transport, transport)
        if peername := opened.get_extra_info("peername"):  # none if it is gone already
            self.address = peername[0]
        if not self._limit.admit(self):
            opened.abort()
            return
        self._transport, self._served = opened, self._make()
        self._served.connection_made(opened)

    def data_received(self, data: bytes) -> None:
        """Pass on bytes of a request."""
        if self._transport is not None:
            self._served.data_received(data)
            _forget_frames(self._served)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends nothing more."""
        return None if self._transport is None else self._served.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another connection."""
        self._stop_timer()
        if self._transport is not None:
            self._transport = None
            self._limit.forget(self)
            self._served.connection_lost(exc)

    def pause_writing(self) -> None:
        """Close the connection unless its client reads the answer in time."""
        if self._transport is not None:
            loop = asyncio.get_running_loop()
            self._unread = loop.call_later(self._limit.unread_s, self._transport.abort)
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stop_timer()
        if self._transport is not None:
            self._served.resume_writing()

    def _stop_timer(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _forget_frames(served: asyncio.Protocol) -> None:
    """Have errors about what came keep nothing else of it.

    aiohttp keeps an error in the place of a request that can't be read.  The frames in which it was
    raised have what came, and the error again, so only the garbage collector would free that.
    """
    for message, _ in getattr(served, "_messages", ()):
        if isinstance(error := getattr(message, "exc", None), BaseException):
            without_frames(error)
