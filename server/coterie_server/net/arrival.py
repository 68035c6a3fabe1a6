"""A connection before it is served: it waits for its turn, and shakes hands if TLS is spoken.

    accept -> admitted -> waits, if too many come -> shakes hands -> Connection

What a client can make the server do before it has said who it is, is bounded here: how many
handshakes are under way, and how long each may take.  If there are too many, the oldest from the
address with the most of them is dropped, so that a flood from one address leaves others served.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any, cast, final

from coterie_server.log.logger import get_logger
from coterie_server.net.addresses import Peer
from coterie_server.net.connection import Connection
from coterie_server.net.endpoint import Endpoint, UnknownSubjectError
from coterie_server.net.stats import RefuseReason
from coterie_server.security import ANONYMOUS, Principal
from coterie_server.tls import reason_in_words

if TYPE_CHECKING:
    from coterie_server.net.registry import Registry

__all__ = ["Arrivals"]

_log = get_logger(__name__)


@final
class Arrivals:
    """The connections to a listener that are not served yet."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        #: In the order in which they came.
        self._open: dict[_Arrival, None] = {}
        self._by_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def receive(self, endpoint: Endpoint, accepted: socket.socket, peer: Peer) -> None:
        """Begin with a connection, unless there are too many."""
        registry = self.registry
        if not registry.enter(peer, endpoint):
            accepted.close()
            return
        limits = registry.limits
        wait_s = registry.admission.wait_s(registry.now(), endpoint)
        if wait_s > limits.first_byte_timeout_ms / 1000:
            rates = (limits.max_connection_creation_rate, endpoint.terms.max_creation_rate)
            registry.admission.leave(peer.address, endpoint)
            registry.note_refusal(
                RefuseReason.CREATION_RATE,
                peer,
                endpoint,
                limit=min(rates),
                wait_ms=round(wait_s * 1000),
            )
            accepted.close()
            return
        arrival = _Arrival(self, accepted, peer, endpoint, wait_s)
        self._open[arrival] = None
        self._by_address[peer.address] += 1
        registry.strangers.add(arrival, peer.address, endpoint.terms.name, arrival.make_room)
        if len(self._open) > limits.max_handshakes:
            self._drop_one(limits.max_handshakes)

    def _drop_one(self, most: int) -> None:
        address, _ = self._by_address.most_common(1)[0]
        oldest = next(each for each in self._open if each.peer.address == address)
        oldest.refuse(RefuseReason.MAX_HANDSHAKES, limit=most, found=len(self._open))
        oldest.abort()

    def keep(self, task: asyncio.Task[None]) -> None:
        """Have `close` wait for a task."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, arrival: _Arrival) -> None:
        """Count one out; whether it is served then is another matter."""
        if arrival not in self._open:
            return
        del self._open[arrival]
        self.registry.strangers.discard(arrival)
        address = arrival.peer.address
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self.registry.admission.leave(address, arrival.endpoint)

    async def close(self, timeout_s: float) -> None:
        """Drop all of them, and return when their sockets are closed."""
        for each in list(self._open):
            each.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
            await asyncio.sleep(0)  # Event loops close sockets in their next turn.


@final
class _Arrival(asyncio.Protocol):
    """One of them."""

    def __init__(
        self,
        arrivals: Arrivals,
        accepted: socket.socket,
        peer: Peer,
        endpoint: Endpoint,
        wait_s: float,
    ) -> None:
        self._arrivals, self._accepted = arrivals, accepted
        self.peer, self.endpoint = peer, endpoint
        #: Whether the socket is the event loop's.
        self._is_given_away = False
        self._is_settled = False
        #: None when it has ended: an ended task leads back here.
        self._task: asyncio.Task[None] | None
        self._task = asyncio.get_running_loop().create_task(self._begin(wait_s))
        self._task.add_done_callback(self._end)
        arrivals.keep(self._task)

    async def _begin(self, wait_s: float) -> None:
        if wait_s:
            await asyncio.sleep(wait_s)
        limits, tls = self._arrivals.registry.limits, self.endpoint.terms.tls
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl": tls.context,
                "ssl_handshake_timeout": limits.first_byte_timeout_ms / 1000,
                "ssl_shutdown_timeout": limits.close_timeout_ms / 1000,
            }
        self._is_given_away = True
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self, self._accepted, **options)
        except OSError as error:  # so are those of ssl, and timeouts
            self.refuse(RefuseReason.HANDSHAKE, why=reason_in_words(error))
        else:
            if not self._is_settled:
                self.refuse(RefuseReason.HANDSHAKE, why="the client has hung up")

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        """Have a connection take over, which counts itself in."""
        transport = cast(asyncio.Transport, made)
        if self._is_settled:
            transport.abort()
            return
        try:
            who = self._principal(transport)
        except UnknownSubjectError as error:
            self.refuse(RefuseReason.HANDSHAKE, why=str(error))
            transport.abort()
            return
        self._settle()
        connection = Connection(self._arrivals.registry, self.endpoint, who)
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def _principal(self, transport: asyncio.BaseTransport) -> Principal:
        identify, secured = self.endpoint.terms.identify, transport.get_extra_info("ssl_object")
        certificate = None if secured is None else secured.getpeercert(binary_form=True)
        return ANONYMOUS if identify is None or certificate is None else identify(certificate)

    def refuse(self, reason: RefuseReason, **told: object) -> None:
        """Note, unless it is settled already, that the client is turned away."""
        if not self._is_settled:
            self._arrivals.registry.note_refusal(reason, self.peer, self.endpoint, **told)
            self._settle()

    def make_room(self) -> None:
        """Drop the connection so that another may come in."""
        strangers = len(self._arrivals.registry.strangers)
        self.refuse(RefuseReason.MADE_ROOM, strangers=strangers)
        self.abort()

    def abort(self) -> None:
        """Drop the connection."""
        self._settle()
        if self._task is not None:
            self._task.cancel()

    def _settle(self) -> None:
        self._is_settled = True
        self._arrivals.forget(self)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._settle()
        if not self._is_given_away:
            self._accepted.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a bug: a connection could not begin", error=repr(error), exc_info=error)
