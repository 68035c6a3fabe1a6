"""Doubles for connections without a network: transport, clock, handlers, listener, clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coterie_protocol import ApiKey, FrameReader, decode_response, encode_request, response_class
from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
from coterie_server.address import Address
from coterie_server.net import Endpoint, Exchange, Handler, Limits
from coterie_server.net.connection import Connection
from coterie_server.net.outbox import Outbox
from coterie_server.net.registry import Registry

__all__ = [
    "ADVERTISED",
    "PATIENCE_S",
    "AnsweringHandler",
    "Clock",
    "FakeClient",
    "FakeListener",
    "FakeTransport",
    "ParkingHandler",
    "heartbeat",
    "ok",
    "until",
]

#: Far longer than anything with real sockets takes; a test that needs it fails.
PATIENCE_S = 60.0

#: Where clients of the connections under test are told to connect.
ADVERTISED = Address("coterie.example", 9092)
ENDPOINT = Endpoint(ADVERTISED)

API, VERSION = ApiKey.HEARTBEAT, 3


def heartbeat(correlation_id: int, *, member_id: str = "member", version: int = VERSION) -> bytes:
    """A whole Heartbeat frame."""
    message = HeartbeatRequest(group_id="group", generation_id=1, member_id=member_id)
    return encode_request(message, version, correlation_id, "client")


def ok(number: int = 0) -> HeartbeatResponse:
    """A reply that can be told from others by a number."""
    return HeartbeatResponse(throttle_time_ms=number, error_code=0)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        # Counted in whole milliseconds, so that many steps add up to what they should.
        self.now_ms = 1_000_000
        #: How often it was read.
        self.calls = 0

    def __call__(self) -> float:
        """The time in seconds, as a loop tells it."""
        self.calls += 1
        return self.now_ms / 1000


class FakeTransport(asyncio.Transport):
    """Remembers what it is told; what is written is sent when the test drains it."""

    def __init__(self, protocol: asyncio.Protocol, peername: tuple[str, int] | None) -> None:
        super().__init__({"peername": peername})
        self.protocol = protocol
        self.unsent = b""
        self.sent = b""
        self.writes = 0
        self.reading = True
        self.closing = False
        self.aborted = False
        #: Whether the client reads all that is written.
        self.flowing = True
        #: Whether the client has closed its side, which nothing tells while nothing is read.
        self.hung_up = False
        self._high_bytes = 65_536

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Take bytes, and complain as asyncio does when more than the high mark is unsent."""
        assert not self.aborted
        assert data
        before_bytes = len(self.unsent)
        self.unsent += bytes(data)
        self.writes += 1
        if self.flowing:
            self.drain()
        elif before_bytes <= self._high_bytes < len(self.unsent):
            self.protocol.pause_writing()

    def drain(self) -> None:
        """Let the client read all there is."""
        was_bytes, self.sent, self.unsent = len(self.unsent), self.sent + self.unsent, b""
        if was_bytes > self._high_bytes and not self.flowing:
            self.protocol.resume_writing()

    def read(self, some_bytes: int) -> None:
        """Let the client read some of what there is, and not all."""
        assert some_bytes < len(self.unsent)
        self.sent += self.unsent[:some_bytes]
        self.unsent = self.unsent[some_bytes:]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take the high mark; the low one is nothing unsent."""
        assert high is not None
        assert low is None
        self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        """How much the client has not read."""
        return len(self.unsent)

    def pause_reading(self) -> None:
        """Note that no more is wanted; saying so twice is an error here."""
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        """Note that more is wanted; saying so twice is an error here."""
        assert not self.reading
        assert not self.closing
        self.reading = True

    def close(self) -> None:
        """Note the wish to close."""
        self.closing = True

    def abort(self) -> None:
        """Note the wish to drop everything."""
        self.closing = self.aborted = True
        self.unsent = b""

    def is_closing(self) -> bool:
        """Whether the end was asked for."""
        return self.closing


class ParkingHandler:
    """A handler that keeps every exchange until the test answers it."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def handle(self, exchange: Exchange) -> None:
        """Keep it."""
        self.exchanges.append(exchange)

    def answer(self, indexes: Iterable[int]) -> None:
        """Reply to exchanges by their index, each with its correlation id as number."""
        for index in indexes:
            exchange = self.exchanges[index]
            exchange.reply(ok(exchange.request.correlation_id))


class AnsweringHandler:
    """A handler that replies to everything at once, except to the members named as parked."""

    def __init__(self, *parked: str) -> None:
        self.seen: list[int] = []
        self.parked: list[Exchange] = []
        self._parked_names = parked

    def handle(self, exchange: Exchange) -> None:
        """Reply, with the correlation id as number."""
        self.seen.append(exchange.request.correlation_id)
        if exchange.request.message.member_id in self._parked_names:
            self.parked.append(exchange)
        else:
            exchange.reply(ok(exchange.request.correlation_id))


class FakeClient:
    """One client of the fake listener: its transport and the connection that serves it."""

    def __init__(self, connection: Connection, transport: FakeTransport) -> None:
        self.connection = connection
        self.transport = transport

    def send(self, *pieces: bytes) -> None:
        """Deliver bytes, piece by piece."""
        for piece in pieces:
            self.connection.data_received(piece)

    def lose(self, error: Exception | None = None) -> None:
        """End the connection, as the loop does some time after close and abort."""
        self.connection.connection_lost(error)

    def payloads(self) -> list[bytes]:
        """What the client has read so far, cut into frames."""
        reader = FrameReader()
        payloads = reader.feed(self.transport.sent) if self.transport.sent else []
        assert reader.buffered == 0
        return payloads

    def answers(self) -> list[tuple[int, int]]:
        """Correlation id and number of each Heartbeat reply that the client has read."""
        decoded = (
            decode_response(response_class(API), VERSION, payload) for payload in self.payloads()
        )
        return [(correlation_id, reply.throttle_time_ms) for correlation_id, reply in decoded]

    def answered_or_written(self) -> list[int]:
        """Correlation ids of the replies that the client has read or can read."""
        transport = self.transport
        stream = transport.sent + transport.unsent
        return [int.from_bytes(payload[:4]) for payload in FrameReader().feed(stream)]

    def answered(self) -> list[int]:
        """Correlation ids of the Heartbeat replies that the client has read."""
        answers = self.answers()
        assert all(correlation_id == number for correlation_id, number in answers)
        return [correlation_id for correlation_id, _ in answers]


class FakeListener:
    """A listener without sockets: a registry, its clock, and a loop that turns when told to.

    Answers leave at once, or when the loop turns if they are posted `together`.
    """

    def __init__(
        self, handler: Handler, limits: Limits | None = None, *, together: bool = False
    ) -> None:
        self.clock = Clock()
        self._soon: list[Callable[[], None]] = []
        self.registry = Registry(
            handler,
            limits or Limits(),
            now=self.clock,
            call_soon=self._soon.append,
            stopwatch=lambda: 0.0,  # a slow machine must not cut a pipeline short
            has_hung_up=_has_hung_up,
        )
        if not together:
            self.registry.outbox = Outbox(lambda post: post())

    @property
    def waiting(self) -> int:
        """How much was called soon and has not run."""
        return len(self._soon)

    def connect(self, peername: tuple[str, int] | None = ("127.0.0.1", 4711)) -> FakeClient:
        """Connect a client."""
        connection = Connection(self.registry, ENDPOINT)
        transport = FakeTransport(connection, peername)
        connection.connection_made(transport)
        return FakeClient(connection, transport)

    def turn(self) -> int:
        """Run what was called soon; answer how much that was."""
        soon = self._soon[:]
        self._soon.clear()
        for call in soon:
            call()
        return len(soon)

    def pass_time(self, time_ms: int) -> None:
        """Let time pass, and sweep."""
        self.clock.now_ms += time_ms
        self.registry.sweep()


def _has_hung_up(transport: asyncio.BaseTransport) -> bool:
    assert isinstance(transport, FakeTransport)
    return transport.hung_up


async def until(condition: Callable[[], bool]) -> None:
    """Let a real loop turn until something holds that no event tells of."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # the condition is on the other side of a socket
            await asyncio.sleep(0.001)
