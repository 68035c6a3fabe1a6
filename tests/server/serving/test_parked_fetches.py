"""Fetches that wait: until their time is up, something changes, or their client goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from coterie_protocol import ApiKey, Request, decode_request, encode_request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FindCoordinatorRequest,
    PartitionData,
)
from coterie_server.net import Exchange
from coterie_server.net.addresses import Peer
from coterie_server.net.last_answer import LastAnswer
from coterie_server.net.members import NOBODY
from coterie_server.node_handler import NodeHandler
from coterie_server.security import ANONYMOUS
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from coterie_server.serving.node import Node
from coterie_server.serving.parked_fetches import ParkedFetches
from coterie_server.turns import Turns
from tests.server.net.doubles import FakeListener, ParkingHandler, heartbeat, ok, until


class Timer:
    """A call that a test makes when it likes."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        """Note that it is not to be made."""
        self.is_cancelled = True


class Timers:
    """Remembers what is to be called when."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Timer]] = []

    def call_later(self, wait_s: float, call: Callable[..., None], *arguments: object) -> Timer:
        """As a loop has it."""
        timer = Timer(lambda: call(*arguments))
        self.timers.append((wait_s, timer))
        return timer

    def fire(self) -> None:
        """Make all calls."""
        for _, timer in self.timers:
            if not timer.is_cancelled:
                timer.call()


class Client:
    """A connection that keeps what it is to send."""

    peer = Peer("127.0.0.1")
    advertised = Address("127.0.0.1", 9092)
    principal = ANONYMOUS
    opened_ms = 0
    answer_max_bytes = 1000

    turns = Turns(lambda _turn: None)

    def __init__(self) -> None:
        self.gone, self.membership = False, NOBODY
        self.in_turns = 0
        self.last_answer = LastAnswer()
        self.flushed = 0
        self.sent: list[FetchResponse] = []
        self.exchanges: list[Exchange] = []
        self.goes_when_answered = False

    def on_reply(self, _api: ApiKey, message: FetchResponse, _received_ms: int, /) -> None:
        """Keep an answer."""
        self.sent.append(message)

    def flush(self, _finished_bytes: int) -> None:
        """Count an answer; a client that does not read may be given up over it."""
        self.flushed += 1
        if self.goes_when_answered:
            self.go()

    def hurry(self) -> None:
        """Nothing is sent behind a Fetch."""

    def resume(self, exchange: Exchange, action: Callable[[], None]) -> None:
        """These tests do not do that."""
        raise AssertionError(exchange, action)

    def authenticate(self, exchange: Exchange) -> None:
        """These tests do not do that."""
        raise AssertionError(exchange)

    def close_for_handler(self, why: str) -> None:
        """These tests do not do that."""
        raise AssertionError(why)

    def close_for_unencodable(self, request: Request, error: Exception) -> None:
        """These tests do not do that."""
        raise AssertionError(request) from error

    def fetch(self) -> Exchange:
        """Send a request for records."""
        frame = encode_request(FetchRequest(max_wait_ms=0, min_bytes=1, topics=()), 11, 7, "me")
        exchange = Exchange(self, decode_request(frame[4:]), 0)
        self.exchanges.append(exchange)
        return exchange

    def go(self) -> None:
        """Hang up."""
        self.gone = True
        for exchange in self.exchanges:
            exchange.abandon()


class Patient:
    """Parks Fetches and answers all else."""

    def __init__(self) -> None:
        self._parked = ParkedFetches(Timers().call_later)

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        if isinstance(exchange.message, FetchRequest):
            self._parked.park(exchange, nothing("t"), 500)
        else:
            exchange.reply(ok())


def nothing(*topics: str) -> FetchResponse:
    """That no topic has anything."""
    none = PartitionData(
        partition_index=0, high_watermark=0, aborted_transactions=None, records=b""
    )
    return FetchResponse(
        responses=tuple(FetchableTopicResponse(topic=t, partitions=(none,)) for t in topics)
    )


def test_a_parked_fetch_is_answered_once_when_its_time_is_up() -> None:
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    parked.park(client.fetch(), nothing("t"), 500)
    assert (len(parked), client.flushed, timers.timers[0][0]) == (1, 0, 0.5)
    timers.fire()
    assert (len(parked), client.flushed) == (0, 1)
    timers.fire()
    parked.wake({"t"})
    parked.answer_all()
    assert client.flushed == 1


def test_no_request_answer_or_timer_outlives_the_connection() -> None:
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    for _ in range(3):
        parked.park(client.fetch(), nothing("t"), 2**31 - 1)
    client.go()
    assert len(parked) == 0
    assert all(timer.is_cancelled for _, timer in timers.timers)


def test_client_that_was_gone_before_is_not_waited_for() -> None:
    """What had to be durable first may have taken longer than the client stayed."""
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    exchange = client.fetch()
    client.go()
    parked.park(exchange, nothing("t"), 500)
    assert (len(parked), timers.timers[0][1].is_cancelled) == (0, True)


def test_change_of_a_topic_ends_the_wait_for_it() -> None:
    """The others wait on, and a timer that is not needed any more is none."""
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    for topics in (("t", "u"), ("u",)):
        parked.park(client.fetch(), nothing(*topics), 500)
    parked.wake({"t"})
    assert (len(parked), client.flushed) == (1, 1)
    assert [timer.is_cancelled for _, timer in timers.timers] == [True, False]


def test_answer_that_ends_its_connection() -> None:
    """A request whose connection ended is not answered again, though all were to be."""
    parked, client = ParkedFetches(Timers().call_later), Client()
    client.goes_when_answered = True
    for _ in range(3):
        parked.park(client.fetch(), nothing("t"), 500)
    parked.wake({"t"})
    assert (len(parked), client.flushed) == (0, 1)


def test_none_waits_any_more_in_a_node_that_stops() -> None:
    """Clients that are answered ask again at once, and the node would have to wait for these."""
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    for answered in range(3):
        parked.park(client.fetch(), nothing("t"), 2**31 - 1)
        parked.close()
        assert (len(parked), client.flushed) == (0, answered + 1)
    assert all(timer.is_cancelled for _, timer in timers.timers)


def test_exchanges_are_handed_over() -> None:
    """The catalogue has failed: what was prepared does not count any more."""
    parked, client = ParkedFetches((timers := Timers()).call_later), Client()
    exchanges = [client.fetch(), client.fetch()]
    for exchange in exchanges:
        parked.park(exchange, nothing("t"), 500)
    assert parked.take_all() == exchanges
    timers.fire()
    client.go()
    assert (len(parked), client.flushed) == (0, 0)


# -- in the net and in a server ------------------------------------------------------------------


def test_exchange_that_is_answered_is_not_given_back() -> None:
    """Only exchanges that still wait are given back, and each only once."""
    listener, given_back = FakeListener(handler := ParkingHandler()), list[Exchange]()
    client = listener.connect()
    client.send(*map(heartbeat, range(4)))
    for exchange in handler.exchanges:
        exchange.when_gone(given_back.append)
    handler.answer([0, 2])
    handler.exchanges[3].when_gone(None)
    client.connection.eof_received()
    client.lose()
    assert given_back == [handler.exchanges[1]]


def test_exchange_of_a_lost_connection_is_given_back_at_once() -> None:
    listener, given_back = FakeListener(handler := ParkingHandler()), list[Exchange]()
    client = listener.connect()
    client.send(heartbeat(0))
    client.lose()
    handler.exchanges[0].when_gone(given_back.append)
    assert given_back == handler.exchanges


def test_requests_of_another_kind_do_not_wait_for_one_that_need_not_wait() -> None:
    """None of the earlier ones does, though more of its own kind may be between."""
    client = FakeListener(Patient()).connect()
    client.send(_long_fetch(1), _long_fetch(2))
    assert client.answered_or_written() == []
    client.send(heartbeat(3))
    assert client.answered_or_written() == [1, 2, 3]


def test_those_that_come_in_one_piece() -> None:
    client = FakeListener(Patient()).connect()
    client.send(_long_fetch(1) + heartbeat(2) + _long_fetch(3))
    assert client.answered_or_written() == [1, 2]
    client.send(_long_fetch(4))
    assert client.answered_or_written() == [1, 2]


def test_wait_that_begins_when_others_wait_already() -> None:
    """As where a right has to be looked up first."""
    client = FakeListener(handler := ParkingHandler()).connect()
    client.send(_long_fetch(1), heartbeat(2))
    handler.answer([1])
    fetch, *_ = handler.exchanges
    fetch.when_followed(lambda exchange: exchange.reply(nothing("t")))
    assert client.answered_or_written() == [1, 2]


def test_what_is_taken_back_is_not_answered_early() -> None:
    client = FakeListener(handler := ParkingHandler()).connect()
    client.send(_long_fetch(1))
    handler.exchanges[0].when_followed(lambda exchange: exchange.reply(nothing("t")))
    handler.exchanges[0].when_followed(None)
    client.send(heartbeat(2))
    assert client.answered_or_written() == []


@pytest.mark.asyncio
async def test_coordinator_is_told_at_once_to_a_client_that_waits_for_records() -> None:
    """With librdkafka it is asked where records are fetched; see `ParkedFetches`."""
    async with _fetching() as (_, reader, writer):
        writer.write(encode_request(FindCoordinatorRequest(key="g"), 2, 2, "me"))
        numbers = [await _answered(reader), await _answered(reader)]
        writer.close()
    assert numbers == [1, 2]


@contextlib.asynccontextmanager
async def _fetching() -> AsyncIterator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A server, and a client of it whose first request is a Fetch that is parked."""
    async with Server(
        ServerOptions(listeners=(ListenerOptions(Address("127.0.0.1", 0)),), topics={"t": 1})
    ) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
        writer.write(_long_fetch(1))
        await until(lambda: server.node.parked_fetches == 1)
        yield server, reader, writer


async def _answered(reader: asyncio.StreamReader) -> int:
    size = int.from_bytes(await reader.readexactly(4))
    return int.from_bytes((await reader.readexactly(size))[:4])


@pytest.mark.asyncio
async def test_vanished_clients_leave_no_fetch_behind() -> None:
    """A server over a real socket: the client goes, and so does all that it asked for."""
    async with _fetching() as (server, _, writer):
        writer.close()
        await until(lambda: server.node.parked_fetches == 0)


def test_vanished_clients_leave_no_early_requests() -> None:
    """While the groups are read, requests wait for as long as their clients do, in order."""
    listener = FakeListener(handler := NodeHandler(None))
    gone, stays = listener.connect(), listener.connect()
    for number in range(2):
        gone.send(heartbeat(number))
        stays.send(heartbeat(10 + number))
    gone.lose()
    handler.open(cast(Node, node := ParkingHandler()))
    listener.turn()
    numbers = [exchange.request.correlation_id for exchange in node.exchanges]
    assert numbers == [10, 11]
    stays.lose()


def _long_fetch(correlation_id: int = 7) -> bytes:
    """A request that would wait for 24 days."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    message = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        topics=(FetchTopic(topic="t", partitions=(partition,)),),
    )
    return encode_request(message, 11, correlation_id, "me")


def test_a_fetch_that_a_change_has_ended_says_so() -> None:
    client = Client()
    parked = ParkedFetches(Timers().call_later)
    parked.park(client.fetch(), nothing("t"), 500)
    parked.wake({"t"})
    assert client.sent[0].responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
