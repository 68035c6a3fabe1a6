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
    """Whatever each piece takes to travel, they arrive in the order in which they were sent."""
    place.network.conditions.options = NetworkOptions(straggler_chance=0.3, straggler_s=1.0)
    near, far = place.connect()
    sent = [bytes([number]) * 3 for number in range(100)]
    for number, data in enumerate(sent):
        place.scheduler.after(number * 0.01, near.transport.write, data)
    place.scheduler.run(10.0)
    assert far.received == b"".join(sent)


def test_both_directions_are_independent(place: Place) -> None:
    """Each end can write at any time."""
    near, far = place.connect()
    near.transport.write(b"to the server")
    far.transport.writelines([b"to ", b"the ", b"client"])
    place.scheduler.run(1.0)
    assert far.received == b"to the server"
    assert near.received == b"to the client"


def test_bytes_take_the_networks_time() -> None:
    """Nothing arrives sooner than the latency, nor later without a reason."""
    place = Place(NetworkOptions(latency_s=(0.25, 0.5)))
    near, far = place.connect()
    began_s = place.scheduler.now_s
    near.transport.write(b"x")
    place.scheduler.run(5.0)
    assert 0.25 <= far.times_s[-1] - began_s <= 0.5


def test_buffers_can_be_reused(place: Place) -> None:
    """What is written is the bytes of that moment, whatever becomes of the buffer."""
    near, far = place.connect()
    buffer = bytearray(b"before")
    near.transport.write(buffer)
    buffer[:] = b"after!"
    place.scheduler.run(1.0)
    assert far.received == b"before"


def test_writing_nothing_sends_nothing(place: Place) -> None:
    """No bytes are not the end."""
    near, far = place.connect()
    near.transport.write(b"")
    place.scheduler.run(1.0)
    assert far.told == ["made"]


# -- a rift ----------------------------------------------------------------------------------------


def test_bytes_arrive_when_a_rift_heals(place: Place) -> None:
    """What is sent into a rift is sent again until it gets through."""
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    near.transport.write(b"held up")
    place.scheduler.run(5.0)
    assert far.received == b""
    heal()
    place.scheduler.run(2.0)
    assert far.received == b"held up"


def test_rift_does_not_mix_up_bytes() -> None:
    """What was held up first arrives first, whenever the rift heals."""
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


def test_unacknowledged_bytes_end_a_connection() -> None:
    """An endpoint gives up what is not acknowledged for too long; the other one knows nothing."""
    place = Place(NetworkOptions(give_up_s=20.0))
    near, far = place.connect()
    place.network.conditions.isolate("client", "server")
    near.transport.write(b"lost")
    place.scheduler.run(19.0)
    assert near.is_connected
    place.scheduler.run(3.0)
    assert isinstance(near.error, TimeoutError)
    assert far.is_connected


def test_nothing_arrives_of_what_was_given_up() -> None:
    """When a rift heals after the patience is over, no part of what was sent turns up."""
    place = Place(NetworkOptions(latency_s=(0.1, 0.1), give_up_s=5.0))
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    near.transport.write(b"first")
    place.scheduler.after(4.95, near.transport.write, b"second")
    place.scheduler.run_until(lambda: not near.is_connected)
    heal()
    place.scheduler.run(10.0)
    assert far.received == b""


def test_idle_connection_outlives_a_rift(place: Place) -> None:
    """A connection on which nothing is sent does not notice a rift, however long it is."""
    near, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(3600.0)
    heal()
    near.transport.write(b"still here")
    place.scheduler.run(1.0)
    assert far.received == b"still here"


# -- ending ----------------------------------------------------------------------------------------


def test_close_sends_what_was_written(place: Place) -> None:
    """Closing lets everything arrive first, and both ends are told without an error."""
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


def test_closed_transport_takes_nothing(place: Place) -> None:
    """After a close nothing is sent and nothing is received any more."""
    near, far = place.connect()
    far.transport.write(b"on its way")
    near.transport.close()
    near.transport.write(b"too late")
    near.transport.close()
    place.scheduler.run(1.0)
    assert far.received == b""
    assert near.received == b""
    assert near.told == ["made", "lost"]


def test_abort_ends_at_once(place: Place) -> None:
    """Aborting ends both sides, telling each once."""
    near, far = place.connect()
    near.transport.abort()
    place.scheduler.run(1.0)
    assert near.told == ["made", "lost"]
    assert far.told == ["made", "eof", "lost"]


def test_end_of_the_other_side_closes_this_one(place: Place) -> None:
    """After the other side's end, a protocol that does not object is closed."""
    near, far = place.connect()
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof", "lost"]
    assert near.error is None


def test_protocol_may_stay_open_after_an_end(place: Place) -> None:
    """A protocol that says so stays open after the other side's end, until it closes."""
    near, far = place.connect()
    near.stays_open = True
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof"]
    near.transport.close()
    place.scheduler.run(1.0)
    assert near.told == ["made", "eof", "lost"]


def test_both_may_close_at_once(place: Place) -> None:
    """Two ends that close at the same moment are each told once, and neither of an end."""
    near, far = place.connect()
    near.transport.close()
    far.transport.close()
    place.scheduler.run(1.0)
    assert near.told == far.told == ["made", "lost"]


# -- back-pressure ---------------------------------------------------------------------------------


def test_writer_is_asked_to_wait(place: Place) -> None:
    """With too much under way the writer is asked to wait, at once and only once."""
    near, _ = place.connect()
    near.transport.write(bytes(65_536))
    assert near.told == ["made"]
    near.transport.write(b"x")
    near.transport.write(b"x")
    assert near.told == ["made", "pause"]
    assert near.transport.get_write_buffer_size() == 65_538


def test_writer_goes_on_when_read(place: Place) -> None:
    """The writer may go on when the other side has read enough."""
    near, far = place.connect()
    near.transport.set_write_buffer_limits(high=100)
    assert near.transport.get_write_buffer_limits() == (25, 100)
    for _ in range(3):
        near.transport.write(bytes(50))
    place.scheduler.run(1.0)
    assert near.told == ["made", "pause", "resume"]
    assert len(far.received) == 150
    assert near.transport.get_write_buffer_size() == 0


def test_low_limit_decides_the_high_one(place: Place) -> None:
    """Of the two limits each has a default that follows from the other, as asyncio's have."""
    near, _ = place.connect()
    near.transport.set_write_buffer_limits(low=100)
    assert near.transport.get_write_buffer_limits() == (100, 400)


def test_slow_reader_makes_the_writer_wait(place: Place) -> None:
    """A side that does not read keeps the other waiting, and gets everything when it reads."""
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
    """A protocol that pauses reading from within `data_received` gets no more until it goes on."""
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


def test_end_waits_behind_unread_bytes(place: Place) -> None:
    """Who does not read does not learn of the end, as it comes behind the bytes."""
    near, far = place.connect()
    far.transport.pause_reading()
    near.transport.write(b"x")
    near.transport.close()
    place.scheduler.run(5.0)
    assert far.told == ["made"]
    far.transport.resume_reading()
    place.scheduler.run(1.0)
    assert far.told == ["made", "data", "eof", "lost"]


def test_paused_process_reads_nothing(place: Place) -> None:
    """What comes for a stopped process is there when it goes on."""
    near, far = place.connect()
    place.server.pause()
    near.transport.write(b"x")
    place.scheduler.run(5.0)
    assert far.told == ["made"]
    place.server.resume()
    place.scheduler.run(1.0)
    assert far.received == b"x"
