"""One end of a virtual connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual.conditions import RETRY_S, Conditions
from coterie_testing.virtual.process import Process

__all__ = ["VirtualTransport"]

#: How many bytes may be under way before the writer is asked to wait: asyncio's default.
_HIGH_WATER: Final = 65_536

#: Stands for the end of the stream.
_END: Final = b""


class VirtualTransport(asyncio.Transport):
    """A transport whose bytes travel through a virtual network, in order."""

    peer: VirtualTransport

    def __init__(
        self, conditions: Conditions, process: Process, here: NodeAddress, there: NodeAddress
    ) -> None:
        super().__init__({"peername": (there.host, there.port), "sockname": (here.host, here.port)})
        self.process = process
        self._conditions = conditions
        self._scheduler = conditions.scheduler
        self._here, self._there = here, there
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False
        #: Whether it is closed, and its protocol has been told.
        self.is_gone = False
        self._arrives_s = 0.0
        #: What could not be delivered when it was due, with when it was sent; in order.
        self._held_up: deque[tuple[bytes, float]] = deque()
        #: Whether nothing that was sent arrives any more.
        self._is_broken = False
        self._under_way = 0
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._is_full = False
        self._is_reading = True
        self._inbox: deque[bytes] = deque()

    # -- connecting ----------------------------------------------------------------------------

    def begin(self, make: Callable[[], asyncio.Protocol]) -> None:
        """Connect a new protocol to it."""
        if self.is_gone:
            return
        self._protocol = make()
        self._protocol.connection_made(self)
        self._deliver()

    # -- asyncio's interface -------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that receives."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what arrives to another protocol from now on."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether this side has closed or lost the connection."""
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
        """Send bytes that come in pieces."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Half-closed connections are not supported."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many bytes may be under way before the writer is asked to wait."""
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """How many bytes may be under way: low and high."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """How many bytes are under way."""
        return self._under_way

    def pause_reading(self) -> None:
        """Deliver nothing to the protocol."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Deliver what has arrived, and go on delivering."""
        if not self._is_reading:
            self._is_reading = True
            self.process.call_soon(self._deliver)

    def is_reading(self) -> bool:
        """Whether what arrives is delivered to the protocol."""
        return self._is_reading and not self._is_closing

    def close(self) -> None:
        """Close it when everything is sent."""
        if self._is_closing:
            return
        self._is_closing = True
        self._send(_END)
        self.process.call_soon(self._lose, None)

    def abort(self) -> None:
        """Close it at once."""
        self.close()

    # -- the network's interface ---------------------------------------------------------------

    def break_off(self, error: Exception | None) -> None:
        """Break the connection, and have this side notice."""
        self._is_broken = True
        if not self.is_gone and self.process.is_alive:
            self._is_closing = True
            self.process.arrive(self._lose, error)

    def forget(self) -> None:
        """Close it without a word: its process is dead."""
        self._is_closing = self.is_gone = True

    def notice_end(self) -> None:
        """Learn that the process at the other end is dead."""
        if self._conditions.are_isolated(self._here.host, self._there.host):
            self._scheduler.after(RETRY_S, self.notice_end)
            return
        self.break_off(ConnectionResetError("connection reset by peer"))

    def _send(self, data: bytes) -> None:
        self._under_way += len(data)
        # In order: never before what was sent earlier.
        now_s = self._scheduler.now_s
        self._arrives_s = max(self._arrives_s, now_s + self._conditions.travel_s())
        self._scheduler.at(self._arrives_s, self._travel, data, now_s)

    def _travel(self, data: bytes, sent_s: float) -> None:
        """Arrive, unless earlier bytes are still held up."""
        self._held_up.append((data, sent_s))
        if len(self._held_up) == 1:
            self._push()

    def _push(self) -> None:
        """Deliver what is held up, try again later, or give the connection up."""
        if self._is_broken:
            self._held_up.clear()
        elif not self._conditions.are_isolated(self._here.host, self._there.host):
            while self._held_up:
                self.peer._arrive(self._held_up.popleft()[0])  # noqa: SLF001  # the other end
        elif self._scheduler.now_s - self._held_up[0][1] < self._conditions.options.give_up_s:
            self._scheduler.after(RETRY_S, self._push)
        else:
            self._held_up.clear()
            self.break_off(TimeoutError("connection timed out"))

    def _arrive(self, data: bytes) -> None:
        if self.process.is_alive and not self.is_gone:
            self._inbox.append(data)
            if self.process.is_paused and self._conditions.on_unread is not None:
                self._conditions.on_unread(self.process, data)
            self.process.arrive(self._deliver)

    def _deliver(self) -> None:
        """Hand what has arrived to the protocol."""
        while self._inbox and self._is_reading and not self.is_gone and self._protocol is not None:
            data = self._inbox.popleft()
            if data == _END:
                self._hear_end()
                return
            self.peer._acknowledge(len(data))  # noqa: SLF001  # the other end
            if not self._is_closing:
                self._protocol.data_received(data)

    def _hear_end(self) -> None:
        """The other side closed; the protocol may still want to write."""
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
