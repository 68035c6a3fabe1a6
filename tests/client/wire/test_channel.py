"""One stream of requests and answers, without a network."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from coterie_client.errors import AnswerTimedOutError, ConnectionLostError
from coterie_client.wire import ConnectionLimits, Counters
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.channel import Channel
from coterie_protocol import ProtocolError
from tests.client.wire.doubles import PATIENCE_S, PipeTransport, soon

pytestmark = pytest.mark.asyncio


class Pipe:
    """A channel with a transport that the test plays the server on."""

    def __init__(self, **limits: int) -> None:
        self.counters = Counters()
        address = NodeAddress("server", 1)
        self.channel = Channel(address, ConnectionLimits(**limits), self.counters)
        self.channel.in_use = True
        self.transport = PipeTransport(self.channel)
        self.channel.connection_made(self.transport)

    def ask(self, *, timeout_s: float = PATIENCE_S) -> asyncio.Task[Any]:
        """Send a request that is nothing but its number; its answer is text."""
        exchange = self.channel.exchange(
            lambda number: struct.pack(">i", number),
            _text,
            title="Question",
            timeout_s=timeout_s,
        )
        return asyncio.create_task(exchange)

    async def sent(self, count: int) -> None:
        """Wait until so many requests are on their way."""
        await soon(lambda: len(self.transport.written) >= count)

    def answer(self, number: int, text: bytes) -> None:
        """Answer a request."""
        self.channel.data_received(frame(number, text))


def frame(number: int, text: bytes) -> bytes:
    """An answer as it travels."""
    return struct.pack(">ii", len(text) + 4, number) + text


def _text(payload: bytes) -> str:
    try:
        return payload[4:].decode()
    except UnicodeDecodeError:
        raise ProtocolError("no text", subject="Question response") from None


async def test_answers_reach_their_requests_in_whatever_pieces_they_arrive() -> None:
    pipe = Pipe()
    tasks = [pipe.ask() for _ in range(3)]
    await pipe.sent(3)
    data = b"".join(frame(number, f"answer {number}".encode()) for number in (1, 2, 3))
    for byte in data:
        pipe.channel.data_received(bytes([byte]))
    assert await asyncio.gather(*tasks) == ["answer 1", "answer 2", "answer 3"]
    assert (pipe.counters.requests, pipe.counters.answers, pipe.counters.errors) == (3, 3, 0)
    assert (pipe.counters.bytes_out, pipe.counters.bytes_in) == (12, len(data))
    await pipe.channel.close()


async def test_correlation_ids_wrap_around_within_31_bits() -> None:
    pipe = Pipe()
    pipe.channel._last_id = 2**31 - 2  # noqa: SLF001  # two thousand million requests later
    tasks = [pipe.ask(), pipe.ask()]
    await pipe.sent(2)
    assert pipe.transport.written == [b"\x7f\xff\xff\xff", b"\0\0\0\0"]
    pipe.answer(2**31 - 1, b"a")
    pipe.answer(0, b"b")
    assert await asyncio.gather(*tasks) == ["a", "b"]
    await pipe.channel.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frame(7, b"x"), "request 7, but 1 comes next"),
        (frame(2, b"x"), "request 2, but 1 comes next"),
        (frame(1, b"\xff"), "no text"),
        (b"\0\0\0\2\0\0", "cut off"),
        (b"HTTP/1.1 400 Bad Request", "a size of 1213486160 bytes"),
        (b"\xff\xff\xff\xff", "a size of -1 bytes"),
        (frame(1, b"y" * 96) + struct.pack(">i", 101), "a size of 101 bytes"),
    ],
    ids=["wrong id", "out of order", "undecodable", "short", "HTTP", "negative", "over-long"],
)
async def test_bytes_that_are_no_answer_end_the_connection(
    data: bytes, reason: str, log: list[dict[str, Any]]
) -> None:
    pipe = Pipe(frame_max_bytes=100)
    first, second = pipe.ask(), pipe.ask()
    await pipe.sent(2)
    pipe.channel.data_received(data)
    results = await asyncio.gather(first, second, return_exceptions=True)
    error = results[1]
    assert isinstance(error, ConnectionLostError)
    assert error.retriable
    assert reason in str(error)
    assert isinstance(error.__cause__, ProtocolError)
    assert [line["log_level"] for line in log] == ["error", "info"]
    assert pipe.channel.closing
    await pipe.channel.gone()


async def test_good_answer_before_garbage_is_delivered() -> None:
    pipe = Pipe()
    first, second = pipe.ask(), pipe.ask()
    await pipe.sent(2)
    pipe.channel.data_received(frame(1, b"good") + b"\xff\xff\xff\xff")
    assert await first == "good"
    with pytest.raises(ConnectionLostError):
        await second
    await pipe.channel.gone()


async def test_unrequested_answer_ends_the_connection() -> None:
    pipe = Pipe()
    pipe.channel.data_received(frame(1, b"x"))
    assert pipe.channel.closing
    await pipe.channel.gone()


async def test_lost_connection_fails_all_pending_requests() -> None:
    pipe = Pipe()
    tasks = [pipe.ask(), pipe.ask()]
    await pipe.sent(2)
    cause = OSError("cable cut")
    pipe.channel.connection_lost(cause)
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in errors] == [ConnectionLostError] * 2
    assert errors[0] is not errors[1]
    assert all("Question" in str(e) and "cable cut" in str(e) for e in errors)
    with pytest.raises(ConnectionLostError):
        await pipe.ask()
    assert (pipe.counters.errors, pipe.counters.connections_lost) == (2, 1)
    assert len(pipe.transport.written) == 2


async def test_request_timeout_ends_the_connection() -> None:
    pipe = Pipe()
    patient, hasty = pipe.ask(), pipe.ask(timeout_s=0.01)
    with pytest.raises(AnswerTimedOutError, match=r"not answered within 0.01 s by server:1"):
        await hasty
    with pytest.raises(ConnectionLostError, match=r"within 0.01 s\. Try again\.$") as caught:
        await patient
    assert str(caught.value).lower().count("try again") == 1
    assert (pipe.counters.timeouts, pipe.counters.errors) == (1, 2)
    await pipe.channel.gone()


async def test_answered_request_does_not_time_out_later() -> None:
    pipe = Pipe()
    task = pipe.ask(timeout_s=1)
    await pipe.sent(1)
    pipe.answer(1, b"in time")
    assert await task == "in time"
    await asyncio.sleep(1.01)
    assert not pipe.channel.closing
    await pipe.channel.close()


async def test_timeout_runs_on_after_the_caller_was_cancelled() -> None:
    pipe = Pipe()
    task = pipe.ask(timeout_s=1)
    await pipe.sent(1)
    task.cancel()
    await asyncio.wait({task})
    assert not pipe.channel.closing
    await asyncio.wait_for(pipe.channel.gone(), PATIENCE_S)
    assert pipe.counters.timeouts == 1


async def test_late_answer_to_a_cancelled_request_is_dropped() -> None:
    pipe = Pipe()
    first, second = pipe.ask(), pipe.ask()
    await pipe.sent(2)
    first.cancel()
    await asyncio.wait({first})
    pipe.answer(1, b"\xff not even text")
    pipe.answer(2, b"mine")
    assert await second == "mine"
    assert not pipe.channel.closing
    await pipe.channel.close()


async def test_cancellation_and_loss_in_the_same_turn_leave_no_unretrieved_exception() -> None:
    pipe = Pipe()
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    task = pipe.ask()
    await pipe.sent(1)
    pipe.channel.connection_lost(None)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    del task
    assert reports == []


async def test_requests_wait_while_the_server_reads_nothing() -> None:
    pipe = Pipe(write_buffer_high_bytes=1_000)
    assert pipe.transport.high_bytes == 1_000
    pipe.channel.pause_writing()
    tasks = [pipe.ask(), pipe.ask()]
    for _ in range(5):
        await asyncio.sleep(0)
    assert pipe.transport.written == []
    pipe.channel.resume_writing()
    await pipe.sent(2)
    pipe.answer(1, b"a")
    pipe.answer(2, b"b")
    assert await asyncio.gather(*tasks) == ["a", "b"]
    await pipe.channel.close()


async def test_waiting_requests_keep_their_order() -> None:
    pipe = Pipe()
    pipe.channel.pause_writing()
    order: list[int] = []

    async def ask(number: int) -> None:
        def encode(_: int) -> bytes:
            order.append(number)
            if number % 2:
                pipe.channel.pause_writing()  # as a transport does whose buffer is full again
            return b"x"

        await pipe.channel.exchange(encode, _text, title="Question", timeout_s=PATIENCE_S)

    tasks = [asyncio.create_task(ask(number)) for number in range(4)]
    await asyncio.sleep(0)
    for late in range(4, 10):
        # The newcomer runs first and finds room, before those run who have waited for it.
        tasks.append(asyncio.create_task(ask(late)))
        pipe.channel.resume_writing()
        for _ in range(5):
            await asyncio.sleep(0)
    while len(order) < len(tasks):
        pipe.channel.resume_writing()
        await asyncio.sleep(0)
    assert order == list(range(10))
    await pipe.channel.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_request_that_can_not_be_sent_in_time_ends_the_connection() -> None:
    pipe = Pipe()
    pipe.channel.pause_writing()
    with pytest.raises(AnswerTimedOutError, match="could not be sent"):
        await pipe.ask(timeout_s=0.01)
    assert pipe.channel.closing
    await pipe.channel.gone()


async def test_close_fails_pending_requests() -> None:
    pipe = Pipe()
    task = pipe.ask()
    await pipe.sent(1)
    await pipe.channel.close()
    with pytest.raises(ConnectionLostError, match="the client closed it"):
        await task
    assert pipe.transport.closing
    await pipe.channel.close()
    assert pipe.counters.connections_lost == 0


async def test_close_fails_a_request_that_waits_to_be_written() -> None:
    pipe = Pipe()
    pipe.channel.pause_writing()
    task = pipe.ask()
    await asyncio.sleep(0)
    await pipe.channel.close()
    with pytest.raises(ConnectionLostError):
        await task


async def test_close_drops_what_can_not_be_sent_in_time() -> None:
    pipe = Pipe(close_timeout_ms=10)
    pipe.transport.lets_go = False
    await asyncio.wait_for(pipe.channel.close(), PATIENCE_S)


async def test_cancelled_close_drops_the_connection() -> None:
    pipe = Pipe()
    pipe.transport.lets_go = False
    closing = asyncio.create_task(pipe.channel.close())
    await soon(lambda: pipe.transport.closing)
    closing.cancel()
    await asyncio.wait({closing})
    await asyncio.wait_for(pipe.channel.gone(), PATIENCE_S)


async def test_finish_waits_for_the_last_answer() -> None:
    pipe = Pipe()
    task = pipe.ask()
    await pipe.sent(1)
    pipe.channel.finish()
    assert not pipe.transport.closing
    pipe.answer(1, b"late")
    assert await task == "late"
    assert pipe.transport.closing
    await pipe.channel.gone()


async def test_finish_closes_an_idle_connection_at_once() -> None:
    pipe = Pipe()
    pipe.channel.finish()
    assert pipe.transport.closing
    await pipe.channel.gone()


async def test_transport_made_after_the_attempt_was_given_up_is_dropped() -> None:
    channel = Channel(NodeAddress("server", 1), ConnectionLimits(), Counters())
    channel.abort()
    transport = PipeTransport(channel)
    channel.connection_made(transport)
    assert transport.closing
    await channel.gone()
