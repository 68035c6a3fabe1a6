"""A virtual connection behaves as asyncio documents transports, and as TCP behaves."""

from __future__ import annotations

import pytest

from coterie_testing.virtual import NetworkOptions
from tests.testing.virtual.peers import Place


@pytest.fixture
def place() -> Place:
    """Return a server and a client that can reach it."""
    return Place()


# -- bytes -----------------------------------------------------------------------------------------


def test_bytes_arrive_in_order(place: Place) -> None:
    place.network.conditions.options = NetworkOptions(straggler_chance=0.3, straggler_s=1.0)
    near, far = place.connect()
    sent = [bytes([number]) * 3 for number in range(100)]
    for number, data in enumerate(sent):
        place.scheduler.after(number * 0.01, near.transport.write, data)
    place.scheduler.run(10.0)
    assert far.received == b"".join(sent)


def test_both_ends_can_write_at_any_time(place: Place) -> None:
    near, far = place.connect()
    near.transport.write(b"to the server")
    far.transport.writelines([b"to ", b"the ", b"client"])
    place.scheduler.run(1.0)
    assert far.received == b"to the server"
    assert near.received == b"to the client"


def test_bytes_arrive_within_the_latency() -> None:
    place = Place(NetworkOptions(latency_s=(0.25, 0.5)))
    near, far = place.connect()
    began_s = place.scheduler.now_s
    near.transport.write(b"x")
    place.scheduler.run(5.0)
    assert 0.25 <= far.times_s[-1] - began_s <= 0.5


def test_written_buffers_can_be_reused(place: Place) -> None:
    near, far = place.connect()
    buffer = bytearray(b"before")
    near.transport.write(buffer)
    buffer[:] = b"after!"
    place.scheduler.run(1.0)
    assert far.received == b"before"


def test_writing_nothing_sends_nothing(place: Place) -> None:
    near, far = place.connect()
    near.transport.write(b"")
    place.scheduler.run(1.0)
    assert far.told == ["made"]


# -- a rift ----------------------------------------------------------------------------------------


def test_bytes_arrive_when_isolation_heals(place: Place) -> None:
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    near.transport.write(b"held up")
    place.scheduler.run(5.0)
    assert far.received == b""
    heal()
    place.scheduler.run(2.0)
    assert far.received == b"held up"


def test_isolation_keeps_the_order_of_bytes() -> None:
    place = Place(NetworkOptions(latency_s=(0.1, 0.1)))
    near, far = place.connect()
    place.scheduler.after(0.0, near.transport.write, b"a")
    place.scheduler.after(0.05, near.transport.write, b"b")
    place.scheduler.run(0.07)
    heal = place.network.conditions.isolate("client", "server")
    # Between the moments at which either is tried again.
    place.scheduler.after(1.0 + 0.055, heal)
    place.scheduler.after(1.0 + 0.06, near.transport.write, b"c")
    place.scheduler.run(5.0)
    assert far.received == b"abc"


def test_unacknowledged_bytes_end_the_connection_of_the_writer() -> None:
    place = Place(NetworkOptions(give_up_s=20.0))
    near, far = place.connect()
    place.network.conditions.isolate("client", "server")
    near.transport.write(b"lost")
    place.scheduler.run(19.0)
    assert near.is_connected
    place.scheduler.run(3.0)
    assert isinstance(near.error, TimeoutError)
    assert far.is_connected


def test_bytes_of_a_connection_given_up_never_arrive() -> None:
    place = Place(NetworkOptions(latency_s=(0.1, 0.1), give_up_s=5.0))
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    near.transport.write(b"first")
    place.scheduler.after(4.95, near.transport.write, b"second")
    place.scheduler.run_until(lambda: not near.is_connected)
    heal()
    place.scheduler.run(10.0)
    assert far.received == b""


def test_idle_connection_outlives_isolation(place: Place) -> None:
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(3600.0)
    heal()
    near.transport.write(b"still here")
    place.scheduler.run(1.0)
    assert far.received == b"still here"


# -- ending ----------------------------------------------------------------------------------------


def test_close_sends_what_was_written_first(place: Place) -> None:
    near, far = place.connect()
    near.transport.write(b"last words")
    near.transport.close()
    assert near.transport.is_closing()
    assert near.told == ["made"]
    place.scheduler.run(1.0)
    assert near.told == ["made", "lost"]
    assert far.received == b"last words"
    assert far.told == ["made", "data", "eof", "lost"]
    assert near.error is None
    assert far.error is None


def test_closed_transport_sends_and_receives_nothing(place: Place) -> None:
    near, far = place.connect()
    far.transport.write(b"on its way")
    near.transport.close()
    near.transport.write(b"too late")
    near.transport.close()
    place.scheduler.run(1.0)
    assert far.received == b""
    assert near.received == b""
    assert near.told == ["made", "lost"]


def test_abort_ends_both_sides_at_once(place: Place) -> None:
    near, far = place.connect()
    near.transport.abort()
    place.scheduler.run(1.0)
    assert near.told == ["made", "lost"]
    assert far.told == ["made", "eof", "lost"]


def test_end_of_stream_closes_this_side(place: Place) -> None:
    near, far = place.connect()
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof", "lost"]
    assert near.error is None


def test_protocol_may_stay_open_after_the_end_of_stream(place: Place) -> None:
    near, far = place.connect()
    near.stays_open = True
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof"]
    near.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof", "lost"]


def test_both_ends_may_close_at_once(place: Place) -> None:
    near, far = place.connect()
    near.transport.close()
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == far.told == ["made", "lost"]


# -- back-pressure ---------------------------------------------------------------------------------


def test_writer_is_paused_once_when_too_much_is_under_way(place: Place) -> None:
    near, _ = place.connect()
    near.transport.write(bytes(65_536))
    assert near.told == ["made"]
    near.transport.write(b"x")
    near.transport.write(b"x")
    assert near.told == ["made", "pause"]
    assert near.transport.get_write_buffer_size() == 65_538


def test_writer_resumes_when_enough_was_read(place: Place) -> None:
    near, far = place.connect()
    near.transport.set_write_buffer_limits(high=100)
    assert near.transport.get_write_buffer_limits() == (25, 100)
    for _ in range(3):
        near.transport.write(bytes(50))
    place.scheduler.run(1.0)
    assert near.told == ["made", "pause", "resume"]
    assert len(far.received) == 150
    assert near.transport.get_write_buffer_size() == 0


def test_buffer_limits_default_as_in_asyncio(place: Place) -> None:
    near, _ = place.connect()
    near.transport.set_write_buffer_limits(low=100)
    assert near.transport.get_write_buffer_limits() == (100, 400)


def test_slow_reader_pauses_the_writer_and_gets_everything(place: Place) -> None:
    near, far = place.connect()
    far.transport.pause_reading()
    assert not far.transport.is_reading()
    near.transport.write(bytes(70_000))
    place.scheduler.run(10.0)
    assert far.received == b""
    assert near.told == ["made", "pause"]
    far.transport.resume_reading()
    assert far.transport.is_reading()
    place.scheduler.run(1.0)
    assert len(far.received) == 70_000
    assert near.told == ["made", "pause", "resume"]


def test_reading_can_be_paused_while_it_is_received(place: Place) -> None:
    near, far = place.connect()
    far.stops_reading = True
    place.server.pause()
    near.transport.write(b"one")
    near.transport.write(b"two")
    place.scheduler.run(1.0)
    place.server.resume()
    place.scheduler.run(1.0)
    assert far.received == b"one"
    far.transport.resume_reading()
    place.scheduler.run(1.0)
    assert far.received == b"onetwo"


def test_end_of_stream_waits_behind_unread_bytes(place: Place) -> None:
    near, far = place.connect()
    far.transport.pause_reading()
    near.transport.write(b"x")
    near.transport.close()
    place.scheduler.run(5.0)
    assert far.told == ["made"]
    far.transport.resume_reading()
    place.scheduler.run(1.0)
    assert far.told == ["made", "data", "eof", "lost"]


def test_paused_process_reads_when_it_resumes(place: Place) -> None:
    near, far = place.connect()
    place.server.pause()
    near.transport.write(b"x")
    place.scheduler.run(5.0)
    assert far.told == ["made"]
    place.server.resume()
    place.scheduler.run(1.0)
    assert far.received == b"x"
