"""The listening sockets, and the life of all that comes in through them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from coterie_protocol import ApiKey
from coterie_server.address import Address
from coterie_server.log.logger import get_logger
from coterie_server.net.acceptor import Acceptor
from coterie_server.net.arrival import Arrivals
from coterie_server.net.connection import Connection
from coterie_server.net.endpoint import DEFAULT_TERMS, Endpoint, Terms
from coterie_server.net.exchange import Handler, OnReply
from coterie_server.net.fast_path import FastAnswer
from coterie_server.net.limits import UNLIMITED, Limits
from coterie_server.net.registry import Registry
from coterie_server.net.sockets import BACKLOG, adopted, listening_sockets
from coterie_server.net.stats import NetStats

__all__ = ["Listener"]

_log = get_logger(__name__)

#: How long to wait for what cannot take long: the end of connections that were dropped.
_ABORT_TIMEOUT_S: Final = 1.0

#: A sweep that comes this late was held up by more than the turns of the loop before it.
_LATE_S: Final = 0.5


_Server = asyncio.AbstractServer | Acceptor


class Listener:
    """Accepts connections, under one set of limits, and hands their requests to one handler.

    It is made on the event loop that it belongs to. `start` it once for each named listener of
    the server, with where its clients are told to connect, then `close` it; in between
    `stop_accepting` gives the handler time to answer what is parked.
    All limits of time are looked after at one interval, so each can be exceeded by as much.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits | None = None,
        *,
        now: Callable[[], float] | None = None,
        on_reply: OnReply | None = None,
        at_once: Mapping[ApiKey, FastAnswer] | None = None,
        sweep_interval_s: float = 1.0,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._registry = Registry(
            handler,
            limits or Limits(),
            now=now or self._loop.time,
            call_soon=self._loop.call_soon,
            on_reply=on_reply,
            at_once=at_once,
        )
        self._arrivals = Arrivals(self._registry)
        self._servers: list[_Server] = []
        self._addresses: list[tuple[str, int]] = []
        self._sweep_interval_s = sweep_interval_s
        self._skips = False
        self._sweep_at_s = self._loop.time() + sweep_interval_s
        self._timer = self._loop.call_later(sweep_interval_s, self._sweep_again)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses listened on, with the ports that port 0 became."""
        return tuple(self._addresses)

    async def start(
        self,
        host: str,
        port: int,
        *,
        advertise: Address | None = None,
        terms: Terms = DEFAULT_TERMS,
        shares_port: bool = False,
        inherited: Sequence[int] = (),
    ) -> Address:
        """Listen on all addresses of a host, and return the host with the port that port 0 became.

        Those who connect are told to connect to `advertise`, or to where it listens; port 0 there
        is the port listened on. No host stands for every address of this machine. Raises `OSError`
        if one of the addresses cannot be had, and then listens on none.

        With `shares_port`, other processes may listen there as well, and the system gives each of
        them some of the connections.  Where they were opened by another process, `inherited` has
        the numbers of the sockets.
        """
        if inherited:
            opened = [adopted(number) for number in inherited]
        else:
            opened = await listening_sockets(self._loop, host, port, shares_port=shares_port)
        bound = Address(host, opened[0].getsockname()[1])
        advertised = bound if advertise is None else advertise
        endpoint = Endpoint(Address(advertised.host, advertised.port or bound.port), terms)
        for listening in opened:
            await self._serve(listening, endpoint)
            address = listening.getsockname()[:2]
            self._addresses.append(address)
            _log.info(
                "listening",
                listener=terms.name,
                address=str(Address(*address)),
                advertised=str(endpoint.advertised),
                protocol=str(terms.protocol),
            )
        return bound

    async def _serve(self, listening: socket.socket, endpoint: Endpoint) -> None:
        registry, terms = self._registry, endpoint.terms
        rates = (registry.limits.max_connection_creation_rate, terms.max_creation_rate)
        if terms.tls is not None or min(rates) < UNLIMITED:
            listening.listen(BACKLOG)
            self._servers.append(Acceptor(listening, partial(self._arrivals.receive, endpoint)))
            return
        server = await self._loop.create_server(
            lambda: Connection(registry, endpoint),
            sock=listening,
            backlog=BACKLOG,
            start_serving=False,
        )
        # Known before it begins to serve: who waits for that may be cancelled.
        self._servers.append(server)
        await server.start_serving()

    def members(self, joined_within_s: float) -> int:
        """How many connections have members that take this node for their coordinator.

        Those on which they have joined count for so long, unless they hear from them again.
        """
        return self._registry.members(joined_within_s)

    def stop_accepting(self) -> None:
        """Listen no more; connections at hand carry on."""
        for server in self._servers:
            server.close()
        self._registry.refuse_all()

    async def close(self, grace_s: float) -> None:
        """Stop accepting, let the answers that are due go out for so long, then drop the rest.

        Nothing more is read. A connection closes as soon as its requests are answered and sent.
        """
        self.stop_accepting()
        await self._arrivals.close(_ABORT_TIMEOUT_S)
        self._registry.stop()
        await self._until_empty(grace_s)
        self._timer.cancel()
        if len(self._registry):
            _log.warning("dropping connections", connections=len(self._registry), grace_s=grace_s)
            self._registry.abort()
            await self._until_empty(_ABORT_TIMEOUT_S)
        with contextlib.suppress(TimeoutError):
            # Newer Pythons wait here for clients that are still shaking hands, too.
            async with asyncio.timeout(_ABORT_TIMEOUT_S):
                for each in self._servers:
                    if isinstance(each, asyncio.AbstractServer):
                        await each.wait_closed()

    def sweep(self) -> None:
        """Look after all limits of time now, as happens at every interval."""
        self._registry.sweep()

    def stats(self) -> NetStats:
        """The counts as they are now."""
        return self._registry.stats()

    def _sweep_again(self) -> None:
        late_s = self._loop.time() - self._sweep_at_s
        self._sweep_at_s = self._loop.time() + self._sweep_interval_s
        self._timer = self._loop.call_later(self._sweep_interval_s, self._sweep_again)
        # After a pause of this process, what has arrived is read before connections are closed.
        # One sweep is enough for that; a loop that is always late has to close them as well.
        self._skips = late_s > _LATE_S and not self._skips
        if not self._skips:
            self._registry.sweep()

    async def _until_empty(self, timeout_s: float) -> None:
        if not len(self._registry):
            return
        empty = asyncio.Event()
        self._registry.on_empty = empty.set
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await empty.wait()
