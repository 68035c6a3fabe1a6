"""One client's pipeline, however long its requests take, leaves time for others."""

from __future__ import annotations

from coterie_server.net import Exchange, Limits
from coterie_server.net.connection import Connection
from coterie_server.net.registry import Registry
from tests.server.net.doubles import ADVERTISED, Clock, FakeTransport, Room, Visit, heartbeat, ok


class Slow:
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


def enter(room: Room, slow: Slow) -> Visit:
    """Let a client into a room where time is what the handler takes."""
    room.registry.stopwatch = slow.stopwatch
    return room.visit()


def test_pipeline_is_worked_off_in_turns() -> None:
    """After ten milliseconds it is the others' turn; what is left comes later, in order."""
    slow = Slow()
    room = Room(slow)
    visit = enter(room, slow)
    visit.send(b"".join(heartbeat(number) for number in range(8)))
    assert visit.answered() == [0, 1, 2]
    assert room.turn() == 1
    assert visit.answered() == [0, 1, 2, 3, 4, 5]
    assert room.turn() == 1
    assert visit.answered() == [*range(8)]
    assert room.turn() == 0


def test_nothing_is_read_while_a_pipeline_waits() -> None:
    """The client's next requests stay where they are until its earlier ones are handled."""
    slow = Slow()
    room = Room(slow)
    visit = enter(room, slow)
    visit.send(b"".join(heartbeat(number) for number in range(4)))
    assert not visit.transport.reading
    room.turn()
    assert visit.transport.reading


def test_two_pipelines_take_turns() -> None:
    """Neither has to wait until the other is through."""
    slow = Slow()
    room = Room(slow)
    first, second = enter(room, slow), room.visit()
    first.send(b"".join(heartbeat(number) for number in range(6)))
    second.send(b"".join(heartbeat(number) for number in range(10, 16)))
    assert slow.seen == [0, 1, 2, 10, 11, 12]
    room.turn()
    assert slow.seen == [0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15]


def test_single_requests_are_not_timed() -> None:
    """A request that comes alone, as nearly all do, costs no look at the time."""
    slow = Slow()
    clock = Clock()
    registry = Registry(slow, Limits(), now=Clock(), call_soon=lambda _: None, stopwatch=clock)
    connection = Connection(registry, ADVERTISED)
    transport = FakeTransport(connection, ("127.0.0.1", 1))
    connection.connection_made(transport)
    Visit(connection, transport).send(heartbeat(0))
    assert (slow.seen, clock.calls) == ([0], 0)
