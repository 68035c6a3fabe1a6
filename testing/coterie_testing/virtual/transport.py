"""One end of a virtual connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from coterie_client.wire.addresses import NodeAddress

if TYPE_CHECKING:
    from coterie_testing.virtual.network import Network
    from coterie_testing.virtual.process import Process

__all__ = ["VirtualTransport"]

#: How much may be under way before whoever writes is asked to wait, as asyncio's default is.
_HIGH_WATER: Final = 65_536

#: What stands for the end of what the other side has to say.
_END: Final = b""

#: How often it is tried again to get bytes through a network that lets nothing through.
_RETRY_S: Final = 1.0


class VirtualTransport(asyncio.Transport):
    """A transport whose bytes travel through a virtual network, in order."""

    peer: VirtualTransport

    def __init__(
        self, network: Network, process: Process, here: NodeAddress, there: NodeAddress
    ) -> None:
        super().__init__({"peername": (there.host, there.port), "sockname": (here.host, here.port)})
        self.process = process
        self._network = network
        self._world = network.world
        self._here, self._there = here, there
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False
        #: Nothing more comes of it.
        self.is_gone = False
        self._arrives_s = 0.0
        #: What did not get through when it was to arrive, with when it was sent; in order.
        self._held_up: deque[tuple[bytes, float]] = deque()
        #: Nothing that was sent arrives any more.
        self._is_broken = False
        self._under_way = 0
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._is_full = False
        self._is_reading = True
        self._inbox: deque[bytes] = deque()

    # -- beginning -----------------------------------------------------------------------------

    def begin(self, make: Callable[[], asyncio.Protocol]) -> None:
        """Be connected."""
        if self.is_gone:
            return
        self._protocol = make()
        self._protocol.connection_made(self)
        self._deliver()

    # -- asyncio's side ------------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told what arrives."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell somebody else from now on."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether this side has ended it, or lost it."""
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._is_closing or self.is_gone or not data:
            return
        self._send(bytes(data))
        if self._under_way > self._high and not self._is_full:
            self._is_full = True
            self.get_protocol().pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send bytes that are in pieces."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """There is no half of an end in here."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How much may be under way."""
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """How much may be under way: low and high."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """How much is under way."""
        return self._under_way

    def pause_reading(self) -> None:
        """Take nothing in."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Take in what has arrived."""
        if not self._is_reading:
            self._is_reading = True
            self.process.call_soon(self._deliver)

    def is_reading(self) -> bool:
        """Whether anything is taken in."""
        return self._is_reading and not self._is_closing

    def close(self) -> None:
        """End it when everything is sent."""
        if self._is_closing:
            return
        self._is_closing = True
        self._send(_END)
        self.process.call_soon(self._lose, None)

    def abort(self) -> None:
        """End it at once."""
        self.close()

    # -- the network's side --------------------------------------------------------------------

    def break_off(self, error: Exception | None) -> None:
        """It is broken, and this side notices."""
        self._is_broken = True
        if not self.is_gone and self.process.is_alive:
            self._is_closing = True
            self.process.arrive(self._lose, error)

    def forget(self) -> None:
        """The process is no more."""
        self._is_closing = self.is_gone = True

    def notice_end(self) -> None:
        """The other process is no more."""
        if self._network.is_parted(self._here.host, self._there.host):
            self._world.after(_RETRY_S, self.notice_end)
            return
        self.break_off(ConnectionResetError("connection reset by peer"))

    def _send(self, data: bytes) -> None:
        self._under_way += len(data)
        # In order: never before what was sent earlier.
        now_s = self._world.now_s
        self._arrives_s = max(self._arrives_s, now_s + self._network.travel_s())
        self._world.when(self._arrives_s, self._travel, data, now_s)

    def _travel(self, data: bytes, sent_s: float) -> None:
        """Arrive, unless something that was sent before is held up."""
        self._held_up.append((data, sent_s))
        if len(self._held_up) == 1:
            self._push()

    def _push(self) -> None:
        """Get through with what is held up, or try again later, or give the connection up."""
        if self._is_broken:
            self._held_up.clear()
        elif not self._network.is_parted(self._here.host, self._there.host):
            while self._held_up:
                self.peer._arrive(self._held_up.popleft()[0])  # noqa: SLF001  # the other end
        elif self._world.now_s - self._held_up[0][1] < self._network.options.give_up_s:
            self._world.after(_RETRY_S, self._push)
        else:
            self._held_up.clear()
            self.break_off(TimeoutError("connection timed out"))

    def _arrive(self, data: bytes) -> None:
        if self.process.is_alive and not self.is_gone:
            self._inbox.append(data)
            if self.process.is_paused and self._network.on_unread is not None:
                self._network.on_unread(self.process, data)
            self.process.arrive(self._deliver)

    def _deliver(self) -> None:
        """Hand over what has arrived."""
        while self._inbox and self._is_reading and not self.is_gone and self._protocol is not None:
            data = self._inbox.popleft()
            if data == _END:
                self._hear_end()
                return
            self.peer._acknowledge(len(data))  # noqa: SLF001  # the other end
            if not self._is_closing:
                self._protocol.data_received(data)

    def _hear_end(self) -> None:
        """The other side has nothing more to say; a protocol may have."""
        assert self._protocol is not None
        if not self._is_closing and not self._protocol.eof_received():
            self.close()

    def _acknowledge(self, size: int) -> None:
        self._under_way -= size
        if self._is_full and self._under_way <= self._low and self.process.is_alive:
            self._is_full = False
            self.process.arrive(self._resume)

    def _resume(self) -> None:
        if not self.is_gone and self._protocol is not None:
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        if self._protocol is not None:
            self._protocol.connection_lost(error)
