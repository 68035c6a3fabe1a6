"""Requests that had to wait for something have no more of a turn than those that come."""

from __future__ import annotations

from functools import partial
from typing import cast

import pytest

from coterie_protocol import encode_request
from coterie_protocol.messages import ListGroupsRequest, ListGroupsResponse
from coterie_server.net import Exchange, Limits
from coterie_server.node_handler import NodeHandler
from coterie_server.serving.node import Node
from coterie_server.turns import AT_ONCE, Making, Piece, begin, each
from tests.server.net.doubles import FakeClient, FakeListener, heartbeat, ok

LIST = encode_request(ListGroupsRequest(), 4, 7, "client")


class Waiting:
    """A handler of which the requests wait until a test lets them go on.

    Each takes four milliseconds then.  Lists are long, and are answered in turns.
    """

    def __init__(self) -> None:
        self.waiting: list[Exchange] = []
        self.seen: list[int] = []
        self.passed_s = 0.0
        self.is_open = False
        self.lists_begun = 0

    def handle(self, exchange: Exchange) -> None:
        """Keep it, or go on with it."""
        if self.is_open:
            self.go_on(exchange)
        else:
            self.waiting.append(exchange)

    def open(self) -> None:
        """Let all go that wait, and all that come."""
        self.is_open = True
        for exchange in self.waiting:
            exchange.resume(partial(self.go_on, exchange))

    def go_on(self, exchange: Exchange) -> None:
        """Take the time, then reply."""
        self.passed_s += 0.004
        self.seen.append(exchange.request.correlation_id)
        if isinstance(exchange.message, ListGroupsRequest):
            exchange.reply(begin(self._list()))
        else:
            exchange.reply(ok(exchange.request.correlation_id))

    def _list(self) -> Making[ListGroupsResponse]:
        self.lists_begun += 1
        yield from each(range(AT_ONCE * 3), int, Piece())
        return ListGroupsResponse(groups=())


def listen(waiting: Waiting, limits: Limits | None = None) -> FakeListener:
    """A listener for which only the handler takes time."""
    listener = FakeListener(waiting, limits)
    listener.registry.stopwatch = lambda: waiting.passed_s
    return listener


def run(listener: FakeListener) -> None:
    """Let the loop turn until there is nothing to do."""
    for _ in range(1000):
        if not listener.turn():
            return
    raise AssertionError("it never ends")


def numbers(client: FakeClient) -> list[int]:
    """By which numbers the client has been answered."""
    return [int.from_bytes(payload[:4]) for payload in client.payloads()]


def test_what_has_waited_is_not_handled_where_it_is_let_go() -> None:
    listener = listen(waiting := Waiting())
    listener.connect().send(heartbeat(0))
    waiting.open()
    assert waiting.seen == []
    assert listener.turn() == 1
    assert waiting.seen == [0]


def test_many_that_have_waited_let_others_in_after_ten_milliseconds() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(8)))
    waiting.open()
    listener.turn()
    assert client.answered() == [0, 1, 2]
    listener.turn()
    assert client.answered() == [0, 1, 2, 3, 4, 5]
    run(listener)
    assert client.answered() == [*range(8)]


def test_what_has_waited_is_not_alone_when_it_goes_on() -> None:
    """A hundred may have waited that each came alone, and would all be taken in one turn."""
    client = listen(waiting := Waiting()).connect()
    for number in range(2):
        client.send(heartbeat(number))
    assert [each.comes_alone for each in waiting.waiting] == [True, True]
    waiting.open()
    assert [each.comes_alone for each in waiting.waiting] == [False, False]


def test_many_clients_that_have_waited_share_fifty_milliseconds_of_each_turn() -> None:
    listener = listen(waiting := Waiting())
    clients = [listener.connect() for _ in range(100)]
    for client in clients:
        client.send(b"".join(heartbeat(number) for number in range(3)))
    waiting.open()
    listener.turn()
    assert waiting.passed_s == pytest.approx(4 * 0.012 + 96 * 0.004)
    run(listener)
    assert all(client.answered() == [0, 1, 2] for client in clients)


def test_nothing_that_comes_overtakes_what_has_waited() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(5)))
    waiting.open()
    assert not client.transport.reading
    client.send(heartbeat(5))
    run(listener)
    assert waiting.seen == [*range(6)]
    assert client.transport.reading


def test_what_has_waited_goes_on_in_the_order_of_its_connection() -> None:
    """Whoever kept it: requests to several shards are let go by one shard after the other."""
    listener = listen(waiting := Waiting())
    listener.connect().send(*map(heartbeat, range(4)))
    waiting.waiting.reverse()
    waiting.open()
    run(listener)
    assert waiting.seen == [0, 1, 2, 3]


def test_a_client_has_one_long_answer_made_at_a_time_also_of_those_that_have_waited() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(LIST * 5)
    waiting.open()
    listener.turn()
    assert waiting.lists_begun == 1
    while listener.turn():
        assert waiting.lists_begun <= len(client.payloads()) + 1
    assert numbers(client) == [7] * 5
    assert client.transport.reading


def test_the_loop_rests_while_what_has_waited_waits_for_a_long_answer() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1))
    waiting.waiting[1].take_turns()
    waiting.waiting[0].resume(partial(waiting.go_on, waiting.waiting[0]))
    assert (listener.turn(), waiting.seen) == (0, [])
    waiting.go_on(waiting.waiting[1])
    run(listener)
    assert client.answered() == [0, 1]


def test_a_long_answer_does_not_wait_for_itself() -> None:
    """Parts of a request for which turns are taken may have waited, with others before it."""
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1))
    waiting.waiting[1].take_turns()
    waiting.open()
    run(listener)
    assert client.answered() == [0, 1]
    assert client.transport.reading


def test_nothing_is_done_for_a_client_that_goes_when_it_is_let_go() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1))
    waiting.open()
    client.lose()
    waiting.waiting[0].resume(partial(waiting.go_on, waiting.waiting[0]))
    run(listener)
    assert waiting.seen == []


def test_what_has_waited_is_answered_by_a_listener_that_stops() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1))
    listener.registry.stop()
    waiting.open()
    run(listener)
    assert client.answered() == [0, 1]
    assert client.transport.closing


def test_what_has_waited_waits_for_a_reader_that_fell_behind() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0))
    client.connection.pause_writing()
    waiting.open()
    assert (listener.turn(), waiting.seen) == (0, [])
    client.connection.resume_writing()
    run(listener)
    assert client.answered() == [0]


def test_bytes_that_make_no_sense_end_the_connection_behind_what_has_waited() -> None:
    listener = listen(waiting := Waiting())
    client = listener.connect()
    client.send(heartbeat(0))
    waiting.open()
    client.send(b"\xff" * 8)
    assert not client.transport.closing
    run(listener)
    assert client.answered() == [0]
    assert client.transport.closing


def test_what_has_waited_first_does_not_wait_for_what_is_ready_behind_it() -> None:
    """However much that is: it could not be sent, and the client would wait for ever."""
    listener = listen(waiting := Waiting(), Limits(write_buffer_high_bytes=20))
    client = listener.connect()
    client.send(*map(heartbeat, range(4)))
    for number in (1, 2):
        waiting.go_on(waiting.waiting[number])
    waiting.waiting[3].resume(partial(waiting.go_on, waiting.waiting[3]))
    assert listener.turn() == 0  # it is not first, and too much is ready
    waiting.waiting[0].resume(partial(waiting.go_on, waiting.waiting[0]))
    run(listener)
    assert client.answered() == [0, 1, 2, 3]
    assert client.transport.reading


def test_what_came_before_the_node_was_ready_is_handled_in_turns() -> None:
    handler = NodeHandler(None)
    listener = FakeListener(handler)
    node = Waiting()
    node.is_open = True
    listener.registry.stopwatch = lambda: node.passed_s
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(8)))
    handler.open(cast(Node, node))
    assert node.seen == []
    listener.turn()
    assert node.seen == [0, 1, 2]
    run(listener)
    assert client.answered() == [*range(8)]
