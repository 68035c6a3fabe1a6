"""Requests of which only a part is asked, and whose answers are completed on their way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie_protocol import encode_request
from coterie_protocol.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie_server.net import Exchange
from coterie_server.turns import AT_ONCE, Making, Piece, begin, each
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import FakeClient, FakeListener
from tests.server.net.test_long_answers import answers, run

VERSION = 4
LIST = encode_request(ListGroupsRequest(), VERSION, 7, "client")
NARROWER = ListGroupsRequest(states_filter=("Empty",))


def listed(number: int) -> ListedGroup:
    """A group in a list."""
    return ListedGroup(group_id=f"group-{number}", protocol_type="consumer")


def with_one_more(answer: ListGroupsResponse) -> ListGroupsResponse:
    """What was refused, beside what was asked."""
    return replace(answer, groups=(*answer.groups, listed(-1)))


class Narrowing:
    """A handler that asks for less than its clients do."""

    def __init__(self, length: int, complete: Any = with_one_more) -> None:
        self.length, self.complete = length, complete
        self.asked: list[Any] = []

    def handle(self, exchange: Exchange) -> None:
        """Narrow the request, then answer it as another part of the node does."""
        exchange.narrow(NARROWER, self.complete)
        self.asked.append(exchange.message)
        exchange.reply(begin(self._list()))

    def _list(self) -> Making[ListGroupsResponse]:
        return ListGroupsResponse(groups=(yield from each(range(self.length), listed, Piece())))


def ask(handler: Narrowing) -> FakeClient:
    """Have a client ask, and the loop turn until it is answered."""
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(LIST)
    run(listener)
    return client


def test_a_narrowed_request_is_answered_as_a_whole() -> None:
    handler = Narrowing(2)
    (answer,) = answers(ask(handler))
    assert handler.asked == [NARROWER]
    assert [group.group_id for group in answer.groups] == ["group-0", "group-1", "group--1"]


def test_a_long_answer_is_completed_when_it_is_finished() -> None:
    (answer,) = answers(ask(Narrowing(AT_ONCE * 2 + 1)))
    assert len(answer.groups) == AT_ONCE * 2 + 2
    assert answer.groups[-1].group_id == "group--1"


def test_the_completion_of_a_long_answer_takes_turns_as_well() -> None:
    def complete(answer: ListGroupsResponse) -> Any:
        def making() -> Making[ListGroupsResponse]:
            def shout(group: ListedGroup) -> ListedGroup:
                return replace(group, group_id=group.group_id.upper())

            return replace(answer, groups=(yield from each(answer.groups, shout, Piece())))

        return begin(making())

    for length in (3, AT_ONCE * 2 + 1):
        (answer,) = answers(ask(Narrowing(length, complete)))
        assert len(answer.groups) == length
        assert {group.group_id[:6] for group in answer.groups} == {"GROUP-"}


def test_an_answer_that_can_not_be_completed_closes_the_connection(log: LogLines) -> None:
    """A bug; the client must not be left waiting."""

    def fail(_answer: Any) -> Any:
        raise AssertionError("a bug")

    listener = FakeListener(Narrowing(2, fail))
    client = listener.connect()
    client.send(LIST)
    assert client.transport.is_closing()
    assert "a bug" in log[0]["error"]
