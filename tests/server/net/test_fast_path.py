"""Requests that are answered at once: without a turn, and without being read twice."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol import ApiKey
from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
from coterie_server.net import CloseReason
from coterie_server.net.connection import Connection
from coterie_server.net.limits import Limits
from coterie_server.net.registry import Registry
from tests.server.net.doubles import ADVERTISED, Clock, FakeTransport, Parking, Visit, heartbeat, ok


class Quick:
    """Answers heartbeats as it is told, and remembers which it was asked about."""

    def __init__(self) -> None:
        self.answer: HeartbeatResponse | Exception | None = ok(1)
        self.asked: list[HeartbeatRequest] = []

    def __call__(self, message: HeartbeatRequest) -> HeartbeatResponse | None:
        """Answer, or not."""
        self.asked.append(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Desk:
    """A connection whose heartbeats are answered at once, and all else is parked."""

    def __init__(self, **limits: int) -> None:
        self.quick = Quick()
        self.parking = Parking()
        self.counted: list[tuple[ApiKey, Any, int]] = []
        self.clock = Clock()
        self.registry = Registry(
            self.parking,
            Limits(**limits),
            now=self.clock,
            call_soon=lambda _: None,
            on_reply=lambda *what: self.counted.append(what),
            at_once={ApiKey.HEARTBEAT: self.quick},
        )
        connection = Connection(self.registry, ADVERTISED)
        self.visit = Visit(connection, FakeTransport(connection, ("127.0.0.1", 4711)))
        connection.connection_made(self.visit.transport)


def test_a_fast_answer_has_the_requests_number_and_is_counted() -> None:
    desk = Desk()
    desk.visit.send(heartbeat(7))
    assert desk.visit.answers() == [(7, 1)]
    assert desk.parking.exchanges == []
    assert desk.counted == [(ApiKey.HEARTBEAT, ok(1), desk.clock.now_ms)]
    stats = desk.registry.stats()
    assert (stats.requests, stats.bytes_out) == (1, len(desk.visit.transport.sent))


def test_a_request_that_differs_in_its_number_alone_is_not_decoded_again() -> None:
    desk = Desk()
    desk.visit.send(heartbeat(1), heartbeat(-2), heartbeat(3))
    assert desk.visit.answers() == [(1, 1), (-2, 1), (3, 1)]
    first, *others = desk.quick.asked
    assert all(other is first for other in others)


@pytest.mark.parametrize("other", [heartbeat(2, member_id="else"), heartbeat(2, version=0)])
def test_a_request_that_differs_in_anything_else_is_decoded(other: bytes) -> None:
    desk = Desk()
    desk.visit.send(heartbeat(1), other)
    assert desk.quick.asked[1] is not desk.quick.asked[0]
    assert len(desk.visit.payloads()) == 2


def test_an_answer_that_has_changed_is_encoded_again() -> None:
    desk = Desk()
    desk.visit.send(heartbeat(1))
    desk.quick.answer = ok(2)
    desk.visit.send(heartbeat(2))
    assert desk.visit.answers() == [(1, 1), (2, 2)]


def test_what_can_not_be_answered_at_once_is_handled() -> None:
    desk = Desk()
    desk.quick.answer = None
    desk.visit.send(heartbeat(1))
    assert desk.visit.answers() == []
    desk.parking.answer([0])
    assert desk.visit.answered() == [1]


def test_a_request_behind_another_is_not_answered_before_it() -> None:
    desk = Desk()
    desk.quick.answer = None
    desk.visit.send(heartbeat(1))
    desk.quick.answer = ok(1)
    desk.visit.send(heartbeat(2))
    assert desk.visit.answers() == []
    desk.parking.answer([1, 0])
    assert desk.visit.answered() == [1, 2]


def test_requests_that_come_in_one_piece_are_handled_in_order() -> None:
    desk = Desk()
    desk.visit.send(heartbeat(1) + heartbeat(2))
    assert len(desk.parking.exchanges) == 2


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\0", b"\0\0\0\x02\0\x0c", b"\0\0\0\x08\0\x0c\0\x03\0\0\0\1"]
)
def test_frames_too_short_for_a_heartbeat_are_refused_as_any_others(frame: bytes) -> None:
    for frames in ((frame,), (heartbeat(1), frame)):
        desk = Desk()
        desk.visit.send(*frames)
        assert desk.visit.transport.closing
        assert desk.registry.stats().closed[CloseReason.MALFORMED] == 0  # not lost yet
        desk.visit.lose()
        assert desk.registry.stats().closed[CloseReason.MALFORMED] == 1


def test_a_fast_answer_that_raises_closes_this_connection_alone() -> None:
    desk = Desk()
    desk.quick.answer = ValueError("a bug")
    desk.visit.send(heartbeat(1))
    desk.visit.lose()
    assert desk.registry.stats().closed[CloseReason.BUG] == 1


def test_a_slow_reader_is_not_answered_at_once() -> None:
    desk = Desk(write_buffer_high_bytes=20, write_buffer_max_bytes=20)
    desk.visit.transport.flowing = False
    desk.visit.send(*(heartbeat(number) for number in range(10)))
    assert len(desk.quick.asked) < 10
    assert not desk.visit.transport.reading


def test_a_large_request_is_not_remembered() -> None:
    """What is kept of each connection is small; the request is handled like any other."""
    desk = Desk()
    desk.visit.send(heartbeat(1), heartbeat(2, member_id="m" * 5000))
    assert [asked.member_id for asked in desk.quick.asked] == ["member"]
    assert [e.request.correlation_id for e in desk.parking.exchanges] == [2]
