"""Bad bytes, bad requests and bugs end one connection, each with one line that says why."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import structlog

from coterie_protocol import ApiKey, decode_response, encode_request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatResponse,
)
from coterie_server.net import CloseReason, Exchange, Limits
from coterie_server.net.registry import LOG_LINES_PER_SWEEP
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import AnsweringHandler, FakeListener, ParkingHandler, heartbeat


def frame(payload: bytes) -> bytes:
    """Any payload as a frame."""
    return struct.pack(">i", len(payload)) + payload


def request_of(api_key: int, api_version: int, correlation_id: int = 7) -> bytes:
    """A frame of nothing but a header, with no client id."""
    return frame(struct.pack(">hhih", api_key, api_version, correlation_id, -1))


CUT_OFF = frame(heartbeat(0)[4:-1])


def test_a_malformed_request_closes_with_a_line_that_names_peer_message_and_field(
    log: LogLines,
) -> None:
    client = FakeListener(ParkingHandler()).connect(("192.0.2.7", 50_123))
    client.send(CUT_OFF)
    assert client.transport.closing
    assert log == [
        {
            "event": "connection closed",
            "log_level": "warning",
            "reason": "malformed",
            "peer": "192.0.2.7:50123",
            "error": "Heartbeat request v3, field group_instance_id, offset 35:"
            " needs 2 bytes, 1 left",
        }
    ]


def test_requests_behind_a_malformed_one_are_not_handled(log: LogLines) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(CUT_OFF + heartbeat(1), heartbeat(2))
    assert handler.exchanges == []
    assert len(log) == 1


def test_malformed_request_abandons_parked_ones(log: LogLines) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), CUT_OFF)
    assert handler.exchanges[0].abandoned
    handler.answer([0])
    assert client.answered() == []
    assert len(log) == 1


def test_fault_behind_a_backlog_waits_for_it(log: LogLines) -> None:
    """Requests that came before the bad bytes are answered even if they had to wait for room."""
    handler = ParkingHandler()
    listener = FakeListener(handler, Limits(max_requests_in_flight=1))
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1) + b"\xff\xff\xff\xff")
    assert not client.transport.closing
    handler.answer([0])
    listener.turn()
    assert (client.answered(), client.transport.closing) == ([0], True)
    assert [line["reason"] for line in log] == ["socket_request_max_bytes"]


@pytest.mark.parametrize("size", [1_001, 2**31 - 1, -1, -(2**31)])
def test_bad_size_closes_with_a_line(size: int, log: LogLines) -> None:
    client = FakeListener(ParkingHandler(), Limits(socket_request_max_bytes=1_000)).connect()
    client.send(struct.pack(">i", size))
    assert client.transport.closing
    assert [(line["reason"], line["peer"], line["error"]) for line in log] == [
        (
            "socket_request_max_bytes",
            "127.0.0.1:4711",
            f"frame, field size, offset 0: a size of {size} bytes, 1000 at most",
        )
    ]


def test_bad_size_behind_a_good_request_closes_at_once(log: LogLines) -> None:
    """The client is not waited for: it may send nothing more."""
    client = FakeListener(AnsweringHandler()).connect()
    client.send(heartbeat(0) + b"\xff\xff\xff\xff")
    assert (client.answered(), client.transport.closing) == ([0], True)
    assert [line["reason"] for line in log] == ["socket_request_max_bytes"]


def test_http_request_is_refused(log: LogLines) -> None:
    """A browser's first bytes read as an enormous size."""
    client = FakeListener(ParkingHandler()).connect()
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert client.transport.closing
    assert [line["reason"] for line in log] == ["socket_request_max_bytes"]


@pytest.mark.parametrize(
    ("api_key", "api_version"),
    [
        (999, 0),
        (ApiKey.HEARTBEAT, 99),
        (ApiKey.HEARTBEAT, -1),
        (-1, 0),
    ],
)
def test_unsupported_request_closes_naming_api_and_version(
    api_key: int, api_version: int, log: LogLines
) -> None:
    """What is not spoken here has no answer that the client could read."""
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(request_of(api_key, api_version) + heartbeat(1))
    assert client.transport.closing
    assert handler.exchanges == []
    assert log == [
        {
            "event": "connection closed",
            "log_level": "warning",
            "reason": "unsupported",
            "peer": "127.0.0.1:4711",
            "api_key": api_key,
            "api_version": api_version,
        }
    ]


def test_what_makes_the_handler_hang_up_on_many_is_logged_once_in_ten_seconds(
    log: LogLines,
) -> None:
    """Clients that are hung up on come back at once, so they would fill the disk."""
    handler = ParkingHandler()
    listener = FakeListener(handler)
    for why in ("no topics", "no topics", "no rights", "no topics"):
        listener.connect().send(heartbeat(0))
        handler.exchanges.pop().close(why)
    listener.pass_time(10_000)
    listener.connect().send(heartbeat(0))
    handler.exchanges.pop().close("no topics")
    assert [(line["event"], line["reason"], line["why"], line["times"]) for line in log] == [
        ("connection closed", "handler", "no topics", 1),
        ("connection closed", "handler", "no rights", 1),
        ("connection closed", "handler", "no topics", 3),
    ]


@pytest.mark.parametrize("api_version", [5, 99, -1])
def test_api_versions_of_unknown_version_is_answered_in_version_0(api_version: int) -> None:
    """Error 35 with the versions of ApiVersions itself, in the shape that all can read."""
    client = FakeListener(ParkingHandler()).connect()
    client.send(request_of(ApiKey.API_VERSIONS, api_version, correlation_id=41))
    (payload,) = client.payloads()
    correlation_id, answer = decode_response(ApiVersionsResponse, 0, payload)
    assert correlation_id == 41
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [
        (18, 0, 4)
    ]


def test_client_may_ask_again_after_unsupported_api_versions() -> None:
    """The connection stays open for the same question in a version that is spoken."""
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(request_of(ApiKey.API_VERSIONS, 9))
    client.send(encode_request(ApiVersionsRequest(), 0, 8))
    assert not client.transport.closing
    assert [exchange.request.correlation_id for exchange in handler.exchanges] == [8]


def test_an_answer_to_unsupported_api_versions_leaves_behind_earlier_requests() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0) + request_of(ApiKey.API_VERSIONS, 9, correlation_id=1))
    assert client.payloads() == []
    handler.answer([0])
    assert [payload[:4] for payload in client.payloads()] == [b"\0\0\0\0", b"\0\0\0\1"]


def test_reply_that_does_not_fit_is_logged_as_a_bug(log: LogLines) -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(heartbeat(0))
    handler.exchanges[0].reply(HeartbeatResponse(throttle_time_ms=0, error_code=100_000))
    client.lose()
    assert client.transport.closing
    assert listener.registry.stats().closed[CloseReason.BUG] == 1
    line = log[0]
    assert (line["log_level"], line["api"], line["api_version"]) == ("error", "Heartbeat", 3)
    assert "error_code" in line["error"]


def test_a_reply_of_another_api_is_logged_as_a_bug(log: LogLines) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0))
    handler.exchanges[0].reply(object())
    assert client.transport.closing
    assert [line["log_level"] for line in log] == ["error"]


def test_handler_that_raises_closes_its_client_only(log: LogLines) -> None:
    """It never should; if it does, the bug is logged and others are served on."""

    class RaisingHandler(AnsweringHandler):
        def handle(self, exchange: Exchange) -> None:
            if exchange.request.message.member_id == "bad":
                raise ZeroDivisionError
            super().handle(exchange)

    listener = FakeListener(RaisingHandler())
    bad, good = listener.connect(), listener.connect()
    bad.send(heartbeat(0) + heartbeat(1, member_id="bad") + heartbeat(2))
    good.send(heartbeat(3))
    assert (bad.answered(), bad.transport.closing) == ([0], True)
    assert (good.answered(), good.transport.closing) == ([3], False)
    assert [line["log_level"] for line in log] == ["error"]


def test_exchange_can_close_the_connection(log: LogLines) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), heartbeat(1))
    handler.exchanges[1].close("not authenticated")
    assert client.transport.closing
    assert [(line["reason"], line["why"]) for line in log] == [("handler", "not authenticated")]


def test_closing_twice_is_one_close(log: LogLines) -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0), heartbeat(1))
    for exchange in handler.exchanges:
        exchange.close("stopping")
    assert len(log) == 1


@pytest.mark.parametrize("cut", [True, False])
def test_close_sends_what_was_answered_before(*, cut: bool, log: LogLines) -> None:
    """An earlier answer is sent whether its request came in the same piece or before."""

    class ClosingHandler(AnsweringHandler):
        def handle(self, exchange: Exchange) -> None:
            if exchange.request.correlation_id == 1:
                exchange.close("enough")
            else:
                super().handle(exchange)

    handler = ClosingHandler()
    client = FakeListener(handler).connect()
    pieces = [heartbeat(number) for number in range(3)]
    client.send(*(pieces if cut else [b"".join(pieces)]))
    assert (client.answered(), handler.seen) == ([0], [0])
    assert len(log) == 1


def test_client_that_leaves_abandons_its_exchanges() -> None:
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    client.send(heartbeat(0))
    assert not handler.exchanges[0].abandoned
    client.lose(ConnectionResetError())
    assert handler.exchanges[0].abandoned
    handler.answer([0, 0])
    handler.exchanges[0].close("too late to matter")
    assert client.transport.writes == 0


def test_client_that_stops_sending_has_left() -> None:
    """Half a close is a whole one: see the page on differences from Kafka."""
    handler = ParkingHandler()
    listener = FakeListener(handler)
    client = listener.connect()
    client.send(heartbeat(0))
    client.connection.eof_received()
    assert client.transport.closing
    assert handler.exchanges[0].abandoned
    assert listener.registry.stats().in_flight == 0


def test_bytes_behind_the_end_are_ignored() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler)
    client = listener.connect()
    client.connection.eof_received()
    client.send(heartbeat(0), heartbeat(1)[:5])
    assert handler.exchanges == []
    assert listener.registry.unfinished_bytes == 0


def test_exchange_knows_its_request_and_its_client() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler)
    listener.clock.now_ms = 12_500
    listener.connect(("192.0.2.7", 50_123)).send(heartbeat(5))
    (exchange,) = handler.exchanges
    request: Any = exchange.request
    assert (request.api_key, request.api_version) == (ApiKey.HEARTBEAT, 3)
    assert (request.correlation_id, request.client_id) == (5, "client")
    assert request.message.group_id == "group"
    assert exchange.host == "/192.0.2.7"
    assert exchange.received_ms == 12_500


def test_reply_that_cannot_be_encoded_is_told_without_what_variables_hold(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Also in an application that has not configured structlog: then it goes to its logging."""
    handler = ParkingHandler()
    client = FakeListener(handler).connect()
    structlog.reset_defaults()
    client.send(heartbeat(0))
    handler.exchanges[0].reply("no reply at all")
    assert client.transport.closing
    assert capsys.readouterr() == ("", "")
    assert [record.name for record in caplog.records] == ["coterie_server.net.registry"]


def test_lines_about_replies_that_cannot_be_encoded_are_bounded(log: LogLines) -> None:
    """A client may find out what makes one, and has only to connect again."""
    handler = ParkingHandler()
    listener = FakeListener(handler)
    for _ in range(LOG_LINES_PER_SWEEP + 5):
        client = listener.connect()
        client.send(heartbeat(0))
        handler.exchanges.pop().reply("no reply at all")
        assert client.transport.closing
    assert len(log) == LOG_LINES_PER_SWEEP
