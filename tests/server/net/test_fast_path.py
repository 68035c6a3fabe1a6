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


def test_answered_at_once() -> None:
    """The answer has the request's number, and is counted as any other."""
    desk = Desk()
    desk.visit.send(heartbeat(7))
    assert desk.visit.answers() == [(7, 1)]
    assert desk.parking.exchanges == []
    assert desk.counted == [(ApiKey.HEARTBEAT, ok(1), desk.clock.now_ms)]
    stats = desk.registry.stats()
    assert (stats.requests, stats.bytes_out) == (1, len(desk.visit.transport.sent))


def test_like_the_last_one() -> None:
    """A request that differs in its number alone is not read again, and answered the same."""
    desk = Desk()
    desk.visit.send(heartbeat(1), heartbeat(-2), heartbeat(3))
    assert desk.visit.answers() == [(1, 1), (-2, 1), (3, 1)]
    first, *others = desk.quick.asked
    assert all(other is first for other in others)


@pytest.mark.parametrize("other", [heartbeat(2, member_id="else"), heartbeat(2, version=0)])
def test_unlike_the_last_one(other: bytes) -> None:
    """A request that differs in anything else is read, whether in what it says or how."""
    desk = Desk()
    desk.visit.send(heartbeat(1), other)
    assert desk.quick.asked[1] is not desk.quick.asked[0]
    assert len(desk.visit.payloads()) == 2


def test_another_answer_to_the_same() -> None:
    """What is remembered of an answer is not sent when the answer has changed."""
    desk = Desk()
    desk.visit.send(heartbeat(1))
    desk.quick.answer = ok(2)
    desk.visit.send(heartbeat(2))
    assert desk.visit.answers() == [(1, 1), (2, 2)]


def test_not_at_once() -> None:
    """What can't be answered at once is handled, and may be answered at any time."""
    desk = Desk()
    desk.quick.answer = None
    desk.visit.send(heartbeat(1))
    assert desk.visit.answers() == []
    desk.parking.answer([0])
    assert desk.visit.answered() == [1]


def test_behind_one_that_waits() -> None:
    """A request behind another is not answered before it."""
    desk = Desk()
    desk.quick.answer = None
    desk.visit.send(heartbeat(1))
    desk.quick.answer = ok(1)
    desk.visit.send(heartbeat(2))
    assert desk.visit.answers() == []
    desk.parking.answer([1, 0])
    assert desk.visit.answered() == [1, 2]


def test_many_in_one_piece() -> None:
    """They are handled in their turns: this is for who sends one and waits."""
    desk = Desk()
    desk.visit.send(heartbeat(1) + heartbeat(2))
    assert len(desk.parking.exchanges) == 2


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\0", b"\0\0\0\x02\0\x0c", b"\0\0\0\x08\0\x0c\0\x03\0\0\0\1"]
)
def test_hardly_a_request(frame: bytes) -> None:
    """Frames too short for a heartbeat are refused as any others, as first ones and later."""
    for frames in ((frame,), (heartbeat(1), frame)):
        desk = Desk()
        desk.visit.send(*frames)
        assert desk.visit.transport.closing
        assert desk.registry.stats().closed[CloseReason.MALFORMED] == 0  # not lost yet
        desk.visit.lose()
        assert desk.registry.stats().closed[CloseReason.MALFORMED] == 1


def test_a_bug() -> None:
    """Whoever answers may fail, and only this connection ends."""
    desk = Desk()
    desk.quick.answer = ValueError("a bug")
    desk.visit.send(heartbeat(1))
    desk.visit.lose()
    assert desk.registry.stats().closed[CloseReason.BUG] == 1


def test_slow_reader() -> None:
    """Who does not read the answers is not answered at once any more."""
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
