"""Connections whose clients have to log in, from their bytes to the handler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import ApiKey, encode_request
from coterie_protocol import messages as m
from coterie_server.net import CloseReason, Exchange, Limits
from coterie_server.net.registry import LOG_LINES_PER_SWEEP
from coterie_server.security import ANONYMOUS, Principal, SecurityProtocol
from coterie_server.security.sasl import NODE_MECHANISM, NodeProof
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import AnsweringHandler, ParkingHandler, heartbeat
from tests.server.net.logins import (
    DELAY_MS,
    MAX_RECEIVE_BYTES,
    SECRET,
    LoginListener,
    handshake,
    token,
    told,
)

SHAKE, PROVE = (ApiKey.SASL_HANDSHAKE, 1), (ApiKey.SASL_AUTHENTICATE, 2)
RIGHT, WRONG, STRANGER = b"\0ann\0pencil", b"\0ann\0eraser", b"\0bob\0pencil"
ANN = Principal("User", "ann")


class Versions(AnsweringHandler):
    """Answers ApiVersions, and heartbeats as the handler it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.principals: list[Principal] = []

    def handle(self, exchange: Exchange) -> None:
        """Take note of who it is."""
        self.principals.append(exchange.principal)
        if isinstance(exchange.message, m.ApiVersionsRequest):
            exchange.reply(m.ApiVersionsResponse(api_keys=()))
        elif isinstance(exchange.message, m.SaslHandshakeRequest | m.SaslAuthenticateRequest):
            exchange.authenticate()
        else:
            super().handle(exchange)


def test_client_that_has_logged_in_is_served_as_itself() -> None:
    handler = Versions()
    listener = LoginListener(handler)
    client = listener.connect()
    versions = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    client.send(encode_request(versions, 3, 1))
    client.transport.sent = b""
    client.send(handshake("PLAIN"))
    (shaken,) = told(client, SHAKE)
    assert (shaken.error_code, shaken.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256"))
    client.send(token(RIGHT))
    assert client.connection.principal == ANONYMOUS
    listener.run_checks()
    (proved,) = told(client, PROVE)
    assert (proved.error_code, proved.session_lifetime_ms) == (0, 0)
    client.send(heartbeat(3))
    assert client.answered() == [3]
    assert handler.principals == [ANONYMOUS, ANN]


def test_client_that_has_not_logged_in_reaches_no_handler() -> None:
    handler = ParkingHandler()
    listener = LoginListener(handler)
    client = listener.connect()
    client.send(heartbeat(1))
    listener.wait(DELAY_MS)
    assert client.transport.closing
    assert (handler.exchanges, client.transport.sent) == ([], b"")


def test_requests_behind_a_wrong_password_are_dropped() -> None:
    handler = ParkingHandler()
    listener = LoginListener(handler)
    client = listener.connect()
    client.send(handshake("PLAIN") + token(WRONG) + heartbeat(1) + token(RIGHT) + heartbeat(2))
    for _ in range(5):
        listener.turn()
        listener.run_checks()
    listener.wait(DELAY_MS)
    assert client.transport.closing
    assert handler.exchanges == []


def test_whole_login_in_one_piece_is_taken_step_by_step() -> None:
    handler = AnsweringHandler()
    listener = LoginListener(handler)
    client = listener.connect()
    client.send(handshake("PLAIN") + token(RIGHT) + heartbeat(1) + heartbeat(2))
    for _ in range(3):
        assert handler.seen == []
        listener.turn()
    listener.run_checks()
    listener.turn()
    assert handler.seen == [1, 2]
    assert client.transport.reading


@pytest.mark.parametrize("auth_bytes", [WRONG, STRANGER], ids=["wrong password", "unknown user"])
@pytest.mark.parametrize("took_ms", [0, 5, 99])
def test_refusal_comes_when_the_delay_is_over_however_long_the_check_took(
    auth_bytes: bytes, took_ms: int
) -> None:
    listener = LoginListener(ParkingHandler())
    client = listener.connect()
    client.send(handshake("PLAIN"))
    client.transport.sent = b""
    client.send(token(auth_bytes))
    listener.wait(took_ms)
    listener.run_checks()
    listener.wait(DELAY_MS - took_ms - 1)
    assert (client.transport.sent, client.transport.closing) == (b"", False)
    listener.wait(1)
    (refused,) = told(client, PROVE)
    assert refused.error_code == 58
    assert refused.error_message == "Authentication failed: Invalid username or password"
    assert client.transport.closing
    client.lose()
    assert listener.registry.stats().closed[CloseReason.AUTHENTICATION] == 1


def test_refused_login_is_logged_without_its_password(log: LogLines) -> None:
    listener = LoginListener(ParkingHandler())
    client = listener.connect(("192.0.2.7", 50_123))
    client.send(handshake("PLAIN") + token(WRONG))
    listener.turn()
    listener.run_checks()
    assert log == [
        {
            "event": "authentication failed",
            "log_level": "warning",
            "listener": "OUTSIDE",
            "peer": "192.0.2.7:50123",
            "why": "wrong password",
            "user": "ann",
            "mechanism": "PLAIN",
        }
    ]


def test_many_logins_are_no_warning(log: LogLines) -> None:
    """They leave room for the lines of connections that were refused or closed."""
    listener = LoginListener(AnsweringHandler())
    for _ in range(LOG_LINES_PER_SWEEP + 1):
        listener.log_in(listener.connect())
    listener.connect().send(handshake("GSSAPI"))
    listener.pass_time(1)
    assert [line["event"] for line in log if line["log_level"] != "debug"] == [
        "authentication failed"
    ]


def test_long_name_is_shortened_in_the_log(log: LogLines) -> None:
    listener = LoginListener(ParkingHandler())
    listener.connect().send(handshake("x" * 1000))
    assert len(str(log[0]["mechanism"])) < 200


@pytest.mark.parametrize(
    "first",
    [b"n,a=%b,n=ann,r=abc", b"p=%b,,n=ann,r=abc"],
    ids=["whom it asks to act for", "what it binds the conversation to"],
)
def test_whatever_else_a_client_claims_is_shortened_in_the_log(first: bytes, log: LogLines) -> None:
    client = LoginListener(AnsweringHandler()).connect()
    client.send(handshake("SCRAM-SHA-256"), token(first % (b"x" * (MAX_RECEIVE_BYTES // 2))))
    (line,) = log
    assert line["event"] == "authentication failed"
    assert "xxx" in line["why"]
    assert len(str(line)) < 1000


def test_unknown_mechanism_is_told_with_those_that_there_are() -> None:
    listener = LoginListener(ParkingHandler())
    client = listener.connect()
    client.send(handshake("GSSAPI"))
    assert client.transport.sent == b""
    listener.wait(DELAY_MS)
    (refused,) = told(client, SHAKE)
    assert (refused.error_code, refused.mechanisms) == (33, ("PLAIN", "SCRAM-SHA-256"))
    assert client.transport.closing


def test_tokens_after_the_first_version_of_the_handshake_are_bare() -> None:
    listener = LoginListener(AnsweringHandler())
    client = listener.connect()
    client.send(handshake("PLAIN", 0))
    told(client, (ApiKey.SASL_HANDSHAKE, 0))
    client.send(len(RIGHT).to_bytes(4) + RIGHT)
    listener.run_checks()
    assert client.transport.sent == bytes(4)
    client.transport.sent = b""
    client.send(heartbeat(1))
    assert client.answered() == [1]


@pytest.mark.parametrize("first", [b"", handshake("PLAIN")], ids=["at first", "as a token"])
def test_frame_that_is_too_large_for_a_stranger_ends_the_connection(first: bytes) -> None:
    listener = LoginListener(ParkingHandler())
    client = listener.connect()
    client.send(first + (MAX_RECEIVE_BYTES + 1).to_bytes(4))
    listener.turn()
    assert client.transport.closing
    client.lose()
    assert listener.registry.stats().closed[CloseReason.FRAME_SIZE] == 1


def test_known_client_may_send_large_frames() -> None:
    listener = LoginListener(AnsweringHandler())
    client = listener.connect()
    listener.log_in(client)
    client.send(heartbeat(1, member_id="m" * MAX_RECEIVE_BYTES))
    assert client.answered() == [1]


def test_known_client_may_have_many_requests_in_flight() -> None:
    handler = ParkingHandler()
    listener = LoginListener(handler, Limits(max_requests_in_flight=5))
    client = listener.connect()
    listener.log_in(client)
    client.send(b"".join(heartbeat(number) for number in range(9)))
    assert len(handler.exchanges) == 5


def test_users_are_waited_for() -> None:
    """Or all users would be unknown to a node that has only just started."""
    listener = LoginListener(AnsweringHandler())
    listener.logins.is_open = False
    client, impatient = listener.connect(), listener.connect()
    for each in (client, impatient):
        each.send(handshake("PLAIN"))
        each.transport.sent = b""
        each.send(token(RIGHT))
    assert listener.checks == []
    impatient.lose()
    listener.logins.open()
    assert listener.run_checks() == 1
    (proved,) = told(client, PROVE)
    assert proved.error_code == 0


def test_client_that_has_gone_is_not_checked() -> None:
    listener = LoginListener(ParkingHandler())
    clients = [listener.connect() for _ in range(6)]
    for each in clients:
        each.send(handshake("PLAIN"))
        each.send(token(WRONG))
    for each in clients:
        each.lose()
    for _ in range(6):
        listener.run_checks()
    assert listener.later == []
    assert listener.registry.stats().in_flight == 0


def test_flood_from_one_address_waits_behind_itself() -> None:
    listener = LoginListener(AnsweringHandler())
    flood = [listener.connect(("192.0.2.7", port)) for port in range(100)]
    for each in flood:
        each.send(handshake("PLAIN"))
        each.send(token(WRONG))
    client = listener.connect(("192.0.2.8", 1))
    client.send(handshake("PLAIN"))
    client.transport.sent = b""
    client.send(token(RIGHT))
    # Two of the flood are being checked by now, and one more has its turn before this one.
    for _ in range(3):
        listener.run_checks(1)
    listener.run_checks(1)
    (proved,) = told(client, PROVE)
    assert proved.error_code == 0


@pytest.mark.parametrize(
    "frames",
    [
        [m.ApiVersionsRequest(client_software_name="a", client_software_version="1")],
        [m.SaslHandshakeRequest(mechanism="PLAIN")],
    ],
)
def test_client_that_does_not_finish_its_login_is_cut_off(frames: list[Any]) -> None:
    listener = LoginListener(Versions(), Limits(login_timeout_ms=20_000))
    client, member = listener.connect(), listener.connect()
    listener.log_in(member)
    for each in frames:
        client.send(encode_request(each, 1, 1))
    listener.wait(19_000)
    assert not client.transport.closing
    listener.wait(1_000)
    assert (client.transport.closing, member.transport.closing) == (True, False)
    client.lose()
    assert listener.registry.stats().closed[CloseReason.SLOW_LOGIN] == 1


def test_client_whose_password_waits_to_be_checked_is_not_cut_off() -> None:
    listener = LoginListener(Versions(), Limits(login_timeout_ms=20_000))
    client = listener.connect()
    client.send(handshake("PLAIN"))
    client.send(token(RIGHT))
    listener.wait(60_000)
    listener.run_checks()
    assert client.connection.principal == ANN


def test_client_has_its_time_anew_once_it_has_waited(log: LogLines) -> None:
    """And no longer than that: the next look would be minutes later."""
    handler = ParkingHandler()
    limits = Limits(login_timeout_ms=20_000, connections_max_idle_ms=600_000)
    listener = LoginListener(handler, limits, session_ms=600_000)
    client = listener.connect()
    listener.log_in(client)
    client.send(heartbeat(1))
    client.send(handshake("PLAIN"))
    listener.wait(20_000)
    listener.wait(5_000)
    handler.answer([0])
    listener.wait(14_000)
    assert not client.transport.closing
    listener.wait(21_000)
    assert client.transport.closing
    assert log[-1]["reason"] == "login_timeout_ms"


# -- sessions --------------------------------------------------------------------------------------


def test_session_that_is_over_ends_the_connection_at_the_next_request(log: LogLines) -> None:
    handler = AnsweringHandler()
    listener = LoginListener(handler, session_ms=60_000)
    client = listener.connect()
    listener.log_in(client)
    client.send(heartbeat(1))
    listener.wait(60_001)
    assert not client.transport.closing
    client.send(heartbeat(2))
    assert client.transport.closing
    assert handler.seen == [1]
    client.lose()
    assert listener.registry.stats().closed[CloseReason.SESSION_OVER] == 1
    assert log[-1]["reason"] == "session_over"


def test_client_logs_in_again_between_its_requests() -> None:
    handler = ParkingHandler()
    listener = LoginListener(handler, session_ms=60_000)
    client = listener.connect()
    listener.log_in(client)
    client.send(heartbeat(1))
    client.send(handshake("PLAIN"))
    assert client.transport.sent == b""  # the heartbeat is answered first
    handler.answer([0])
    client.transport.sent = b""
    listener.turn()
    client.send(token(RIGHT))
    listener.run_checks()
    (proved,) = told(client, PROVE)
    assert (proved.error_code, proved.session_lifetime_ms) == (0, 60_000)
    client.send(heartbeat(2))
    assert len(handler.exchanges) == 2


def test_client_may_not_become_another() -> None:
    from tests.server.security.sasl.logins import credentials  # noqa: PLC0415

    found = credentials({"ann": "pencil", "bob": "pencil"})
    listener = LoginListener(ParkingHandler(), session_ms=60_000, found=found)
    client = listener.connect()
    listener.log_in(client)
    client.send(handshake("PLAIN"))
    client.transport.sent = b""
    client.send(token(STRANGER))
    listener.run_checks()
    listener.wait(DELAY_MS)
    (refused,) = told(client, PROVE)
    assert "Cannot change principals" in refused.error_message
    assert client.transport.closing


def test_login_after_login_is_out_of_order() -> None:
    listener = LoginListener(Versions())
    client = listener.connect()
    listener.log_in(client)
    client.send(handshake("PLAIN"))
    client.send(token(RIGHT))
    shaken, proved = told(client, SHAKE, PROVE)
    assert (shaken.error_code, proved.error_code) == (34, 34)
    assert not client.transport.closing


# -- nodes -----------------------------------------------------------------------------------------


def prove(listener: LoginListener, secret: bytes = SECRET) -> Principal:
    client = listener.connect()
    asker = NodeProof(secret, 7, "theirs")
    client.send(handshake(NODE_MECHANISM))
    client.transport.sent = b""
    client.send(token(asker.first()))
    (challenged,) = told(client, PROVE)
    client.send(token(asker.final(challenged.auth_bytes)))
    if client.transport.sent:
        (proved,) = told(client, PROVE)
        asker.verify(proved.auth_bytes)
    client.send(heartbeat(5))
    return client.connection.principal


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT])
def test_node_is_known_on_every_listener(protocol: SecurityProtocol) -> None:
    handler = Versions()
    listener = LoginListener(handler, protocol=protocol)
    assert prove(listener) == Principal("Node", "7")
    assert handler.seen == [5]


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT])
def test_client_that_claims_to_be_a_node_is_cut_off(protocol: SecurityProtocol) -> None:
    handler = Versions()
    listener = LoginListener(handler, protocol=protocol)
    assert prove(listener, secret=bytes(32)) == ANONYMOUS
    listener.wait(DELAY_MS)
    assert handler.seen == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "GSSAPI"])
def test_where_clients_need_not_log_in_they_can_not(mechanism: str) -> None:
    listener = LoginListener(Versions(), protocol=SecurityProtocol.PLAINTEXT)
    client = listener.connect()
    client.send(handshake(mechanism))
    client.send(token(RIGHT))
    shaken, proved = told(client, SHAKE, PROVE)
    assert (shaken.error_code, shaken.mechanisms, proved.error_code) == (34, (), 34)
    client.send(heartbeat(1))
    assert client.answered() == [1]


def test_plaintext_connection_has_no_guard() -> None:
    listener = LoginListener(Versions(), protocol=SecurityProtocol.PLAINTEXT)
    assert listener.connect().connection.guard is None


@given(data=st.data())
def test_any_bytes_before_a_login_reach_no_handler(data: st.DataObject) -> None:
    handler = ParkingHandler()
    listener = LoginListener(handler)
    client = listener.connect()
    known = [handshake("PLAIN"), handshake("SCRAM-SHA-256", 0), token(WRONG), heartbeat(1)]
    for _ in range(data.draw(st.integers(1, 6))):
        if client.transport.closing:
            break
        client.send(data.draw(st.one_of(st.sampled_from(known), st.binary(max_size=40))))
        listener.turn()
        listener.run_checks()
        listener.wait(data.draw(st.sampled_from([0, DELAY_MS])))
    assert [each for each in handler.exchanges if each.request.api_key != ApiKey.API_VERSIONS] == []
    assert client.connection.principal == ANONYMOUS
