"""Answers that are finished and encoded in the loop's next turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_protocol import ApiKey, decode_response, encode_request, response_class
from coterie_protocol.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie_server.net import CloseReason, Exchange
from coterie_server.turns import AT_ONCE, Making, Piece, begin, each
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import FakeClient, FakeListener, heartbeat, ok

VERSION = 4
LENGTH = AT_ONCE * 3 + 1
LIST = encode_request(ListGroupsRequest(), VERSION, 7, "client")


def listed(number: int) -> ListedGroup:
    """A group in a list."""
    return ListedGroup(group_id=f"group-{number}", protocol_type="consumer")


class Lister:
    """A handler with a long list of groups; it answers heartbeats at once."""

    def __init__(self, make: Callable[[int], Any] = listed) -> None:
        self.made = 0
        self.exchanges: list[Exchange] = []
        self._make = make

    def handle(self, exchange: Exchange) -> None:
        """Begin the answer."""
        self.exchanges.append(exchange)
        if isinstance(exchange.message, ListGroupsRequest):
            exchange.reply(begin(self._list()))
        else:
            exchange.reply(ok(exchange.request.correlation_id))

    def _list(self) -> Making[ListGroupsResponse]:
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
