"""Answers that are ready while an earlier request of their client waits: how many there may be."""

from __future__ import annotations

from coterie_server.net import CloseReason, Exchange, Limits
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import FakeListener, ParkingHandler, heartbeat, ok

#: A Heartbeat reply as a frame, and limits with room for three.
REPLY_BYTES = 14
THREE = Limits(write_buffer_high_bytes=REPLY_BYTES * 3 - 1)


class FirstParked(ParkingHandler):
    """Answers all but the first request."""

    def handle(self, exchange: Exchange) -> None:
        """Keep it, and answer if it is not the first."""
        super().handle(exchange)
        if len(self.exchanges) > 1:
            exchange.reply(ok(exchange.request.correlation_id))


def run(listener: FakeListener) -> int:
    """Let the loop turn until there is nothing to do; how often it turned."""
    for number in range(1000):
        if not listener.turn():
            return number
    raise AssertionError("it never ends")


def test_no_more_is_begun_while_much_is_ready_behind_a_request_that_waits() -> None:
    listener = FakeListener(handler := FirstParked(), THREE)
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(20)))
    assert run(listener) == 0
    assert len(handler.exchanges) == 4
    assert not client.transport.reading
    assert not client.transport.closing


def test_the_rest_is_answered_when_the_request_that_waits_is() -> None:
    listener = FakeListener(handler := FirstParked(), THREE)
    client = listener.connect()
    client.send(b"".join(heartbeat(number) for number in range(20)))
    handler.answer([0])
    run(listener)
    assert client.answered() == [*range(20)]
    assert client.transport.reading


def test_a_single_request_waits_as_well() -> None:
    listener = FakeListener(handler := FirstParked(), THREE)
    client = listener.connect()
    client.send(*map(heartbeat, range(5)))
    assert len(handler.exchanges) == 4
    assert not client.transport.reading
    handler.answer([0])
    run(listener)
    assert client.answered() == [*range(5)]
    assert client.transport.reading


def test_what_is_read_at_once_is_sent_bit_by_bit() -> None:
    """As much as a client may leave unread does not lie about before it is written."""
    listener = FakeListener(handler := FirstParked(), THREE)
    client = listener.connect()
    client.send(heartbeat(0))
    handler.answer([0])
    client.send(b"".join(heartbeat(number) for number in range(1, 13)))
    assert client.answered() == [0, 1, 2, 3]
    assert run(listener) == 3
    assert client.answered() == [*range(13)]


def test_a_request_that_waits_for_the_next_is_answered_when_much_is_ready_behind_it() -> None:
    """The next would not be looked at before, and both would wait for as long as a Fetch may."""
    listener = FakeListener(handler := ParkingHandler(), THREE)
    client = listener.connect()
    client.send(*map(heartbeat, range(4)))
    patient = handler.exchanges[0]
    patient.when_followed(lambda exchange: exchange.reply(ok()))
    handler.answer([1, 2])
    assert client.answered() == []
    handler.answer([3])
    assert client.answered() == [0, 1, 2, 3]


def test_a_request_that_begins_to_wait_for_the_next_sees_what_is_ready_behind_it() -> None:
    listener = FakeListener(handler := ParkingHandler(), THREE)
    client = listener.connect()
    client.send(*map(heartbeat, range(4)))
    handler.answer([1, 2, 3])
    handler.exchanges[0].when_followed(lambda exchange: exchange.reply(ok()))
    assert client.answered() == [0, 1, 2, 3]


def test_a_request_that_waits_for_the_next_is_not_hurried_by_what_is_before_it() -> None:
    listener = FakeListener(handler := ParkingHandler(), THREE)
    client = listener.connect()
    client.send(*map(heartbeat, range(6)))
    handler.exchanges[5].when_followed(lambda exchange: exchange.reply(ok(5)))
    handler.answer([0, 1, 2, 3, 4])
    assert client.answered() == [0, 1, 2, 3, 4]
    assert handler.exchanges[5].is_patient


def test_many_patient_requests_are_answered_without_going_deeper_each_time() -> None:
    listener = FakeListener(handler := ParkingHandler(), Limits(max_requests_in_flight=5000))
    client = listener.connect()
    client.send(b"".join(map(heartbeat, range(5000))))
    for exchange in handler.exchanges[:4000]:
        exchange.when_followed(lambda exchange: exchange.reply(ok(exchange.request.correlation_id)))
    listener.registry.limits = THREE
    handler.answer(range(4000, 5000))
    assert client.answered() == [*range(5000)]


def test_answers_that_were_begun_together_end_the_connection_if_they_are_too_many(
    log: LogLines,
) -> None:
    """None of them was ready when the others were begun; and the first is never closed for."""
    listener = FakeListener(
        handler := ParkingHandler(), Limits(write_buffer_high_bytes=20, write_buffer_max_bytes=20)
    )
    client = listener.connect()
    client.send(*map(heartbeat, range(5)))
    handler.answer([1, 2])
    assert not client.transport.closing
    handler.answer([3])
    assert client.transport.closing
    client.lose()
    assert listener.registry.stats().closed[CloseReason.UNREAD_REPLIES] == 1
    assert (log[0]["limit"], log[0]["found"]) == (20, 28)


def test_an_answer_that_is_ready_first_does_not_wait_for_what_is_ready_behind_it() -> None:
    limits = Limits(write_buffer_high_bytes=20, write_buffer_max_bytes=20)
    client = FakeListener(handler := ParkingHandler(), limits).connect()
    client.send(*map(heartbeat, range(3)))
    handler.answer([1, 2, 0])
    assert client.answered() == [0, 1, 2]


def test_answers_in_one_piece_are_copied_only_while_they_are_short() -> None:
    listener = FakeListener(handler := ParkingHandler(), Limits(max_requests_in_flight=10_000))
    client = listener.connect()
    client.send(b"".join(map(heartbeat, range(10_000))))
    client.transport.writes = 0
    handler.answer([*range(1, 10_000), 0])
    assert client.transport.writes == 1 + 10_000 * REPLY_BYTES // 65_536
    assert client.answered() == [*range(10_000)]
