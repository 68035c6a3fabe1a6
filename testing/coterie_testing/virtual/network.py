"""A network that can do to connections what happens to TCP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVarTuple, Unpack

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual.conditions import RETRY_S, Conditions, NetworkOptions
from coterie_testing.virtual.process import Dial, MakeProtocol, Process
from coterie_testing.virtual.scheduler import Scheduler
from coterie_testing.virtual.transport import VirtualTransport

__all__ = ["Network"]

Ts = TypeVarTuple("Ts")


class Network:
    """Connects virtual processes."""

    def __init__(self, scheduler: Scheduler, options: NetworkOptions | None = None) -> None:
        self.scheduler = scheduler
        #: Change them at any time; open connections go by them as well.
        self.conditions = Conditions(scheduler, options)
        self._listeners: dict[NodeAddress, tuple[Process, MakeProtocol]] = {}
        self._links: list[tuple[VirtualTransport, VirtualTransport]] = []
        self._ports = 40_000

    # -- processes -----------------------------------------------------------------------------

    def listen(self, process: Process, address: NodeAddress, make: MakeProtocol) -> None:
        """Accept connections at an address for as long as the process lives."""
        self._listeners[address] = (process, make)
        process.on_death.append(partial(self._unlisten, address, process))
        self._notice_death(process)

    def dialler(self, process: Process) -> Dial:
        """The `dial` function of a process, as `coterie_client` takes it."""
        self._notice_death(process)

        async def dial(
            make: MakeProtocol, address: NodeAddress, tls: ssl.SSLContext | None
        ) -> VirtualTransport:
            assert tls is None, "the virtual network has no TLS"
            return await self._connect(process, make, address)

        return dial

    def _notice_death(self, process: Process) -> None:
        process.on_death.append(partial(self._process_died, process))

    def _unlisten(self, address: NodeAddress, process: Process) -> None:
        found = self._listeners.get(address)
        if found is not None and found[0] is process:
            del self._listeners[address]

    async def _connect(
        self, process: Process, make: MakeProtocol, address: NodeAddress
    ) -> VirtualTransport:
        """Shake hands, which takes a round trip."""
        answer: asyncio.Future[VirtualTransport] = process.create_future()
        self._ports += 1
        here = NodeAddress(process.host, self._ports)
        self.scheduler.after(
            self.conditions.travel_s(), self._arrive, process, make, here, address, answer
        )
        return await answer

    def _arrive(
        self,
        process: Process,
        make: MakeProtocol,
        here: NodeAddress,
        address: NodeAddress,
        answer: asyncio.Future[VirtualTransport],
    ) -> None:
        if self.conditions.are_isolated(process.host, address.host):
            # TCP asks again, until the caller gives up.
            if not answer.done() and process.is_alive:
                again = (process, make, here, address, answer)
                self.scheduler.after(RETRY_S, self._arrive, *again)
            return
        listener = self._listeners.get(address)
        if listener is None or listener[0].is_dead:
            self._answer(self._refuse, process, address, answer)
            return
        server, accept = listener
        near = VirtualTransport(self.conditions, process, here, address)
        far = VirtualTransport(self.conditions, server, address, here)
        near.peer, far.peer = far, near
        self._links.append((near, far))
        server.arrive(far.begin, accept)
        self._answer(self._welcome, process, address, answer, near, make)

    def _answer(
        self,
        what: Callable[[Process, NodeAddress, Unpack[Ts]], None],
        process: Process,
        address: NodeAddress,
        *arguments: *Ts,
    ) -> None:
        """Deliver the answer to a connection attempt, once it gets through."""

        def arrive() -> None:
            if self.conditions.are_isolated(process.host, address.host):
                self.scheduler.after(RETRY_S, arrive)
            else:
                what(process, address, *arguments)

        self.scheduler.after(self.conditions.travel_s(), arrive)

    def _welcome(
        self,
        process: Process,
        _address: NodeAddress,
        answer: asyncio.Future[VirtualTransport],
        near: VirtualTransport,
        make: MakeProtocol,
    ) -> None:
        if process.is_alive:
            process.arrive(self._begin, near, make, answer)
        else:
            near.peer.break_off(ConnectionResetError("connection reset by peer"))

    @staticmethod
    def _begin(
        near: VirtualTransport,
        make: MakeProtocol,
        answer: asyncio.Future[VirtualTransport],
    ) -> None:
        if answer.done():
            near.abort()  # the caller has given up
            return
        if near.is_gone:
            answer.set_exception(ConnectionResetError("connection reset by peer"))
            return
        near.begin(make)
        answer.set_result(near)

    @staticmethod
    def _refuse(
        process: Process, address: NodeAddress, answer: asyncio.Future[VirtualTransport]
    ) -> None:
        if process.is_alive:
            error = ConnectionRefusedError(f"nothing listens at {address}")
            process.arrive(_fail, answer, error)

    # -- failures ------------------------------------------------------------------------------

    def cut(self, process: Process) -> int:
        """Reset all connections of a process, at both ends; return how many there were."""
        cut = 0
        for near, far in self._open_links():
            if process in (near.process, far.process):
                near.break_off(ConnectionResetError("connection reset by peer"))
                far.break_off(ConnectionResetError("connection reset by peer"))
                cut += 1
        return cut

    def _process_died(self, process: Process) -> None:
        """Close the connections of a process that died, as its kernel would: the others notice."""
        for near, far in self._open_links():
            for dead, other in ((near, far), (far, near)):
                if dead.process is process:
                    dead.forget()
                    self.scheduler.after(self.conditions.travel_s(), other.notice_end)

    def _open_links(self) -> Iterator[tuple[VirtualTransport, VirtualTransport]]:
        self._links = [link for link in self._links if not (link[0].is_gone and link[1].is_gone)]
        return iter(list(self._links))


def _fail(answer: asyncio.Future[VirtualTransport], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
