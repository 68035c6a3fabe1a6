"""Clients that have to log in make room for others, so that strangers shut out no one."""

from __future__ import annotations

import struct

from coterie_server.net import CloseReason, Limits
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import AnsweringHandler, FakeClient, heartbeat
from tests.server.net.logins import LoginListener

HERE, ELSEWHERE, FAR = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def _closed(*clients: FakeClient) -> list[bool]:
    return [client.transport.aborted for client in clients]


def test_place_of_a_stranger_is_given_to_who_comes_later(log: LogLines) -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections=2))
    known = listener.connect((HERE, 1))
    listener.log_in(known)
    stranger, newcomer = listener.connect((ELSEWHERE, 1)), listener.connect((HERE, 2))
    assert _closed(known, stranger, newcomer) == [False, True, False]
    listener.log_in(newcomer)
    newcomer.send(heartbeat(1))
    assert newcomer.answered() == [1]
    (line,) = (each for each in log if each["event"] == "connection closed")
    assert (line["reason"], line["peer"]) == ("made_room", f"{ELSEWHERE}:1")
    stats = listener.registry.stats()
    assert (stats.open, stats.closed[CloseReason.MADE_ROOM]) == (2, 1)


def test_flood_from_one_address_drops_its_own() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections=4))
    slow = listener.connect((FAR, 1))
    flood = [listener.connect((HERE, port)) for port in range(50)]
    assert _closed(slow, *flood) == [False] + [True] * 47 + [False] * 3
    assert not listener.connect((ELSEWHERE, 1)).transport.aborted
    assert not slow.transport.aborted


def test_client_that_has_logged_in_makes_no_room() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections=2))
    known = [listener.connect((HERE, port)) for port in range(2)]
    for each in known:
        listener.log_in(each)
    assert listener.connect((ELSEWHERE, 1)).transport.aborted
    assert _closed(*known) == [False, False]


def test_client_whose_session_is_limited_makes_no_room() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections=1), session_ms=60_000)
    known = listener.connect((HERE, 1))
    listener.log_in(known)
    assert listener.connect((ELSEWHERE, 1)).transport.aborted
    assert not known.transport.aborted


def test_only_the_address_with_too_many_makes_room_at_its_own_limit() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections_per_ip=2))
    others = [listener.connect((ELSEWHERE, port)) for port in range(2)]
    own = [listener.connect((HERE, port)) for port in range(3)]
    assert _closed(*others, *own) == [False, False, True, False, False]


def test_connections_that_have_ended_are_forgotten() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(max_connections=1))
    for port in range(3):
        listener.connect((HERE, port)).lose()
    assert len(listener.registry.strangers) == 0
    assert listener.registry.admission.enter(HERE, listener.endpoint) is None


def test_unfinished_frames_of_strangers_do_not_cost_a_known_client_its_own() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(unfinished_frames_max_bytes=2_500))
    known = listener.connect((HERE, 1))
    listener.log_in(known)
    strangers = [listener.connect((ELSEWHERE, port)) for port in range(5)]
    for each in strangers:
        each.send(struct.pack(">i", 500) + bytes(400))
    known.send(struct.pack(">i", 1_000) + bytes(700))
    assert not known.transport.closing
    assert [each.transport.closing for each in strangers].count(True) == 1


def test_stranger_does_not_pay_for_those_who_hold_more() -> None:
    listener = LoginListener(AnsweringHandler(), Limits(unfinished_frames_max_bytes=2_500))
    known = listener.connect((HERE, 1))
    listener.log_in(known)
    stranger = listener.connect((ELSEWHERE, 1))
    stranger.send(struct.pack(">i", 500) + bytes(400))
    known.send(struct.pack(">i", 10_000) + bytes(3_000))
    assert known.transport.closing
    assert not stranger.transport.closing
