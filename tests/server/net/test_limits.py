"""Each limit of space stops, refuses or closes what goes beyond it, and says so."""

from __future__ import annotations

import struct

import pytest

from coterie_server.net import CloseReason, Limits, RefuseReason
from coterie_server.net.registry import LOG_LINES_PER_SWEEP
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import Answering, Parking, Room, Visit, heartbeat


def test_limits_below_one_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="max_requests_in_flight is 0; it must be at least 1"):
        Limits(max_requests_in_flight=0)


def test_write_limits_are_in_order() -> None:
    """A client cannot be cut off before it is slowed down."""
    with pytest.raises(ValueError, match="must be at least write_buffer_high_bytes"):
        Limits(write_buffer_high_bytes=10, write_buffer_max_bytes=9)


# Connections


def test_connection_over_the_limit_is_refused(log: LogLines) -> None:
    room = Room(Answering(), Limits(max_connections=2))
    kept = [room.visit(), room.visit()]
    refused = room.visit(("192.0.2.7", 50_123))
    assert refused.transport.aborted
    assert not any(visit.transport.closing for visit in kept)
    assert log == [
        {
            "event": "connection refused",
            "log_level": "warning",
            "reason": "max_connections",
            "limit": 2,
            "found": 2,
            "peer": "192.0.2.7:50123",
        }
    ]


def test_connection_over_the_limit_of_its_address_is_refused(log: LogLines) -> None:
    room = Room(Answering(), Limits(max_connections_per_ip=1))
    room.visit(("192.0.2.7", 1))
    refused, other = room.visit(("192.0.2.7", 2)), room.visit(("192.0.2.8", 1))
    assert (refused.transport.aborted, other.transport.closing) == (True, False)
    assert [(line["reason"], line["limit"], line["peer"]) for line in log] == [
        ("max_connections_per_ip", 1, "192.0.2.7:2")
    ]


def test_refused_connection_is_not_served(log: LogLines) -> None:
    handler = Parking()
    room = Room(handler, Limits(max_connections=1))
    room.visit()
    refused = room.visit()
    refused.send(heartbeat(0))
    refused.lose()
    assert handler.exchanges == []
    stats = room.registry.stats()
    assert (stats.open, stats.accepted) == (1, 1)
    assert stats.refused[RefuseReason.MAX_CONNECTIONS] == 1
    assert sum(stats.closed.values()) == 0
    assert len(log) == 1


def test_lost_connection_makes_room() -> None:
    room = Room(Answering(), Limits(max_connections=1, max_connections_per_ip=1))
    room.visit().lose()
    assert not room.visit().transport.closing


def test_closing_connection_still_counts(log: LogLines) -> None:
    """A connection takes its place until it is lost, or clients could pile up closing ones."""
    room = Room(Answering(), Limits(max_connections=1))
    room.visit().connection.eof_received()
    assert room.visit().transport.aborted
    assert len(log) == 1


def test_addresses_are_forgotten_with_their_connections() -> None:
    room = Room(Answering())
    for number in range(3):
        room.visit((f"2001:db8::{number}", 1)).lose()
    assert not room.registry._per_address  # noqa: SLF001  # memory shows nowhere else


def test_client_without_a_name_is_served() -> None:
    """The system does not know the address of a client that is gone already."""
    room = Room(Answering())
    visit = room.visit(None)
    visit.send(heartbeat(0))
    assert visit.answered() == [0]


# Requests in flight


def test_nothing_is_read_at_the_limit_in_flight() -> None:
    visit = Room(Parking(), Limits(max_requests_in_flight=2)).visit()
    visit.send(heartbeat(0))
    assert visit.transport.reading
    visit.send(heartbeat(1))
    assert not visit.transport.reading
    assert not visit.transport.closing


def test_reading_goes_on_below_the_limit_in_flight() -> None:
    handler = Parking()
    visit = Room(handler, Limits(max_requests_in_flight=2)).visit()
    visit.send(heartbeat(0), heartbeat(1))
    handler.answer([0])
    assert visit.transport.reading


def test_an_answer_behind_an_earlier_request_makes_no_room() -> None:
    handler = Parking()
    visit = Room(handler, Limits(max_requests_in_flight=2)).visit()
    visit.send(heartbeat(0), heartbeat(1))
    handler.answer([1])
    assert not visit.transport.reading


def test_requests_beyond_the_limit_wait() -> None:
    handler = Parking()
    room = Room(handler, Limits(max_requests_in_flight=2))
    visit = room.visit()
    visit.send(b"".join(heartbeat(number) for number in range(5)))
    assert len(handler.exchanges) == 2
    handler.answer([0, 1])
    room.turn()
    assert [exchange.request.correlation_id for exchange in handler.exchanges] == [0, 1, 2, 3]
    assert not visit.transport.reading


def test_handler_is_not_called_within_a_reply() -> None:
    """Waiting requests are handed over in the loop's next turn: replying is never re-entrant."""
    handler = Parking()
    room = Room(handler, Limits(max_requests_in_flight=1))
    room.visit().send(heartbeat(0) + heartbeat(1))
    handler.answer([0])
    assert len(handler.exchanges) == 1
    assert room.turn() == 1
    assert len(handler.exchanges) == 2


def test_a_long_pipeline_lets_the_loop_turn_even_if_all_is_answered_at_once() -> None:
    handler = Answering()
    room = Room(handler, Limits(max_requests_in_flight=3))
    visit = room.visit()
    visit.send(b"".join(heartbeat(number) for number in range(8)))
    seen = [len(handler.seen)]
    while room.turn():
        seen.append(len(handler.seen))
    assert seen == [3, 6, 8]
    assert visit.answered() == list(range(8))
    assert visit.transport.reading


def test_many_answers_at_once_are_followed_by_one_turn() -> None:
    handler = Parking()
    room = Room(handler, Limits(max_requests_in_flight=3))
    room.visit().send(b"".join(heartbeat(number) for number in range(5)))
    handler.answer([0, 1, 2])
    assert room.turn() == 1
    assert len(handler.exchanges) == 5


def test_connection_that_closes_forgets_what_waits() -> None:
    handler = Parking()
    room = Room(handler, Limits(max_requests_in_flight=1))
    visit = room.visit()
    visit.send(heartbeat(0) + heartbeat(1))
    handler.answer([0])
    visit.connection.eof_received()
    room.turn()
    assert len(handler.exchanges) == 1


# Answers that are not read


def stopped_reader(room: Room) -> Visit:
    """A client that does not read."""
    visit = room.visit()
    visit.transport.flowing = False
    return visit


SMALL = Limits(write_buffer_high_bytes=50, write_buffer_max_bytes=100)
#: A Heartbeat reply as a frame.
REPLY_BYTES = 14


def test_slow_reader_is_not_read_from() -> None:
    visit = stopped_reader(Room(Answering(), SMALL))
    for number in range(4):
        assert visit.transport.reading
        visit.send(heartbeat(number))
    assert not visit.transport.reading
    assert not visit.transport.closing


def test_reader_that_catches_up_is_read_from() -> None:
    visit = stopped_reader(Room(Answering(), SMALL))
    visit.send(*(heartbeat(number) for number in range(4)))
    visit.transport.drain()
    assert visit.transport.reading
    assert visit.answered() == [0, 1, 2, 3]


def test_slow_reader_with_waiting_requests_goes_on_when_it_caught_up() -> None:
    """Requests that were read already wait as well, and are handled afterwards."""
    handler = Answering()
    room = Room(handler, Limits(max_requests_in_flight=4, write_buffer_high_bytes=50))
    visit = stopped_reader(room)
    visit.send(b"".join(heartbeat(number) for number in range(6)))
    assert room.turn() == 0
    assert handler.seen == [0, 1, 2, 3]
    visit.transport.drain()
    room.turn()
    assert handler.seen == [0, 1, 2, 3, 4, 5]
    assert visit.transport.reading


def test_waiting_requests_wait_for_a_reader_that_just_fell_behind() -> None:
    """Room was made for them, but before the loop's next turn the client stopped reading."""
    handler = Parking()
    room = Room(handler, Limits(max_requests_in_flight=2, write_buffer_high_bytes=10))
    visit = room.visit()
    visit.send(b"".join(heartbeat(number) for number in range(3)))
    handler.answer([0])
    visit.transport.flowing = False
    handler.answer([1])
    room.turn()
    assert len(handler.exchanges) == 2
    visit.transport.drain()
    room.turn()
    assert len(handler.exchanges) == 3


def test_reader_too_far_behind_is_cut_off(log: LogLines) -> None:
    """Parked answers are not added to the unsent bytes."""
    handler = Parking()
    room = Room(handler, SMALL)
    visit = stopped_reader(room)
    visit.send(b"".join(heartbeat(number) for number in range(20)))
    handler.answer(range(20))
    visit.lose()
    assert visit.transport.aborted
    assert visit.transport.writes * REPLY_BYTES == 112
    assert room.registry.stats().closed[CloseReason.UNREAD_REPLIES] == 1
    line = log[0]
    assert (line["reason"], line["peer"]) == ("write_buffer_max_bytes", "127.0.0.1:4711")
    assert (line["limit"], line["found"], line["in_flight"]) == (100, 112, 12)


def test_one_large_answer_is_not_cut_off() -> None:
    """How large an answer gets is not the client's doing: it has time to read it."""
    handler = Parking()
    room = Room(handler, SMALL)
    visit = stopped_reader(room)
    visit.send(b"".join(heartbeat(number) for number in range(20)))
    handler.answer([*range(1, 20), 0])  # all in one piece
    assert visit.transport.get_write_buffer_size() == 20 * REPLY_BYTES
    visit.transport.drain()
    assert visit.answered() == list(range(20))
    assert visit.transport.reading


# Frames that are not whole


def announce(size: int, sent: int) -> bytes:
    """The beginning of a frame."""
    return struct.pack(">i", size) + b"x" * sent


def test_largest_unfinished_frame_is_cut_off(log: LogLines) -> None:
    """And not a small one that was in pieces at the wrong moment."""
    room = Room(Answering(), Limits(unfinished_frames_max_bytes=1_000))
    large, small = room.visit(("192.0.2.7", 1)), room.visit()
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
    handler = Parking()
    room = Room(handler, Limits(unfinished_frames_max_bytes=1_000))
    visit = room.visit()
    visit.send(heartbeat(0) + announce(2_000, 1_500))
    assert visit.transport.closing
    assert handler.exchanges == []
    assert len(log) == 1


def test_unfinished_bytes_are_given_back() -> None:
    room = Room(Answering())
    finishing, closing, losing = room.visit(), room.visit(), room.visit()
    for visit in (finishing, closing, losing):
        visit.send(heartbeat(0)[:10])
    assert room.registry.unfinished_bytes == 30
    finishing.send(heartbeat(0)[10:])
    assert room.registry.unfinished_bytes == 20
    closing.connection.eof_received()
    assert room.registry.unfinished_bytes == 10
    losing.lose()
    assert room.registry.unfinished_bytes == 0
    closing.lose()
    assert room.registry.unfinished_bytes == 0


def test_unfinished_frame_of_the_same_length_as_its_beginning_is_accounted() -> None:
    """A piece as long as a frame need not be one: it can be an end and a beginning."""
    room = Room(Answering())
    visit = room.visit()
    whole = heartbeat(0)
    half = len(whole) // 2
    visit.send(whole[:half])
    visit.send(whole[half:] + heartbeat(1)[:half])
    assert visit.answered() == [0]
    assert room.registry.unfinished_bytes == half


# The log and the counts


def test_log_does_not_grow_with_the_number_of_attackers(log: LogLines) -> None:
    """Between two sweeps only so many lines are written; how many more there were is summed up."""
    room = Room(Answering(), Limits(max_connections=1))
    for _ in range(LOG_LINES_PER_SWEEP + 11):
        room.visit()
    assert len(log) == LOG_LINES_PER_SWEEP
    room.pass_time(1)
    assert log[-1] == {
        "event": "more connections refused or closed",
        "log_level": "warning",
        "lines": 10,
    }
    room.visit()
    assert log[-1]["event"] == "connection refused"


def test_stats_count_what_happened() -> None:
    handler = Answering("slow")
    room = Room(handler)
    visit, other = room.visit(), room.visit()
    visit.send(heartbeat(0), heartbeat(1, member_id="slow"), heartbeat(2))
    other.lose()
    stats = room.registry.stats()
    assert (stats.open, stats.accepted, stats.in_flight, stats.requests) == (1, 2, 2, 3)
    assert stats.bytes_in == len(heartbeat(0)) * 2 + len(heartbeat(1, member_id="slow"))
    assert stats.bytes_out == REPLY_BYTES
    assert stats.closed[CloseReason.PEER] == 1
    assert set(stats.closed) == set(CloseReason)
    assert set(stats.refused) == set(RefuseReason)


def test_stats_are_a_snapshot() -> None:
    room = Room(Answering())
    before = room.registry.stats()
    room.visit().lose()
    assert before.closed[CloseReason.PEER] == 0
