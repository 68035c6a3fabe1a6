"""Each time limit closes the connections that exceed it, by a fake clock, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.net import CloseReason, Limits
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import (
    AnsweringHandler,
    FakeClient,
    FakeListener,
    ParkingHandler,
    heartbeat,
)
from tests.support.profiles import examples

LIMITS = Limits(
    first_byte_timeout_ms=1_000,
    frame_timeout_ms=2_000,
    connections_max_idle_ms=10_000,
    drain_timeout_ms=3_000,
    close_timeout_ms=500,
    write_buffer_high_bytes=10,
    max_requests_in_flight=2,
)


def test_a_client_that_says_nothing_is_closed_after_the_time_for_the_first_byte(
    log: LogLines,
) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    listener.pass_time(999)
    assert not client.transport.closing
    listener.pass_time(1)
    assert client.transport.closing
    assert log == [
        {
            "event": "connection closed",
            "log_level": "warning",
            "reason": "first_byte_timeout_ms",
            "peer": "127.0.0.1:4711",
            "limit": 1_000,
            "found": 1_000,
            "in_flight": 0,
        }
    ]


def test_an_idle_client_is_closed_without_a_warning(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0))
    listener.pass_time(9_999)
    assert not client.transport.closing
    listener.pass_time(1)
    assert client.transport.closing
    assert [(line["reason"], line["log_level"]) for line in log] == [
        ("connections_max_idle_ms", "info")
    ]


def test_client_that_speaks_is_not_idle() -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    for number in range(5):
        client.send(heartbeat(number))
        listener.pass_time(9_000)
    assert not client.transport.closing


def test_client_that_waits_is_not_idle() -> None:
    """A request may be parked for longer than a client may be idle: a rebalance takes long."""
    listener = FakeListener(ParkingHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0))
    for _ in range(5):
        listener.pass_time(9_000)
    assert not client.transport.closing


def test_time_to_be_idle_begins_with_a_late_answer(log: LogLines) -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0))
    listener.pass_time(60_000)
    listener.clock.now_ms += 5_000
    handler.answer([0])
    listener.pass_time(9_999)
    assert not client.transport.closing
    listener.pass_time(1)
    assert client.transport.closing
    assert len(log) == 1


def test_slow_frame_is_closed(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    for byte in heartbeat(0)[:20]:
        client.send(bytes([byte]))
        listener.pass_time(100)
    assert client.transport.closing
    assert [(line["reason"], line["limit"], line["found"]) for line in log] == [
        ("frame_timeout_ms", 2_000, 2_000)
    ]


def test_slow_frame_is_closed_even_as_a_size_alone(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    client.send(b"\0")
    listener.pass_time(2_000)
    assert client.transport.closing
    assert [line["reason"] for line in log] == ["frame_timeout_ms"]


def test_each_frame_has_its_own_time() -> None:
    """A piece that ends one frame and begins the next starts the clock of the next."""
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    stream = heartbeat(0) * 20
    for start in range(0, len(stream), 30):
        client.send(stream[start : start + 30])
        listener.pass_time(900)
    assert not client.transport.closing
    assert client.answered() == [0] * 20


def test_frame_of_an_end_and_a_beginning_starts_the_clock_anew() -> None:
    """So it is even if the piece that holds both is as long as a whole frame."""
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    whole = heartbeat(0)
    client.send(whole[:20])
    listener.pass_time(1_500)
    client.send(whole[20:] + whole[:20])
    listener.pass_time(1_999)
    assert client.answered() == [0]
    assert not client.transport.closing


def test_frame_that_was_finished_has_no_time_limit() -> None:
    """A client that sent one frame in pieces may be silent afterwards like any other."""
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0)[:20], heartbeat(0)[20:])
    listener.pass_time(9_999)
    assert not client.transport.closing


def test_frame_time_does_not_run_while_we_do_not_read() -> None:
    """A client cannot finish a frame that we refuse to read: its time begins when we go on."""
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1) + heartbeat(2)[:5])
    assert not client.transport.reading
    listener.pass_time(60_000)
    handler.answer([0])
    client.connection.times.due = (
        0.0  # so that the next sweep looks, rather than trust that it need not
    )
    listener.pass_time(1_999)
    assert not client.transport.closing
    client.send(heartbeat(2)[5:])
    assert len(handler.exchanges) == 3


def test_frame_time_runs_again_when_we_read(log: LogLines) -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1) + heartbeat(2)[:5])
    listener.pass_time(60_000)
    handler.answer([0])
    listener.pass_time(2_000)
    assert client.transport.closing
    assert [line["reason"] for line in log] == ["frame_timeout_ms"]


def behind(listener: FakeListener) -> FakeClient:
    """A client that has not read its answers."""
    client = listener.connect()
    client.transport.flowing = False
    client.send(heartbeat(0))
    assert not client.transport.reading
    return client


def test_reader_that_never_catches_up_is_cut_off(log: LogLines) -> None:
    """A client above the high mark has so much time to read, and then loses what is unsent."""
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = behind(listener)
    listener.pass_time(2_999)
    assert not client.transport.closing
    listener.pass_time(1)
    client.lose()
    assert client.transport.aborted
    assert listener.registry.stats().closed[CloseReason.SLOW_READER] == 1
    assert (log[0]["reason"], log[0]["limit"]) == ("drain_timeout_ms", 3_000)


def test_reader_that_is_slow_and_reads_enough_is_kept() -> None:
    """One that reads all the time needs more of it for a long answer than one that does not."""
    limits = replace(LIMITS, drain_least_bytes=10, max_requests_in_flight=5)
    listener = FakeListener(handler := ParkingHandler(), limits)
    client = listener.connect()
    client.transport.flowing = False
    client.send(*map(heartbeat, range(5)))
    handler.answer(range(5))
    for _ in range(4):
        listener.pass_time(2_000)
        client.transport.read(10)
        listener.pass_time(999)
        assert not client.transport.closing
    listener.pass_time(1_000)
    assert not client.transport.closing
    listener.pass_time(3_000)
    assert client.transport.aborted


def test_a_byte_now_and_then_is_not_enough() -> None:
    limits = replace(LIMITS, drain_least_bytes=10)
    client = behind(listener := FakeListener(AnsweringHandler(), limits))
    for _ in range(3):
        assert not client.transport.closing
        client.transport.read(3)
        listener.pass_time(1_000)
    assert client.transport.aborted


def test_what_is_added_for_a_slow_reader_does_not_count_against_it() -> None:
    """What it has read counts, and not how much is left."""
    limits = replace(LIMITS, drain_least_bytes=10)
    listener = FakeListener(handler := ParkingHandler(), limits)
    client = listener.connect()
    client.transport.flowing = False
    client.send(heartbeat(0), heartbeat(1))
    handler.answer([0])
    client.transport.read(3)
    handler.answer([1])
    client.transport.read(7)
    listener.pass_time(2_000)
    listener.pass_time(1_500)
    assert not client.transport.closing


def test_time_to_catch_up_begins_when_falling_behind(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0))
    listener.pass_time(1_000)  # the next look would be due when it has been idle for long
    client.transport.flowing = False
    client.send(heartbeat(1))
    listener.pass_time(3_000)
    assert client.transport.aborted
    assert len(log) == 1


def test_reader_that_caught_up_stays() -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = behind(listener)
    for _ in range(5):
        listener.pass_time(2_000)
        client.transport.drain()
        client.send(heartbeat(0))
    assert not client.transport.closing


def test_closing_connection_that_cannot_send_is_aborted() -> None:
    """A close waits for the client to read for a short time only."""
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = behind(listener)
    client.connection.eof_received()
    listener.pass_time(499)
    assert not client.transport.aborted
    listener.pass_time(1)
    assert client.transport.aborted


@pytest.mark.parametrize("step_ms", [1, 7, 100, 999])
def test_sweeps_skip_only_clients_that_are_in_time(step_ms: int, log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1)[:3])
    passed_ms = 0
    while not client.transport.closing:
        listener.pass_time(step_ms)
        passed_ms += step_ms
    assert 2_000 <= passed_ms < 2_000 + step_ms
    assert len(log) == 1


def test_sweep_closes_only_who_is_late(log: LogLines) -> None:
    listener = FakeListener(AnsweringHandler(), LIMITS)
    clients = [listener.connect() for _ in range(10)]
    for client in clients[::2]:
        client.send(heartbeat(0))
    listener.pass_time(1_000)
    assert [client.transport.closing for client in clients] == [False, True] * 5
    assert len(log) == 5


# Stopping


def test_stop_closes_who_waits_for_nothing() -> None:
    listener = FakeListener(ParkingHandler(), LIMITS)
    client = listener.connect()
    client.send(heartbeat(0)[:7])
    listener.registry.stop()
    client.lose()
    assert client.transport.closing
    assert listener.registry.stats().closed[CloseReason.STOPPING] == 1


def test_stop_waits_for_answers() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0), heartbeat(1))
    listener.registry.stop()
    assert not client.transport.closing
    handler.answer([0, 1])
    assert client.answered() == [0, 1]
    assert client.transport.closing


def test_stop_reads_nothing_more() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1) + heartbeat(2))
    listener.registry.stop()
    client.send(heartbeat(3))
    handler.answer([0])
    listener.turn()
    handler.answer([1])
    listener.turn()
    assert client.answered() == [0, 1]
    assert len(handler.exchanges) == 2


def test_stop_drops_requests_that_were_about_to_be_handled() -> None:
    """Room was made for a waiting request, but the stop comes before the loop's next turn."""
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    client = listener.connect()
    client.send(heartbeat(0) + heartbeat(1) + heartbeat(2))
    handler.answer([0])
    listener.registry.stop()
    listener.turn()
    assert len(handler.exchanges) == 2


def test_stop_refuses_new_connections(log: LogLines) -> None:
    listener = FakeListener(ParkingHandler(), LIMITS)
    listener.registry.stop()
    assert listener.connect().transport.aborted
    assert [line["reason"] for line in log] == ["stopping"]


def test_abort_drops_all() -> None:
    handler = ParkingHandler()
    listener = FakeListener(handler, LIMITS)
    clients = [listener.connect(), listener.connect()]
    clients[0].send(heartbeat(0))
    listener.registry.abort()
    assert all(client.transport.aborted for client in clients)
    assert handler.exchanges[0].abandoned


# What a sweep may skip

FEW_MS = st.sampled_from([1, 4, 16])
TIGHT = st.builds(
    Limits,
    first_byte_timeout_ms=FEW_MS,
    frame_timeout_ms=FEW_MS,
    connections_max_idle_ms=FEW_MS,
    drain_timeout_ms=FEW_MS,
    close_timeout_ms=FEW_MS,
    write_buffer_high_bytes=st.just(10),
    max_requests_in_flight=st.integers(1, 3),
)
STEPS = st.lists(
    st.sampled_from(["send", "half", "rest", "answer", "stop reading", "read", "leave"])
    | st.integers(1, 5),
    min_size=5,
    max_size=30,
)


WHOLE = heartbeat(0)


def play(limits: Limits, steps: list[str | int], *, ask_all: bool) -> list[tuple[bool, bool]]:
    """Whether the connection was closing, and aborted, after each step."""
    handler = ParkingHandler()
    listener = FakeListener(handler, limits)
    client = listener.connect()
    transport, answered, half = client.transport, 0, False
    history = []
    for step in steps:
        listener.turn()
        if isinstance(step, int):
            if ask_all and not client.connection.gone:
                client.connection.times.due = 0.0
            listener.pass_time(step)
        elif step == "answer" and answered < len(handler.exchanges):
            handler.answer([answered])
            answered += 1
        elif step == "stop reading":
            transport.flowing = False
        elif step == "read":
            transport.drain()
        elif step == "leave":
            client.connection.eof_received()
        elif transport.reading and not transport.closing and (step == "rest") == half:
            client.send({"send": WHOLE, "half": WHOLE[:9], "rest": WHOLE[9:]}.get(step, b""))
            half = step == "half"
        history.append((transport.closing, transport.aborted))
        if transport.aborted:
            break
    return history


@examples(250)
@given(limits=TIGHT, steps=STEPS)
def test_sweep_never_skips_a_late_client(limits: Limits, steps: list[str | int]) -> None:
    """Asking only those whose time may have come closes the same ones at the same moments."""
    skipping = play(limits, steps, ask_all=False)
    assert skipping == play(limits, steps, ask_all=True)
