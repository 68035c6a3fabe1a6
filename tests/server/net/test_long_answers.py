"""Answers that are finished and encoded in the loop's next turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_protocol import ApiKey, decode_response, encode_request, response_class
from coterie_protocol.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie_server.net import CloseReason, Exchange, Limits
from coterie_server.turns import AT_ONCE, Making, Piece, begin, each
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import FakeClient, FakeListener, heartbeat, ok

VERSION = 4
LENGTH = AT_ONCE * 3 + 1
#: The heartbeat that is answered when a test says so.
PARKED = 1
LIST = encode_request(ListGroupsRequest(), VERSION, 7, "client")


def listed(number: int) -> ListedGroup:
    """A group in a list."""
    return ListedGroup(group_id=f"group-{number}", protocol_type="consumer")


def beats() -> Making[Any]:
    """Make the answer to a heartbeat, in more than one piece."""
    yield
    yield
    return ok(PARKED)


class Lister:
    """A handler with a long list of groups; it answers heartbeats at once, but for one."""

    def __init__(self, make: Callable[[int], Any] = listed) -> None:
        self.made = 0
        self.exchanges: list[Exchange] = []
        self._make = make

    def handle(self, exchange: Exchange) -> None:
        """Begin the answer."""
        self.exchanges.append(exchange)
        if isinstance(exchange.message, ListGroupsRequest):
            exchange.reply(begin(self.tell()))
        elif exchange.request.correlation_id != PARKED:
            exchange.reply(ok(exchange.request.correlation_id))

    def tell(self) -> Making[ListGroupsResponse]:
        """Make the answer."""
        return ListGroupsResponse(groups=(yield from each(range(LENGTH), self._count, Piece())))

    def _count(self, number: int) -> Any:
        self.made += 1
        return self._make(number)


def answers(client: FakeClient) -> list[ListGroupsResponse]:
    """The lists that a client has read."""
    cls = response_class(ApiKey.LIST_GROUPS)
    return [decode_response(cls, VERSION, payload)[1] for payload in client.payloads()]


def run(listener: FakeListener) -> None:
    """Let the loop turn until there is nothing to do."""
    while listener.turn():
        pass


def test_each_turn_makes_one_piece() -> None:
    handler = Lister()
    listener = FakeListener(handler)
    listener.connect().send(LIST)
    for pieces in (1, 2, 3):
        assert handler.made == AT_ONCE * pieces
        listener.turn()
    run(listener)
    assert handler.made == LENGTH


def test_the_whole_list_arrives_in_one_answer() -> None:
    listener = FakeListener(Lister())
    client = listener.connect()
    client.send(LIST)
    run(listener)
    (answer,) = answers(client)
    assert answer.groups == tuple(map(listed, range(LENGTH)))


def test_others_are_answered_meanwhile() -> None:
    listener = FakeListener(Lister())
    asking, other = listener.connect(), listener.connect()
    asking.send(LIST)
    other.send(heartbeat(0))
    assert (asking.payloads(), other.answered()) == ([], [0])


def test_what_the_same_client_asked_later_is_answered_later() -> None:
    listener = FakeListener(Lister())
    client = listener.connect()
    client.send(LIST + heartbeat(8))
    assert not client.payloads()
    run(listener)
    assert [int.from_bytes(payload[:4]) for payload in client.payloads()] == [7, 8]


def test_an_answer_is_not_finished_for_a_client_that_has_gone() -> None:
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(LIST)
    client.lose()
    run(listener)
    assert handler.made == AT_ONCE


def test_a_second_answer_while_the_first_is_made_is_a_bug() -> None:
    handler = Lister()
    FakeListener(handler).connect().send(LIST)
    with pytest.raises(AssertionError, match="a second reply to ListGroups"):
        handler.exchanges[0].reply(ListGroupsResponse(groups=()))


@pytest.mark.parametrize("bad", [LENGTH - 1, 0])
def test_an_answer_that_can_not_be_encoded_closes_the_connection(bad: int, log: LogLines) -> None:
    def make(number: int) -> Any:
        return "no group" if number == bad else listed(number)

    listener = FakeListener(Lister(make))
    client = listener.connect()
    client.send(LIST)
    run(listener)
    assert client.transport.closing
    assert not client.payloads()
    assert [line["log_level"] for line in log] == ["error"]
    client.lose()
    assert listener.registry.stats().closed[CloseReason.BUG] == 1


def test_an_answer_that_can_not_be_finished_closes_the_connection(log: LogLines) -> None:
    def make(number: int) -> Any:
        return listed(number) if number < AT_ONCE else 1 // 0

    listener = FakeListener(Lister(make))
    client = listener.connect()
    client.send(LIST)
    run(listener)
    assert client.transport.closing
    assert [line["log_level"] for line in log] == ["error"]


def test_an_answer_that_gets_too_long_ends_the_connection_before_it_is_whole(
    log: LogLines,
) -> None:
    listener = FakeListener(
        Lister(), Limits(write_buffer_high_bytes=1000, write_buffer_max_bytes=1000)
    )
    client = listener.connect()
    client.send(LIST)
    run(listener)
    assert client.transport.closing
    assert not client.payloads()
    assert "connection.write.buffer.max.bytes" in log[0]["why"]
    assert len(listener.registry.turns) == 0
    client.lose()
    assert listener.registry.stats().closed[CloseReason.HANDLER] == 1


def test_who_asks_and_goes_leaves_nothing_behind() -> None:
    """Or else a flood of such clients would fill the memory, behind one that still waits."""
    listener = FakeListener(Lister())
    listener.connect().send(LIST)
    for _ in range(100):
        client = listener.connect()
        client.send(LIST)
        client.lose()
    assert len(listener.registry.turns) == 1


def test_a_client_has_one_long_answer_made_at_a_time() -> None:
    """What is begun holds much more memory than what was asked."""
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(LIST * 3, heartbeat(8))
    assert len(handler.exchanges) == 1
    assert not client.transport.reading
    run(listener)
    assert [int.from_bytes(payload[:4]) for payload in client.payloads()] == [7, 7, 7, 8]
    assert client.transport.reading


def test_many_long_answers_to_one_client_keep_no_other_waiting_for_all_of_them() -> None:
    listener = FakeListener(Lister())
    greedy, other = listener.connect(), listener.connect()
    greedy.send(LIST * 50)
    other.send(LIST)
    while not other.payloads():
        listener.turn()
    assert len(greedy.payloads()) <= 2


def test_what_follows_a_long_answer_is_taken_also_if_an_earlier_one_is_parked() -> None:
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(heartbeat(PARKED), LIST, heartbeat(8))
    run(listener)
    parked, *others = handler.exchanges
    assert [each.request.correlation_id for each in others] == [7, 8]
    parked.reply(ok())
    assert [int.from_bytes(payload[:4]) for payload in client.payloads()] == [PARKED, 7, 8]


def test_what_follows_a_long_answer_that_comes_late_waits_until_it_is_made() -> None:
    """As of a shard that stores first, and then answers what it was asked meanwhile."""
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(heartbeat(PARKED))
    handler.exchanges[0].reply(begin(beats()))
    client.send(heartbeat(8), heartbeat(9))
    assert (len(handler.exchanges), client.transport.reading) == (1, False)
    run(listener)
    assert (client.answered(), client.transport.reading) == ([PARKED, 8, 9], True)


def test_that_a_client_goes_is_seen_while_its_long_answer_is_made() -> None:
    """What nobody waits for is not made, so it is read from unless it has sent more."""
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(LIST)
    assert client.transport.reading
    client.connection.eof_received()
    run(listener)
    assert handler.made == AT_ONCE


def test_what_comes_behind_an_answer_keeps_no_client_from_being_read() -> None:
    """Who hands out a request may be answered meanwhile, and takes further turns in vain."""
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(heartbeat(8))
    handler.exchanges[0].take_turns()
    client.send(heartbeat(9))
    assert (client.answered(), client.transport.reading) == ([8, 9], True)


def test_what_comes_behind_an_answer_keeps_none_from_being_forgotten() -> None:
    handler = Lister()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(LIST)
    handler.exchanges[0].when_gone(None)
    client.lose()
    assert len(listener.registry.turns) == 0
