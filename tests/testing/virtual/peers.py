"""Two ends of virtual connections that note what happens to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual import Network, NetworkOptions, Process, Scheduler
from coterie_testing.virtual.transport import VirtualTransport

__all__ = ["ADDRESS", "Peer", "Place"]

ADDRESS = NodeAddress("server", 9092)


class Peer(asyncio.Protocol):
    """Records the calls of a transport, in order, with their times."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.told: list[str] = []
        self.times_s: list[float] = []
        self.received = bytearray()
        self.transport: VirtualTransport
        self.error: Exception | None = None
        #: What it answers when the other side has nothing more to say.
        self.stays_open: bool | None = None
        #: Whether it pauses reading whenever something comes.
        self.stops_reading = False

    def _note(self, what: str) -> None:
        self.told.append(what)
        self.times_s.append(self.process.time())

    @property
    def is_connected(self) -> bool:
        """Whether it was connected and not lost."""
        return "made" in self.told and "lost" not in self.told

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        assert isinstance(transport, VirtualTransport)
        self.transport = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        """Remember the bytes."""
        self.received += data
        if self.stops_reading:
            self.transport.pause_reading()
        self._note("data")

    def eof_received(self) -> bool | None:
        """Say what the test wants said."""
        self._note("eof")
        return self.stays_open

    def pause_writing(self) -> None:
        """Note it."""
        self._note("pause")

    def resume_writing(self) -> None:
        """Note it."""
        self._note("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember why."""
        self.error = exc
        self._note("lost")


@dataclass
class Place:
    """A server that listens and a client that can connect to it."""

    options: NetworkOptions = field(default_factory=NetworkOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.network = Network(self.scheduler, self.options)
        self.server = Process(self.scheduler, "server")
        self.client = Process(self.scheduler, "client")
        self.accepted: list[Peer] = []
        self.network.listen(self.server, ADDRESS, self.accept)
        self.dial = self.network.dialler(self.client)

    def accept(self) -> Peer:
        """Make the server's end of a connection."""
        self.accepted.append(Peer(self.server))
        return self.accepted[-1]

    def begin_to_dial(self, address: NodeAddress = ADDRESS) -> tuple[Peer, asyncio.Task[object]]:
        """Dial, without waiting for what comes of it."""
        peer = Peer(self.client)

        async def dial() -> object:
            return await self.dial(lambda: peer, address, None)

        return peer, self.client.create_task(dial())

    def connect(self) -> tuple[Peer, Peer]:
        """Return both ends of a new connection: the client's, then the server's."""
        peer, task = self.begin_to_dial()
        self.scheduler.run_until(task.done)
        task.result()
        return peer, self.accepted[-1]
