"""A network in which anything can happen that happens to TCP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVarTuple, Unpack

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual.process import Process
from coterie_testing.virtual.transport import VirtualTransport
from coterie_testing.virtual.world import World

__all__ = ["Network", "NetworkOptions"]

Ts = TypeVarTuple("Ts")

MakeProtocol: TypeAlias = Callable[[], asyncio.Protocol]

#: How often it is tried again to shake hands through a network that lets nothing through.
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How the network behaves when nothing is wrong with it."""

    #: How long bytes travel, at least and at most.
    latency_s: tuple[float, float] = (0.0002, 0.002)
    #: How often they take much longer, and how much.
    straggler_chance: float = 0.0
    straggler_s: float = 0.5
    #: How long an endpoint waits for bytes to be acknowledged before it gives a connection up.
    give_up_s: float = 20.0


@dataclass(slots=True)
class _Rift:
    """Two hosts, or a host and all others, can't reach each other."""

    one: str
    #: None for everybody.
    other: str | None

    def parts(self, a: str, b: str) -> bool:
        if self.other is None:
            return self.one in (a, b) and a != b
        return {a, b} == {self.one, self.other}


class Network:
    """Connects processes of a world."""

    def __init__(self, world: World, options: NetworkOptions | None = None) -> None:
        self.world = world
        self.options = options or NetworkOptions()
        self._listeners: dict[NodeAddress, tuple[Process, MakeProtocol]] = {}
        self._rifts: list[_Rift] = []
        self._links: list[tuple[VirtualTransport, VirtualTransport]] = []
        self._ports = 40_000
        #: Told what arrives at a process that is paused, and so is not read yet.
        self.on_unread: Callable[[Process, bytes], None] | None = None

    # -- processes -----------------------------------------------------------------------------

    def listen(self, process: Process, address: NodeAddress, make: MakeProtocol) -> None:
        """Accept connections at an address, as long as the process lives."""
        self._listeners[address] = (process, make)
        process.on_death.append(partial(self._unlisten, address, process))
        self._notice_death(process)

    def dialler(
        self, process: Process
    ) -> Callable[[MakeProtocol, NodeAddress, ssl.SSLContext | None], Awaitable[object]]:
        """How a process makes connections; what `coterie_client` takes as `dial`."""
        self._notice_death(process)

        async def dial(
            make: MakeProtocol, address: NodeAddress, tls: ssl.SSLContext | None
        ) -> object:
            assert tls is None, "there is no TLS in here"
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
        """Shake hands: there and back."""
        answer: asyncio.Future[VirtualTransport] = process.create_future()
        self._ports += 1
        here = NodeAddress(process.host, self._ports)
        self.world.after(self.travel_s(), self._arrive, process, make, here, address, answer)
        return await answer

    def _arrive(
        self,
        process: Process,
        make: MakeProtocol,
        here: NodeAddress,
        address: NodeAddress,
        answer: asyncio.Future[VirtualTransport],
    ) -> None:
        if self.is_parted(process.host, address.host):
            # It will be asked again, as TCP does, until somebody loses patience.
            if not answer.done() and process.is_alive:
                again = (process, make, here, address, answer)
                self.world.after(_RETRY_S, self._arrive, *again)
            return
        listener = self._listeners.get(address)
        if listener is None or listener[0].is_dead:
            self._answer(self._refuse, process, address, answer)
            return
        server, accept = listener
        near = VirtualTransport(self, process, here, address)
        far = VirtualTransport(self, server, address, here)
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
        """Have the answer to a call arrive, once it gets through."""

        def arrive() -> None:
            if self.is_parted(process.host, address.host):
                self.world.after(_RETRY_S, arrive)
            else:
                what(process, address, *arguments)

        self.world.after(self.travel_s(), arrive)

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
            near.abort()  # nobody waits for it any more
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
            error = ConnectionRefusedError(f"nobody listens at {address}")
            process.arrive(_fail, answer, error)

    # -- bytes ---------------------------------------------------------------------------------

    def travel_s(self) -> float:
        """How long bytes travel this time."""
        options, chance = self.options, self.world.random
        if options.straggler_chance and chance.random() < options.straggler_chance:
            return chance.uniform(0.0, options.straggler_s)
        return chance.uniform(*options.latency_s)

    def is_parted(self, a: str, b: str) -> bool:
        """Whether two hosts can't reach each other."""
        return any(rift.parts(a, b) for rift in self._rifts)

    # -- what goes wrong -----------------------------------------------------------------------

    def part(self, one: str, other: str | None = None) -> Callable[[], None]:
        """Let nothing through between two hosts, or a host and all others; the result heals it.

        What is sent meanwhile is sent again, as TCP does, and arrives when it heals, unless an
        endpoint has lost its patience by then.
        """
        rift = _Rift(one, other)
        self._rifts.append(rift)
        return partial(self._heal, rift)

    def _heal(self, rift: _Rift) -> None:
        if rift in self._rifts:
            self._rifts.remove(rift)

    def cut(self, process: Process) -> int:
        """Break all connections of a process, so that both ends notice; how many there were."""
        cut = 0
        for near, far in self._open_links():
            if process in (near.process, far.process):
                near.break_off(ConnectionResetError("connection reset by peer"))
                far.break_off(ConnectionResetError("connection reset by peer"))
                cut += 1
        return cut

    def _process_died(self, process: Process) -> None:
        """The system closes the connections of a process that dies, and the other ends notice."""
        for near, far in self._open_links():
            for dead, other in ((near, far), (far, near)):
                if dead.process is process:
                    dead.forget()
                    self.world.after(self.travel_s(), other.notice_end)

    def _open_links(self) -> Iterator[tuple[VirtualTransport, VirtualTransport]]:
        self._links = [link for link in self._links if not (link[0].is_gone and link[1].is_gone)]
        return iter(list(self._links))


def _fail(answer: asyncio.Future[VirtualTransport], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
