"""Replies leave a connection in the order of its requests, however both come about."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.net import Limits
from tests.server.net.doubles import AnsweringHandler, FakeListener, ParkingHandler, heartbeat, ok


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_replies_leave_in_request_order(order: tuple[int, ...]) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(b"".join(heartbeat(number) for number in range(4)))
    handler.answer(order)
    assert client.answered() == [0, 1, 2, 3]


def test_reply_waits_for_an_earlier_one() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([1])
    assert client.answered() == []


def test_the_first_requests_reply_is_sent_at_once() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([0])
    assert client.answered() == [0]


def test_waiting_replies_are_written_in_one_piece() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(*(heartbeat(number) for number in range(5)))
    handler.answer([1, 2, 3, 0])
    assert (client.answered(), client.transport.writes) == ([0, 1, 2, 3], 1)


def test_pipelined_requests_are_answered_in_one_write() -> None:
    client = FakeListener(AnsweringHandler()).connect()
    client.send(b"".join(heartbeat(number) for number in range(10)))
    assert (client.answered(), client.transport.writes) == (list(range(10)), 1)


def test_connections_do_not_wait_for_each_other() -> None:
    handler = AnsweringHandler("slow")
    listener = FakeListener(handler)
    parked, other = listener.connect(), listener.connect()
    parked.send(heartbeat(0, member_id="slow"))
    other.send(heartbeat(1))
    assert (parked.answered(), other.answered()) == ([], [1])


def test_each_reply_is_encoded_in_the_version_of_its_request() -> None:
    """Version 0 of Heartbeat has no throttle time: its reply is four bytes shorter."""
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0, version=0), heartbeat(1, version=1))
    for exchange in handler.exchanges:
        exchange.reply(ok())
    assert [len(payload) for payload in client.payloads()] == [6, 10]


def test_second_reply_is_refused() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([1])
    with pytest.raises(AssertionError, match="a second reply to Heartbeat"):
        handler.answer([1])


def test_second_reply_is_refused_after_the_first_was_sent() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0))
    handler.answer([0])
    with pytest.raises(AssertionError, match="a second reply"):
        handler.answer([0])
    assert client.answered() == [0]


@given(data=st.data())
def test_any_split_of_any_pipeline_gives_the_same_replies(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12), label="requests")
    parked = data.draw(st.sets(st.integers(0, count - 1)), label="parked")
    limit = data.draw(st.integers(1, 14), label="limit in flight")
    stream = b"".join(
        heartbeat(number, member_id="slow" if number in parked else "m" * (number * 7))
        for number in range(count)
    )
    cuts = data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=20), label="cuts")
    handler = AnsweringHandler("slow")
    listener = FakeListener(handler, Limits(max_requests_in_flight=limit))
    client = listener.connect()
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:stop] for start, stop in itertools.pairwise(edges)]
    # As a network would: nothing comes in while reading is paused, and parked requests are
    # answered in any order at any time.
    moved = True
    while moved:
        moved = bool(listener.turn())
        may_send = bool(pieces) and client.transport.reading
        answer_first: bool = bool(handler.parked) and data.draw(st.booleans(), label="answer first")
        if may_send and not answer_first:
            client.send(pieces.pop(0))
            moved = True
        elif handler.parked:
            index = data.draw(st.integers(0, len(handler.parked) - 1), label="answered")
            exchange = handler.parked.pop(index)
            exchange.reply(ok(exchange.request.correlation_id))
            moved = True
    assert client.answered() == list(range(count))
    assert handler.seen == list(range(count))
    assert client.transport.reading


@given(data=st.data())
def test_any_split_handles_what_comes_before_garbage(data: st.DataObject) -> None:
    broken = data.draw(
        st.sampled_from(
            [
                b"\x7f\xff\xff\xff",  # a size beyond any limit
                b"\xff\xff\xff\xff",  # a negative size
                b"\x00\x00\x00\x02\x00\x0c",  # a header that ends in the API's number
                b"\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x07\xff\xff",  # API 999
            ]
        ),
        label="broken",
    )
    stream = heartbeat(0) + heartbeat(1) + broken + heartbeat(2)
    cuts = data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=10), label="cuts")
    listener = FakeListener(AnsweringHandler())
    client = listener.connect()
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(stream)]):
        client.send(stream[start:stop])
    assert client.answered() == [0, 1]
    assert client.transport.closing
