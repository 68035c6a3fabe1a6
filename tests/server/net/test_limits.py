"""Each limit of space stops, refuses or closes what goes beyond it, and says so."""

from __future__ import annotations

import struct

import pytest

from coterie_server.net import CloseReason, Limits, RefuseReason
from coterie_server.net.registry import LOG_LINES_PER_SWEEP
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import (
    AnsweringHandler,
    FakeClient,
    FakeListener,
    ParkingHandler,
    heartbeat,
)


def test_limits_below_one_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="max_requests_in_flight is 0; it must be at least 1"):
        Limits(max_requests_in_flight=0)


def test_write_limits_are_in_order() -> None:
    """A client cannot be cut off before it is slowed down."""
    with pytest.raises(ValueError, match="must be at least write_buffer_high_bytes"):
        Limits(write_buffer_high_bytes=10, write_buffer_max_bytes=9)


# Connections


def test_connection_over_the_limit_is_refused(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), Limits(max_connections=2))
    kept = [listener.connect(), listener.connect()]
    refused = listener.connect(("192.0.2.7", 50_123))
    assert refused.transport.aborted
    assert not any(client.transport.closing for client in kept)
    assert log == [
        {
            "event": "connection refused",
            "log_level": "warning",
            "reason": "max_connections",
            "limit": 2,
            "found": 2,
            "peer": "192.0.2.7:50123",
            "listener": "default",
        }
    ]


def test_connection_over_the_limit_of_its_address_is_refused(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), Limits(max_connections_per_ip=1))
    listener.connect(("192.0.2.7", 1))
    refused, other = listener.connect(("192.0.2.7", 2)), listener.connect(("192.0.2.8", 1))
    assert (refused.transport.aborted, other.transport.closing) == (True, False)
    assert [(line["reason"], line["limit"], line["peer"]) for line in log] == [
        ("max_connections_per_ip", 1, "192.0.2.7:2")
    ]


def test_refused_connection_is_not_served(log: LogLines) -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_connections=1))
    listener.connect()
    refused = listener.connect()
    refused.send(heartbeat(0))
    refused.lose()
    assert handler.exchanges == []
    stats = listener.registry.stats()
    assert (stats.open, stats.accepted) == (1, 1)
    assert stats.refused[RefuseReason.MAX_CONNECTIONS] == 1
    assert sum(stats.closed.values()) == 0
    assert len(log) == 1


def test_lost_connection_makes_room() -> None:
    listener = FakeListener(AnsweringHandler(), Limits(max_connections=1, max_connections_per_ip=1))
    listener.connect().lose()
    assert not listener.connect().transport.closing


def test_closing_connection_still_counts(log: LogLines) -> None:
    """A connection takes its place until it is lost, or clients could pile up closing ones."""
    listener = FakeListener(AnsweringHandler(), Limits(max_connections=1))
    listener.connect().connection.eof_received()
    assert listener.connect().transport.aborted
    assert len(log) == 1


def test_addresses_are_forgotten_with_their_connections() -> None:
    listener = FakeListener(AnsweringHandler())
    for number in range(3):
        listener.connect((f"2001:db8::{number}", 1)).lose()
    assert not listener.registry.admission._by_address  # noqa: SLF001  # memory shows nowhere else


def test_client_without_a_name_is_served() -> None:
    """The system does not know the address of a client that is gone already."""
    listener = FakeListener(AnsweringHandler())
    client = listener.connect(None)
    client.send(heartbeat(0))
    assert client.answered() == [0]


# Requests in flight


def test_nothing_is_read_at_the_limit_in_flight() -> None:
    client = FakeListener(ParkingHandler(), Limits(max_requests_in_flight=2)).connect()
    client.send(heartbeat(0))
    assert client.transport.reading
    client.send(heartbeat(1))
    assert not client.transport.reading
    assert not client.transport.closing


def test_reading_goes_on_below_the_limit_in_flight() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler, Limits(max_requests_in_flight=2)).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([0])
    assert client.transport.reading


def test_an_answer_behind_an_earlier_request_makes_no_room() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler, Limits(max_requests_in_flight=2)).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([1])
    assert not client.transport.reading


def test_requests_beyond_the_limit_wait() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=2))
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(5)))
    assert len(handler.exchanges) == 2
    handler.answer([0, 1])
    listener.turn()
    assert [exchange.request.correlation_id for exchange in handler.exchanges] == [0, 1, 2, 3]
    assert not client.transport.reading


def test_handler_is_not_called_within_a_reply() -> None:
    """Waiting requests are handed over in the loop's next turn: replying is never re-entrant."""
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=1))
    listener.connect().send(heartbeat(0) + heartbeat(1))
    handler.answer([0])
    assert len(handler.exchanges) == 1
    assert listener.turn() == 1
    assert len(handler.exchanges) == 2


def test_a_long_pipeline_lets_the_loop_turn_even_if_all_is_answered_at_once() -> None:
    handler = AnsweringHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=3))
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(8)))
    seen = [len(handler.seen)]
    while listener.turn():
        seen.append(len(handler.seen))
    assert seen == [3, 6, 8]
    assert client.answered() == list(range(8))
    assert client.transport.reading


def test_many_answers_at_once_are_followed_by_one_turn() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=3))
    listener.connect().send(b"".join(heartbeat(number) for number in range(5)))
    handler.answer([0, 1, 2])
    assert listener.turn() == 1
    assert len(handler.exchanges) == 5


def test_connection_that_closes_forgets_what_waits() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=1))
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1))
    handler.answer([0])
    client.connection.eof_received()
    listener.turn()
    assert len(handler.exchanges) == 1


# Answers that are not read


def stopped_reader(listener: FakeListener) -> FakeClient:
    """A client that does not read."""
    client = listener.connect()
    client.transport.flowing = False
    return client


SMALL = Limits(write_buffer_high_bytes=50, write_buffer_max_bytes=100)
#: A Heartbeat reply as a frame.
REPLY_BYTES = 14


def test_slow_reader_is_not_read_from() -> None:
    client = stopped_reader(FakeListener(AnsweringHandler(), SMALL))
    for number in range(4):
        assert client.transport.reading
        client.send(heartbeat(number))
    assert not client.transport.reading
    assert not client.transport.closing


def test_reader_that_catches_up_is_read_from() -> None:
    client = stopped_reader(FakeListener(AnsweringHandler(), SMALL))
    client.send(*(heartbeat(number) for number in range(4)))
    client.transport.drain()
    assert client.transport.reading
    assert client.answered() == [0, 1, 2, 3]


def test_slow_reader_with_waiting_requests_goes_on_when_it_caught_up() -> None:
    """Requests that were read already wait as well, and are handled afterwards."""
    handler = AnsweringHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=4, write_buffer_high_bytes=50))
    client = stopped_reader(listener)
    client.send(b"".join(heartbeat(number) for number in range(6)))
    assert listener.turn() == 0
    assert handler.seen == [0, 1, 2, 3]
    client.transport.drain()
    listener.turn()
    assert handler.seen == [0, 1, 2, 3, 4, 5]
    assert client.transport.reading


def test_waiting_requests_wait_for_a_reader_that_just_fell_behind() -> None:
    """Room was made for them, but before the loop's next turn the client stopped reading."""
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=2, write_buffer_high_bytes=10))
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(3)))
    handler.answer([0])
    client.transport.flowing = False
    handler.answer([1])
    listener.turn()
    assert len(handler.exchanges) == 2
    client.transport.drain()
    listener.turn()
    assert len(handler.exchanges) == 3


def test_reader_too_far_behind_is_cut_off(log: LogLines) -> None:
    """Parked answers are not added to the unsent bytes."""
    handler = ParkingHandler()
    listener = FakeListener(handler, SMALL)
    client = stopped_reader(listener)
    client.send(b"".join(heartbeat(number) for number in range(20)))
    handler.answer(range(20))
    client.lose()
    assert client.transport.aborted
    assert client.transport.writes * REPLY_BYTES == 112
    assert listener.registry.stats().closed[CloseReason.UNREAD_REPLIES] == 1
    line = log[0]
    assert (line["reason"], line["peer"]) == ("write_buffer_max_bytes", "127.0.0.1:4711")
    assert (line["limit"], line["found"], line["in_flight"]) == (100, 112, 12)


def test_one_large_answer_is_not_cut_off() -> None:
    """How large an answer gets is not the client's doing: it has time to read it."""
    handler = ParkingHandler()
    listener = FakeListener(handler, SMALL)
    client = stopped_reader(listener)
    client.send(b"".join(heartbeat(number) for number in range(8)))
    handler.answer([*range(1, 8), 0])  # all in one piece
    assert client.transport.get_write_buffer_size() == 8 * REPLY_BYTES > 100
    client.transport.drain()
    assert client.answered() == list(range(8))
    assert client.transport.reading


# Frames that are not whole


def announce(size: int, sent: int) -> bytes:
    """The beginning of a frame."""
    return struct.pack(">i", size) + b"x" * sent


def test_largest_unfinished_frame_is_cut_off(log: LogLines) -> None:
    """And not a small one that was in pieces at the wrong moment."""
    listener = FakeListener(AnsweringHandler(), Limits(unfinished_frames_max_bytes=1_000))
    large, small = listener.connect(("192.0.2.7", 1)), listener.connect()
    large.send(announce(2_000, 990))
    small.send(heartbeat(0)[:10])
    assert (large.transport.closing, small.transport.closing) == (True, False)
    assert [(line["reason"], line["peer"], line["limit"], line["found"]) for line in log] == [
        ("unfinished_frames_max_bytes", "192.0.2.7:1", 1_000, 1_004)
    ]
    small.send(heartbeat(0)[10:])
    assert small.answered() == [0]


def test_unfinished_frame_can_cut_off_itself(log: LogLines) -> None:
    """The largest may be the one that just grew; the requests it brought along are dropped."""
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(unfinished_frames_max_bytes=1_000))
    client = listener.connect()
    client.send(heartbeat(0) + announce(2_000, 1_500))
    assert client.transport.closing
    assert handler.exchanges == []
    assert len(log) == 1


def test_unfinished_bytes_are_given_back() -> None:
    listener = FakeListener(AnsweringHandler())
    finishing, closing, losing = listener.connect(), listener.connect(), listener.connect()
    for client in (finishing, closing, losing):
        client.send(heartbeat(0)[:10])
    assert listener.registry.unfinished_bytes == 30
    finishing.send(heartbeat(0)[10:])
    assert listener.registry.unfinished_bytes == 20
    closing.connection.eof_received()
    assert listener.registry.unfinished_bytes == 10
    losing.lose()
    assert listener.registry.unfinished_bytes == 0
    closing.lose()
    assert listener.registry.unfinished_bytes == 0


def test_unfinished_frame_of_the_same_length_as_its_beginning_is_accounted() -> None:
    """A piece as long as a frame need not be one: it can be an end and a beginning."""
    listener = FakeListener(AnsweringHandler())
    client = listener.connect()
    whole = heartbeat(0)
    half = len(whole) // 2
    client.send(whole[:half])
    client.send(whole[half:] + heartbeat(1)[:half])
    assert client.answered() == [0]
    assert listener.registry.unfinished_bytes == half


# The log and the counts


def test_log_does_not_grow_with_the_number_of_attackers(log: LogLines) -> None:
    """Between two sweeps only so many lines are written; how many more there were is summed up."""
    listener = FakeListener(AnsweringHandler(), Limits(max_connections=1))
    for _ in range(LOG_LINES_PER_SWEEP + 11):
        listener.connect()
    assert len(log) == LOG_LINES_PER_SWEEP
    listener.pass_time(1)
    assert log[-1] == {
        "event": "more connections refused or closed",
        "log_level": "warning",
        "lines": 10,
    }
    listener.connect()
    assert log[-1]["event"] == "connection refused"


def test_log_does_not_grow_with_what_a_client_says(log: LogLines) -> None:
    FakeListener(AnsweringHandler()).registry.log("event", why=f"it says {'x' * 500_000}", bytes=7)
    assert len(log[0]["why"]) < 1000
    assert log[0]["why"].startswith("it says xxx")
    assert log[0]["bytes"] == 7


def test_stats_count_what_happened() -> None:
    handler = AnsweringHandler("slow")
    listener = FakeListener(handler)
    client, other = listener.connect(), listener.connect()
    client.send(heartbeat(0), heartbeat(1, member_id="slow"), heartbeat(2))
    other.lose()
    stats = listener.registry.stats()
    assert (stats.open, stats.accepted, stats.in_flight, stats.requests) == (1, 2, 2, 3)
    assert stats.bytes_in == len(heartbeat(0)) * 2 + len(heartbeat(1, member_id="slow"))
    assert stats.bytes_out == REPLY_BYTES
    assert stats.closed[CloseReason.PEER] == 1
    assert set(stats.closed) == set(CloseReason)
    assert set(stats.refused) == set(RefuseReason)


def test_stats_are_a_snapshot() -> None:
    listener = FakeListener(AnsweringHandler())
    before = listener.registry.stats()
    listener.connect().lose()
    assert before.closed[CloseReason.PEER] == 0
