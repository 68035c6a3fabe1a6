"""Requests that are answered at once: without a turn, and without being read twice."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol import ApiKey
from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
from coterie_server.net import CloseReason
from coterie_server.net.connection import Connection
from coterie_server.net.fast_path import Sender
from coterie_server.net.limits import Limits
from coterie_server.net.registry import Registry
from coterie_server.security import ANONYMOUS
from tests.server.net.doubles import (
    ENDPOINT,
    Clock,
    FakeClient,
    FakeTransport,
    ParkingHandler,
    heartbeat,
    ok,
)


class ScriptedAnswer:
    """Answers heartbeats as the test says, and records them."""

    def __init__(self) -> None:
        self.answer: HeartbeatResponse | Exception | None = ok(1)
        self.asked: list[HeartbeatRequest] = []

    def __call__(self, message: HeartbeatRequest, sender: Sender) -> HeartbeatResponse | None:
        """Answer, or not."""
        assert sender.principal is ANONYMOUS
        self.asked.append(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FastPath:
    """A connection whose heartbeats are answered at once and whose other requests are parked."""

    def __init__(self, **limits: Any) -> None:
        self.scripted = ScriptedAnswer()
        self.handler = ParkingHandler()
        self.counted: list[tuple[ApiKey, Any, int]] = []
        self.clock = Clock()
        self.registry = Registry(
            self.handler,
            Limits(**limits),
            now=self.clock,
            call_soon=lambda post: post(),
            on_reply=lambda *what: self.counted.append(what),
            at_once={ApiKey.HEARTBEAT: self.scripted},
        )
        connection = Connection(self.registry, ENDPOINT)
        self.client = FakeClient(connection, FakeTransport(connection, ("127.0.0.1", 4711)))
        connection.connection_made(self.client.transport)


def test_a_fast_answer_has_the_requests_number_and_is_counted() -> None:
    fast_path = FastPath()
    fast_path.client.send(heartbeat(7))
    assert fast_path.client.answers() == [(7, 1)]
    assert fast_path.handler.exchanges == []
    assert fast_path.counted == [(ApiKey.HEARTBEAT, ok(1), fast_path.clock.now_ms)]
    stats = fast_path.registry.stats()
    assert (stats.requests, stats.bytes_out) == (1, len(fast_path.client.transport.sent))


def test_a_request_that_differs_in_its_number_alone_is_not_decoded_again() -> None:
    fast_path = FastPath()
    fast_path.client.send(heartbeat(1), heartbeat(-2), heartbeat(3))
    assert fast_path.client.answers() == [(1, 1), (-2, 1), (3, 1)]
    first, *others = fast_path.scripted.asked
    assert all(other is first for other in others)


@pytest.mark.parametrize("other", [heartbeat(2, member_id="else"), heartbeat(2, version=0)])
def test_a_request_that_differs_in_anything_else_is_decoded(other: bytes) -> None:
    fast_path = FastPath()
    fast_path.client.send(heartbeat(1), other)
    assert fast_path.scripted.asked[1] is not fast_path.scripted.asked[0]
    assert len(fast_path.client.payloads()) == 2


def test_an_answer_that_has_changed_is_encoded_again() -> None:
    fast_path = FastPath()
    fast_path.client.send(heartbeat(1))
    fast_path.scripted.answer = ok(2)
    fast_path.client.send(heartbeat(2))
    assert fast_path.client.answers() == [(1, 1), (2, 2)]


def test_what_can_not_be_answered_at_once_is_handled() -> None:
    fast_path = FastPath()
    fast_path.scripted.answer = None
    fast_path.client.send(heartbeat(1))
    assert fast_path.client.answers() == []
    fast_path.handler.answer([0])
    assert fast_path.client.answered() == [1]


def test_a_request_behind_another_is_not_answered_before_it() -> None:
    fast_path = FastPath()
    fast_path.scripted.answer = None
    fast_path.client.send(heartbeat(1))
    fast_path.scripted.answer = ok(1)
    fast_path.client.send(heartbeat(2))
    assert fast_path.client.answers() == []
    fast_path.handler.answer([1, 0])
    assert fast_path.client.answered() == [1, 2]


def test_requests_that_come_in_one_piece_are_handled_in_order() -> None:
    fast_path = FastPath()
    fast_path.client.send(heartbeat(1) + heartbeat(2))
    assert len(fast_path.handler.exchanges) == 2


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\0", b"\0\0\0\x02\0\x0c", b"\0\0\0\x08\0\x0c\0\x03\0\0\0\1"]
)
def test_frames_too_short_for_a_heartbeat_are_refused_as_any_others(frame: bytes) -> None:
    for frames in ((frame,), (heartbeat(1), frame)):
        fast_path = FastPath()
        fast_path.client.send(*frames)
        assert fast_path.client.transport.closing
        assert fast_path.registry.stats().closed[CloseReason.MALFORMED] == 0  # not lost yet
        fast_path.client.lose()
        assert fast_path.registry.stats().closed[CloseReason.MALFORMED] == 1


def test_a_fast_answer_that_raises_closes_this_connection_alone() -> None:
    fast_path = FastPath()
    fast_path.scripted.answer = ValueError("a bug")
    fast_path.client.send(heartbeat(1))
    fast_path.client.lose()
    assert fast_path.registry.stats().closed[CloseReason.BUG] == 1


def test_a_slow_reader_is_not_answered_at_once() -> None:
    fast_path = FastPath(write_buffer_high_bytes=20, write_buffer_max_bytes=20)
    fast_path.client.transport.flowing = False
    fast_path.client.send(*(heartbeat(number) for number in range(10)))
    assert len(fast_path.scripted.asked) < 10
    assert not fast_path.client.transport.reading


def test_a_large_request_is_not_remembered() -> None:
    """What is kept of each connection is small; the request is handled like any other."""
    fast_path = FastPath()
    fast_path.client.send(heartbeat(1), heartbeat(2, member_id="m" * 5000))
    assert [asked.member_id for asked in fast_path.scripted.asked] == ["member"]
    assert [e.request.correlation_id for e in fast_path.handler.exchanges] == [2]


def test_what_comes_with_the_frame_that_costs_the_connection_is_not_carried_out() -> None:
    """It may be a stranger's, and the guard that asks who it is has gone with the connection."""
    fast_path = FastPath(unfinished_frames_max_bytes=10)
    fast_path.client.send(heartbeat(1) + heartbeat(2)[:-1])
    assert fast_path.client.transport.closing
    assert fast_path.scripted.asked == []
    assert fast_path.client.payloads() == []
