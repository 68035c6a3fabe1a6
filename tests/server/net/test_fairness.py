"""One client's pipeline, however long its requests take, leaves time for others."""

from __future__ import annotations

import pytest

from coterie_protocol import encode_request
from coterie_protocol.messages import SyncGroupRequest, SyncGroupRequestAssignment
from coterie_server.net import Exchange, Limits
from coterie_server.net.connection import Connection
from coterie_server.net.registry import Registry
from coterie_server.net.slices import READ_MAX_BYTES
from tests.server.net.doubles import (
    ENDPOINT,
    Clock,
    FakeClient,
    FakeListener,
    FakeTransport,
    ParkingHandler,
    heartbeat,
    ok,
)


class SlowHandler:
    """A handler that takes four milliseconds for each request."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.seen: list[int] = []

    def handle(self, exchange: Exchange) -> None:
        """Take the time, then reply."""
        self.passed_s += 0.004
        self.seen.append(exchange.request.correlation_id)
        exchange.reply(ok(exchange.request.correlation_id))

    def stopwatch(self) -> float:
        """The time that was taken so far."""
        return self.passed_s


def enter(listener: FakeListener, slow: SlowHandler) -> FakeClient:
    """Connect a client to a listener for which only the handler takes time."""
    listener.registry.stopwatch = slow.stopwatch
    return listener.connect()


def test_a_long_pipeline_lets_others_in_after_ten_milliseconds() -> None:
    slow = SlowHandler()
    listener = FakeListener(slow)
    client = enter(listener, slow)
    client.send(b"".join(heartbeat(number) for number in range(8)))
    assert client.answered() == [0, 1, 2]
    assert listener.turn() == 1
    assert client.answered() == [0, 1, 2, 3, 4, 5]
    assert listener.turn() == 1
    assert client.answered() == [*range(8)]
    assert listener.turn() == 0


def test_nothing_is_read_while_a_pipeline_waits() -> None:
    slow = SlowHandler()
    listener = FakeListener(slow)
    client = enter(listener, slow)
    client.send(b"".join(heartbeat(number) for number in range(4)))
    assert not client.transport.reading
    listener.turn()
    assert client.transport.reading


def test_two_pipelines_take_turns() -> None:
    slow = SlowHandler()
    listener = FakeListener(slow)
    first, second = enter(listener, slow), listener.connect()
    first.send(b"".join(heartbeat(number) for number in range(6)))
    second.send(b"".join(heartbeat(number) for number in range(10, 16)))
    assert slow.seen == [0, 1, 2, 10, 11, 12]
    listener.turn()
    assert slow.seen == [0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15]


def test_many_pipelines_share_fifty_milliseconds_of_each_turn() -> None:
    """Each of them goes on, by one request at least."""
    slow = SlowHandler()
    listener = FakeListener(slow)
    clients = [enter(listener, slow) for _ in range(100)]
    for client in clients:
        client.send(b"".join(heartbeat(number) for number in range(3)))
    assert slow.passed_s == pytest.approx(4 * 0.012 + 96 * 0.004)
    while listener.waiting:
        before, begun = slow.passed_s, sum(len(client.answered()) < 3 for client in clients)
        listener.turn()
        assert slow.passed_s - before <= 0.06 + begun * 0.004
    assert all(client.answered() == [0, 1, 2] for client in clients)


def test_a_request_that_comes_alone_costs_no_look_at_the_time() -> None:
    slow = SlowHandler()
    clock = Clock()
    registry = Registry(slow, Limits(), now=Clock(), call_soon=lambda _: None, stopwatch=clock)
    connection = Connection(registry, ENDPOINT)
    transport = FakeTransport(connection, ("127.0.0.1", 1))
    connection.connection_made(transport)
    FakeClient(connection, transport).send(heartbeat(0))
    assert (slow.seen, clock.calls) == ([0], 0)


def test_only_requests_that_come_alone_say_so() -> None:
    """How many others may go on with in a turn is for their connection to say."""
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(1))
    client.send(heartbeat(2) + heartbeat(3))
    client.send(heartbeat(4))
    assert [each.comes_alone for each in handler.exchanges] == [True, False, False, True]


def test_request_before_bytes_that_are_refused_does_not_come_alone() -> None:
    """It can't wait for the next turn: the connection closes in this one, without its answer."""
    handler = ParkingHandler()
    FakeListener(handler).connect().send(heartbeat(1) + b"\xff" * 8)
    assert [each.comes_alone for each in handler.exchanges] == [False]


def test_client_that_sends_long_requests_is_read_from_once_in_a_turn() -> None:
    """Each comes alone, and the event loop reads up to 32 times from who always has more."""
    listener = FakeListener(handler := ParkingHandler())
    client = listener.connect()
    client.send(heartbeat(1))
    assert client.transport.reading
    shares = (SyncGroupRequestAssignment(member_id="m", assignment=b"." * READ_MAX_BYTES),)
    long = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=shares)
    client.send(encode_request(long, 5, 2, "client"))
    assert not client.transport.reading
    client.send(heartbeat(3))  # what was read before the transport knew of it
    assert [each.request.correlation_id for each in handler.exchanges] == [1, 2]
    listener.turn()
    assert client.transport.reading
    assert [each.request.correlation_id for each in handler.exchanges] == [1, 2, 3]
