"""A connection reads if and only if it may take more, in any order of events."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coterie_server.net import CloseReason, Exchange, Limits, Listener
from coterie_server.net.registry import has_hung_up
from coterie_server.net.slices import Slices
from coterie_server.turns import Making, Turns, Unfinished
from tests.server.net.doubles import FakeListener, ParkingHandler, heartbeat, ok, until
from tests.support.profiles import examples

SECOND_MS = 1_000
#: A frame that announces more than any request may have.
BAD_SIZE = b"\x7f\xff\xff\xff"
#: What ends a connection is rare, or most of them would see little before.
RARELY = st.integers(0, 5).map(lambda number: (number + 3) % 6)


class TimedHandler:
    """A handler that takes what time it likes; the test answers when it likes."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.cost_s = 0.0
        self.at_once = False
        self.exchanges: list[Exchange] = []
        self.open: list[Exchange] = []
        #: Those whose answers take turns.
        self.long: list[Exchange] = []
        self.forgotten: list[Exchange] = []

    def handle(self, exchange: Exchange) -> None:
        """Keep the exchange, or answer it."""
        self.passed_s += self.cost_s
        self.exchanges.append(exchange)
        self.open.append(exchange)
        exchange.when_gone(self.forgotten.append)
        if self.at_once:
            self.answer(len(self.open) - 1)

    def answer(self, index: int) -> None:
        """Reply to one of those that wait."""
        exchange = self.open.pop(index)
        exchange.reply(ok(exchange.request.correlation_id))

    def begin_answer(self, index: int) -> None:
        """Reply to one of those that wait with what takes two turns."""
        exchange = self.open.pop(index)
        self.long.append(exchange)
        exchange.reply(Unfinished(_long_answer(exchange.request.correlation_id)))

    @property
    def is_making(self) -> bool:
        """Whether one is made."""
        return any(exchange.frame is None for exchange in self.long)


def _long_answer(number: int) -> Making[Any]:
    yield
    return ok(number)


class AnyInterleaving(RuleBasedStateMachine):
    """One connection, and all that may happen to it.

    What must hold is said of what can be seen from outside: what the client sent, what the handler
    got, what the transport was told.
    """

    @initialize(in_flight_max=st.integers(1, 6), together=st.booleans())
    def begin(self, in_flight_max: int, together: bool) -> None:  # noqa: FBT001
        """Let a client in."""
        self.limit, self.together = in_flight_max, together
        self.handler = TimedHandler()
        self.listener = FakeListener(
            self.handler,
            Limits(
                max_requests_in_flight=in_flight_max,
                write_buffer_high_bytes=30,
                write_buffer_max_bytes=200,
                drain_timeout_ms=20_000,
                frame_timeout_ms=20_000,
            ),
            together=together,
        )
        registry = self.listener.registry
        registry.stopwatch = lambda: self.handler.passed_s
        # What the loop is to do for all connections together, and not for this one.
        self.for_all: list[Callable[[], None]] = []
        registry.slices = Slices(self.for_all.append)
        registry.turns = Turns(self.for_all.append)
        self.client = self.listener.connect()
        self.wire = b""
        self.whole = 0
        self.rest = b""
        self.sent = 0
        self.is_bad = False
        self.was_lost = False

    # -- what the client does

    @rule(
        requests=st.integers(1, 8),
        cost_ms=st.sampled_from([12, 4, 0]),
        at_once=st.sampled_from([0, 1]),
    )
    def write(self, requests: int, cost_ms: int, at_once: int) -> None:
        """Put requests on the wire; how long they take is said as well."""
        self.handler.cost_s, self.handler.at_once = cost_ms / 1000, bool(at_once)
        for _ in range(requests):
            self.wire += heartbeat(self.sent)
            self.sent += 1

    @rule(luck=RARELY)
    def write_nonsense(self, luck: int) -> None:
        """Put what is no request on the wire; nothing behind it counts."""
        if not luck:
            self.wire += BAD_SIZE

    @precondition(lambda self: self.wire and not self.client.transport.closing)
    @rule(share=st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.1]))
    def arrive(self, share: float) -> None:
        """Some of the wire arrives.

        Also while nothing is read: what the loop had in its hands when it was told comes still.
        """
        count = max(1, int(len(self.wire) * share))
        piece, self.wire = self.wire[:count], self.wire[count:]
        self._account(piece)
        self.client.send(piece)

    def _account(self, piece: bytes) -> None:
        if self.is_bad:
            return
        self.rest += piece
        frame_bytes = len(heartbeat(0))
        while len(self.rest) >= frame_bytes and not self.rest.startswith(BAD_SIZE):
            self.rest, self.whole = self.rest[frame_bytes:], self.whole + 1
        self.is_bad = self.rest.startswith(BAD_SIZE)

    @rule()
    def stop_reading(self) -> None:
        """The client reads nothing any more."""
        self.client.transport.flowing = False

    @rule()
    def read(self) -> None:
        """The client reads all that there is, from now on."""
        self.client.transport.drain()
        self.client.transport.flowing = True

    @rule(luck=RARELY)
    def hang_up(self, luck: int) -> None:
        """The client closes; if it is read from, that shows at once."""
        if luck:
            return
        self.client.transport.hung_up = True
        if self.client.transport.reading and not self.client.transport.closing:
            self.client.connection.eof_received()
            self.client.transport.closing = True

    # -- what the server does

    @rule()
    def turn(self) -> None:
        """Let the loop turn."""
        for_all = self.for_all[:]
        self.for_all.clear()
        for call in for_all:
            call()
        self.listener.turn()

    @precondition(lambda self: self.handler.open)
    @rule(data=st.data(), is_long=st.booleans())
    def answer(self, data: st.DataObject, is_long: bool) -> None:  # noqa: FBT001
        """Reply to any of the requests that wait."""
        answer = self.handler.begin_answer if is_long else self.handler.answer
        answer(data.draw(st.integers(0, len(self.handler.open) - 1)))

    @rule(wait_ms=st.sampled_from([1, SECOND_MS, 5 * SECOND_MS]))
    def sweep(self, wait_ms: int) -> None:
        """Let time pass; a close that was not reported shows after a second."""
        transport = self.client.transport
        must_show = transport.hung_up and not (transport.reading or self.listener.waiting)
        self.listener.pass_time(wait_ms)
        if must_show and wait_ms >= SECOND_MS:
            assert transport.closing

    @rule(luck=RARELY)
    def stop(self, luck: int) -> None:
        """Shut the server down."""
        if not luck:
            self.listener.registry.stop()

    @precondition(lambda self: self.client.transport.closing and not self.was_lost)
    @rule()
    def lose(self) -> None:
        """The loop tells of the end."""
        self.was_lost = True
        self.client.lose()

    # -- what holds after each of these

    @property
    def is_open(self) -> bool:
        """Whether neither side has begun to close."""
        return not self.client.transport.closing

    @invariant()
    def reads_if_there_is_room(self) -> None:
        """Reading if and only if nothing is left over, room is left, and the client reads too."""
        if self.is_open:
            transport, stopping = self.client.transport, self.listener.registry.stopping
            behind = len(transport.unsent) > 30
            left_over = self.whole - len(self.handler.exchanges) > 0 or self.is_bad
            full = len(self.client.connection.exchanges) >= self.limit
            assert transport.reading == (not (left_over or full or behind or stopping))

    @invariant()
    def what_can_be_done_is_under_way(self) -> None:
        """What could be worked off waits for nothing but the loop's next turn."""
        if self.is_open and not self.listener.registry.stopping:
            behind = len(self.client.transport.unsent) > 30
            left_over = self.whole - len(self.handler.exchanges) > 0 or self.is_bad
            full = len(self.client.connection.exchanges) >= self.limit or self.handler.is_making
            assert self.listener.waiting <= 1 + self.together
            assert self.listener.waiting or not left_over or full or behind

    @invariant()
    def in_flight_is_what_it_says(self) -> None:
        """As many are in flight as were handled and not sent, and never too many."""
        if self.is_open:
            unsent = len(self.handler.exchanges) - len(self.client.answered_or_written())
            in_flight = len(self.client.connection.exchanges)
            assert in_flight <= self.limit
            assert in_flight == unsent or (self.together and self.listener.waiting)

    @invariant()
    def order_is_kept(self) -> None:
        """Requests are handled in the order in which they came, each once, and so answered."""
        numbers = [exchange.request.correlation_id for exchange in self.handler.exchanges]
        assert numbers == [*range(len(numbers))]
        written = self.client.answered_or_written()
        assert written == [*range(len(written))]

    @invariant()
    def closing_server_waits_for_answers_only(self) -> None:
        """A server that stops closes a connection as soon as nothing is in flight."""
        if self.listener.registry.stopping and self.is_open:
            assert self.client.connection.exchanges

    @invariant()
    def what_is_gone_is_forgotten(self) -> None:
        """Each unanswered exchange is given back when its connection goes."""
        forgotten = {id(exchange) for exchange in self.handler.forgotten}
        assert len(forgotten) == len(self.handler.forgotten)
        if self.client.connection.gone:
            waiting = {id(exchange) for exchange in self.handler.open}
            assert waiting <= forgotten
        else:
            assert not forgotten


AnyInterleaving.TestCase.settings = examples(100, stateful_step_count=40)
TestAnyInterleaving = AnyInterleaving.TestCase


class SlowParkingHandler(ParkingHandler):
    """A handler that parks all requests, and takes four milliseconds for each."""

    passed_s = 0.0

    def handle(self, exchange: Exchange) -> None:
        """Keep it."""
        self.passed_s += 0.004
        super().handle(exchange)


def test_reading_goes_on_behind_a_long_pipeline_whose_first_request_is_parked() -> None:
    handler = SlowParkingHandler()
    listener = FakeListener(handler)
    listener.registry.stopwatch = lambda: handler.passed_s
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(4)))
    assert not client.transport.reading
    listener.turn()
    assert client.transport.reading
    client.send(heartbeat(4))
    assert len(handler.exchanges) == 5


def test_server_that_stops_takes_nothing_that_comes_late() -> None:
    """What the pipeline still had is dropped, so what comes behind it would leap over it."""
    handler = SlowParkingHandler()
    listener = FakeListener(handler)
    listener.registry.stopwatch = lambda: handler.passed_s
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(4)))
    taken = len(handler.exchanges)
    assert taken < 4
    client.connection.stop()
    listener.registry.stopping = True
    client.send(heartbeat(4))
    listener.turn()
    assert len(handler.exchanges) == taken


def test_close_is_seen_though_nothing_is_read() -> None:
    """With as many requests parked as may be, the client goes; so does all that it left."""
    listener = FakeListener(handler := ParkingHandler(), Limits(max_requests_in_flight=2))
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1))
    client.transport.hung_up = True
    listener.pass_time(SECOND_MS)
    assert client.transport.closing
    assert all(exchange.abandoned for exchange in handler.exchanges)
    client.lose()
    assert listener.registry.stats().closed[CloseReason.PEER] == 1


def test_client_that_stays_is_not_closed() -> None:
    """A long wait at the limit closes nothing; the client is looked for each second."""
    listener = FakeListener(ParkingHandler(), Limits(max_requests_in_flight=1))
    client = listener.connect()
    client.send(heartbeat(0))
    for _ in range(1000):
        listener.pass_time(SECOND_MS)
    assert not client.transport.closing
    client.transport.hung_up = True
    listener.pass_time(SECOND_MS)
    assert client.transport.closing


def test_requests_that_wait_are_handled_though_their_client_has_closed() -> None:
    handler = SlowParkingHandler()
    listener = FakeListener(handler)
    listener.registry.stopwatch = lambda: handler.passed_s
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(4)))
    client.transport.hung_up = True
    listener.pass_time(SECOND_MS)
    listener.turn()
    assert len(handler.exchanges) == 4


@pytest.mark.asyncio
@pytest.mark.parametrize("unread", [b"", heartbeat(1)], ids=["at the end", "with bytes unread"])
async def test_close_of_a_real_client_is_seen(unread: bytes) -> None:
    """Over a real socket, also with bytes before the close that were not read."""
    listener = Listener(
        handler := ParkingHandler(), Limits(max_requests_in_flight=1), sweep_interval_s=0.01
    )
    await listener.start("127.0.0.1", 0)
    try:
        _, writer = await asyncio.open_connection(*listener.addresses[0])
        writer.write(heartbeat(0))
        await until(lambda: len(handler.exchanges) == 1)
        writer.write(unread)
        await writer.drain()
        writer.close()
        await until(lambda: handler.exchanges[0].abandoned)
    finally:
        await listener.close(0)


class BareTransport(asyncio.Transport):
    """A transport of nothing but a socket."""

    def __init__(self, connected: Any) -> None:
        super().__init__({"socket": connected})


def test_open_and_closed_sockets_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell of a close by itself, looking at the next byte does."""
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    for tells in (True, False):
        if not tells:
            monkeypatch.setattr("coterie_server.net.registry._CLOSED", 0)
        assert not has_hung_up(BareTransport(ours))
    theirs.close()
    assert has_hung_up(BareTransport(ours))
    monkeypatch.undo()
    assert has_hung_up(BareTransport(ours))
    ours.close()
    assert not has_hung_up(BareTransport(ours))
    assert not has_hung_up(BareTransport(None))
