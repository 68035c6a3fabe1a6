"""Answers to several clients leave together, in the loop's next turn, and keep their order."""

from __future__ import annotations

from coterie_protocol import ApiKey
from coterie_protocol.messages import HeartbeatResponse
from coterie_server.net import CloseReason, Limits
from coterie_server.net.fast_path import by_api
from coterie_server.net.outbox import _CLIENTS_TOGETHER_MAX
from tests.server.net.doubles import AnsweringHandler, FakeListener, ParkingHandler, heartbeat, ok


def test_answers_to_several_clients_leave_in_the_loops_next_turn() -> None:
    listener = FakeListener(handler := ParkingHandler(), together=True)
    clients = [listener.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(heartbeat(number))
    handler.answer([2, 0, 1])
    assert [client.answered() for client in clients] == [[], [], []]
    assert listener.turn() == 1
    assert [client.answered() for client in clients] == [[0], [1], [2]]


def test_an_answer_while_its_request_is_taken_in_leaves_with_the_others() -> None:
    """Waking one client takes longer than answering it."""
    listener = FakeListener(AnsweringHandler(), together=True)
    clients = [listener.connect() for _ in range(2)]
    for client in clients:
        client.send(heartbeat(0))
    assert [client.transport.writes for client in clients] == [0, 0]
    assert listener.turn() == 1
    assert [client.answered() for client in clients] == [[0], [0]]


def test_answers_to_many_requests_of_one_client_leave_at_once() -> None:
    """And what is ready for others leaves before them: many take long."""
    listener = FakeListener(handler := AnsweringHandler("parked"), together=True)
    parked, single, many = (listener.connect() for _ in range(3))
    parked.send(heartbeat(1, member_id="parked"))
    handler.parked[0].reply(ok(1))
    single.send(heartbeat(2))
    many.send(heartbeat(4) + heartbeat(6))
    assert [each.answered() for each in (parked, single, many)] == [[1], [2], [4, 6]]
    assert many.transport.writes == 1


def test_answers_to_many_clients_do_not_wait_for_all_of_them() -> None:
    """Or the first of a thousand would wait for the work of the last."""
    listener = FakeListener(handler := ParkingHandler(), together=True)
    clients = [listener.connect() for _ in range(_CLIENTS_TOGETHER_MAX + 1)]
    for number, client in enumerate(clients):
        client.send(heartbeat(number))
    handler.answer(range(len(clients)))
    assert [client.answered() for client in clients[:-1]] == [[n] for n in range(len(clients) - 1)]
    assert clients[-1].answered() == []
    listener.turn()
    assert clients[-1].answered() == [len(clients) - 1]


def test_what_is_answered_at_once_does_not_overtake() -> None:
    listener = FakeListener(handler := ParkingHandler(), together=True)
    client = listener.connect()
    client.send(heartbeat(0))
    listener.registry.fast_answers = by_api({ApiKey.HEARTBEAT: lambda *_: ok(1)})
    client.connection._fast_path._answers = listener.registry.fast_answers  # noqa: SLF001
    handler.answer([0])
    client.send(heartbeat(1))
    assert len(handler.exchanges) == 1  # the second was answered on the fast path
    assert client.answered_or_written() == []
    listener.turn()
    assert client.answered() == [0, 1]


def test_what_is_answered_leaves_before_the_connection_is_closed() -> None:
    for is_behind in (False, True):
        listener = FakeListener(handler := ParkingHandler(), Limits(), together=True)
        client = listener.connect()
        client.send(heartbeat(0))
        handler.answer([0])
        if is_behind:
            client.connection.pause_writing()
        client.connection.end(CloseReason.HANDLER)
        assert client.transport.closing
        assert client.answered() == [0]
        listener.turn()
        assert client.answered() == [0]


def test_nothing_is_posted_to_a_connection_that_is_lost() -> None:
    listener = FakeListener(handler := ParkingHandler(), together=True)
    gone, stays = listener.connect(), listener.connect()
    gone.send(heartbeat(0))
    stays.send(heartbeat(1))
    handler.answer([0, 1])
    gone.lose()
    listener.turn()
    assert gone.transport.sent == b""
    assert stays.answered() == [1]


def test_more_than_a_little_for_one_client_does_not_wait() -> None:
    """Or nobody would notice how much a client does not read."""
    listener = FakeListener(
        handler := ParkingHandler(),
        Limits(write_buffer_high_bytes=5_000, write_buffer_max_bytes=9_000),
        together=True,
    )
    client = listener.connect()
    client.transport.flowing = False
    count, sent = Limits().max_requests_in_flight, 0
    while client.transport.reading and sent < 1_000:
        client.send(b"".join(heartbeat(sent + number) for number in range(count)))
        handler.answer(range(sent, sent + count))
        sent += count
    assert not client.transport.reading
    assert len(client.transport.unsent) < 10_000


def test_an_answer_of_the_same_object_is_the_same_bytes() -> None:
    listener = FakeListener(handler := ParkingHandler())
    client = listener.connect()
    message, other = ok(5), HeartbeatResponse(throttle_time_ms=6)
    for number in range(3):
        client.send(heartbeat(number))
    client.send(heartbeat(3, version=0))
    for exchange, answer in zip(handler.exchanges, (message, message, other, other), strict=True):
        exchange.reply(answer)
    first, second, third, last = client.payloads()
    assert first[4:] == second[4:] != third[4:]
    assert [int.from_bytes(each[:4]) for each in (first, second, third, last)] == [0, 1, 2, 3]
    assert len(last) < len(third)  # in its own version
