"""Real sockets on both event loops: what clients see of a listener, good ones and bad ones."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from coterie_protocol import ApiKey, correlation_id_of, encode_request
from coterie_protocol.messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coterie_server.net import CloseReason, Exchange, Handler, Limits, Listener, RefuseReason
from coterie_server.net import listener as listener_module
from coterie_server.net.connection import Connection
from coterie_server.net.sockets import listening_sockets
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import (
    PATIENCE_S,
    AnsweringHandler,
    Clock,
    ParkingHandler,
    heartbeat,
    ok,
    until,
)

Listen = Callable[..., Awaitable[Listener]]


class Client:
    """A client that does as it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    async def answered(self, count: int) -> list[int]:
        """The correlation ids of the next answers."""
        return [correlation_id_of(await self.payload()) for _ in range(count)]

    async def payload(self) -> bytes:
        """The next answer."""
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def ended(self) -> bool:
        """Wait for the server to close; answer whether it sent nothing more."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read() == b""
        return True

    def leave(self) -> None:
        """Close at once, with a reset if anything is unread."""
        self.writer.transport.abort()


async def connect(listener: Listener, **options: Any) -> Client:
    """Connect to a listener."""
    host, port = listener.addresses[0]
    return Client(*await asyncio.open_connection(host, port, **options))


@pytest_asyncio.fixture
async def listen() -> AsyncIterator[Listen]:
    """Start listeners; at the end all are closed and have let go of their connections."""
    listeners: list[Listener] = []

    async def start(
        handler: Handler,
        limits: Limits | None = None,
        *,
        now: Callable[[], float] | None = None,
        port: int = 0,
    ) -> Listener:
        listener = Listener(handler, limits, now=now)
        listeners.append(listener)
        await listener.start("127.0.0.1", port)
        return listener

    yield start
    for listener in listeners:
        await listener.close(0)
        assert listener.stats().open == 0


@pytest.mark.asyncio
async def test_requests_are_answered(listen: Listen) -> None:
    listener = await listen(AnsweringHandler())
    client = await connect(listener)
    client.send(heartbeat(0) + heartbeat(1))
    assert await client.answered(2) == [0, 1]
    client.leave()


@pytest.mark.asyncio
async def test_port_0_becomes_a_real_one(listen: Listen) -> None:
    listener = await listen(AnsweringHandler())
    ((host, port),) = listener.addresses
    assert host == "127.0.0.1"
    assert port > 0


@pytest.mark.asyncio
async def test_listener_whose_start_is_cancelled_serves_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A socket that was left open would keep clients waiting for as long as the process runs."""
    opened: list[socket.socket] = []

    async def open_and_cancel(*arguments: Any, **more: Any) -> list[socket.socket]:
        opened.extend(await listening_sockets(*arguments, **more))
        asyncio.get_running_loop().call_soon(starting.cancel)
        return opened

    monkeypatch.setattr(listener_module, "listening_sockets", open_and_cancel)
    listener = Listener(AnsweringHandler())
    starting = asyncio.create_task(listener.start("127.0.0.1", 0))
    await asyncio.wait([starting])  # one of the loops has nothing to wait for by then
    host, port = opened[0].getsockname()
    await listener.close(0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


@pytest.mark.asyncio
async def test_two_addresses_share_one_listener(listen: Listen) -> None:
    listener = await listen(AnsweringHandler())
    await listener.start("127.0.0.1", 0)
    for host, port in listener.addresses:
        client = Client(*await asyncio.open_connection(host, port))
        client.send(heartbeat(7))
        assert await client.answered(1) == [7]
        client.leave()
    assert listener.stats().accepted == 2


@pytest.mark.asyncio
async def test_address_in_use_is_an_error(listen: Listen) -> None:
    """Two listeners cannot share a port, although sockets that linger do not block it."""
    listener = await listen(AnsweringHandler())
    with pytest.raises(OSError, match=r"(?i)address already in use"):
        await listen(AnsweringHandler(), port=listener.addresses[0][1])


@pytest.mark.asyncio
async def test_port_can_be_taken_again_at_once(listen: Listen) -> None:
    """A restarted server gets its port although connections of the old one linger."""
    listener = await listen(AnsweringHandler())
    client = await connect(listener)
    client.send(heartbeat(0))
    await client.answered(1)
    await listener.close(0)  # the server closes first, so its end of the connection lingers
    assert await client.ended()
    client.writer.close()
    again = await listen(AnsweringHandler(), port=listener.addresses[0][1])
    assert again.addresses == listener.addresses


@pytest.mark.asyncio
async def test_accepted_sockets_send_at_once_and_notice_dead_hosts(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TCP_NODELAY and SO_KEEPALIVE are inherited from the listening socket."""
    sockets: list[Any] = []
    made = Connection.connection_made

    def note_socket(connection: Connection, transport: asyncio.BaseTransport) -> None:
        sockets.append(transport.get_extra_info("socket"))
        made(connection, transport)

    monkeypatch.setattr(Connection, "connection_made", note_socket)
    client = await connect(await listen(AnsweringHandler()))
    await until(lambda: bool(sockets))
    (accepted,) = sockets
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    client.leave()


# Bad clients


@pytest.mark.asyncio
async def test_half_open_client_is_closed(listen: Listen) -> None:
    handler = ParkingHandler()
    client = await connect(await listen(handler))
    client.send(heartbeat(0))
    await until(lambda: bool(handler.exchanges))
    client.writer.write_eof()
    assert await client.ended()
    assert handler.exchanges[0].abandoned
    client.leave()


@pytest.mark.asyncio
async def test_client_that_resets_is_forgotten(listen: Listen) -> None:
    handler = ParkingHandler()
    listener = await listen(handler)
    client = await connect(listener)
    client.send(heartbeat(0))
    await until(lambda: bool(handler.exchanges))
    raw = client.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.leave()
    await until(lambda: listener.stats().open == 0)
    assert handler.exchanges[0].abandoned
    assert listener.stats().closed[CloseReason.PEER] == 1


@pytest.mark.asyncio
async def test_oversized_frame_is_closed(listen: Listen, log: LogLines) -> None:
    client = await connect(await listen(AnsweringHandler(), Limits(socket_request_max_bytes=1_000)))
    client.send(struct.pack(">i", 1_001))
    assert await client.ended()
    assert "socket_request_max_bytes" in [line.get("reason") for line in log]
    client.leave()


@pytest.mark.asyncio
async def test_garbage_harms_nobody_else(listen: Listen, log: LogLines) -> None:
    random_bytes = random.Random(20_250_101)
    listener = await listen(AnsweringHandler())
    good = await connect(listener)
    for number in range(60):
        bad = await connect(listener)
        size = random_bytes.randrange(1, 400)
        noise = random_bytes.randbytes(size)
        # Half of them in a frame of the right size, to get further.
        bad.send(struct.pack(">i", size) + noise if number % 2 else noise)
        bad.writer.write_eof()
        good.send(heartbeat(number))
        assert await good.answered(1) == [number]
        assert await bad.ended()
        bad.leave()
    good.leave()
    await until(lambda: listener.stats().open == 0)
    assert sum(line["event"] == "connection closed" for line in log) >= 30


@pytest.mark.asyncio
async def test_silent_client_is_closed(listen: Listen, log: LogLines) -> None:
    clock = Clock()
    listener = await listen(AnsweringHandler(), Limits(first_byte_timeout_ms=1_000), now=clock)
    client = await connect(listener)
    await until(lambda: listener.stats().open == 1)
    clock.now_ms += 1_000
    listener.sweep()
    assert await client.ended()
    assert "first_byte_timeout_ms" in [line.get("reason") for line in log]
    client.leave()


@pytest.mark.asyncio
async def test_first_sweep_after_a_pause_closes_no_client(listen: Listen) -> None:
    """A process that was suspended reads what has arrived first."""
    clock = Clock()
    listener = await listen(AnsweringHandler(), now=clock)
    loop = asyncio.get_running_loop()
    swept = []
    for _ in range(4):
        listener._timer.cancel()  # noqa: SLF001  # it comes now
        listener._sweep_at_s = loop.time() - 5.0  # noqa: SLF001  # and should have before
        calls = clock.calls
        listener._sweep_again()  # noqa: SLF001
        swept.append(clock.calls > calls)
    assert swept == [False, True, False, True]


@pytest.mark.asyncio
async def test_sweeps_come_by_themselves_until_the_end(log: LogLines) -> None:
    clock = Clock()
    listener = Listener(
        AnsweringHandler(), Limits(first_byte_timeout_ms=1_000), now=clock, sweep_interval_s=0.001
    )
    await listener.start("127.0.0.1", 0)
    client = await connect(listener)
    await until(lambda: listener.stats().open == 1)
    clock.now_ms += 1_000
    assert await client.ended()
    assert "first_byte_timeout_ms" in [line.get("reason") for line in log]
    client.leave()
    await listener.close(0)
    calls = clock.calls
    await asyncio.sleep(0.005)
    assert clock.calls == calls > 0


@pytest.mark.asyncio
async def test_connection_over_the_limit_is_refused(listen: Listen, log: LogLines) -> None:
    listener = await listen(AnsweringHandler(), Limits(max_connections=1))
    first = await connect(listener)
    second = await connect(listener)
    assert await second.ended()
    first.send(heartbeat(0))
    assert await first.answered(1) == [0]
    assert listener.stats().refused[RefuseReason.MAX_CONNECTIONS] == 1
    assert "max_connections" in [line.get("reason") for line in log]
    first.leave()
    second.leave()


LARGE_BYTES = 256 * 1024


class DescribingHandler(ParkingHandler):
    """Answers DescribeGroups with a large reply, when told."""

    def describe_all(self) -> None:
        """Answer all that is parked."""
        group = DescribedGroup(
            error_code=0,
            group_id="x" * 30_000,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
        )
        reply = DescribeGroupsResponse(groups=(group,) * (LARGE_BYTES // 30_000))
        for exchange in self.exchanges:
            exchange.reply(reply)


async def stubborn_client(listener: Listener) -> socket.socket:
    """A client whose kernel takes little, and who reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)  # noqa: FBT003  # a socket's method
    await asyncio.get_running_loop().sock_connect(client, listener.addresses[0])
    return client


@pytest.mark.asyncio
async def test_slow_reader_is_cut_off(listen: Listen, log: LogLines) -> None:
    handler = DescribingHandler()
    limits = Limits(write_buffer_max_bytes=1_000_000)
    listener = await listen(handler, limits)
    client = await stubborn_client(listener)
    describe = DescribeGroupsRequest(groups=("g",))
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(
        client, b"".join(encode_request(describe, 0, number) for number in range(100))
    )
    await until(lambda: len(handler.exchanges) == 100)
    handler.describe_all()
    await until(lambda: listener.stats().open == 0)
    stats = listener.stats()
    assert stats.closed[CloseReason.UNREAD_REPLIES] == 1
    # What the kernel took, up to some megabytes, is not ours to hold.
    assert stats.bytes_out < 50 * LARGE_BYTES
    line = next(line for line in log if line.get("reason") == "write_buffer_max_bytes")
    assert 1_000_000 < line["found"] <= 1_000_000 + LARGE_BYTES
    client.close()


async def handled_in_all(listener: Listener) -> int:
    """How many requests were handled once no more come."""
    seen = -1
    while seen != listener.stats().requests:
        seen = listener.stats().requests
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.asyncio
async def test_slow_reader_is_not_read_from(listen: Listen) -> None:

    class EchoingHandler(DescribingHandler):
        def handle(self, exchange: Exchange) -> None:
            self.exchanges = [exchange]
            self.describe_all()

    listener = await listen(EchoingHandler(), Limits(max_requests_in_flight=1))
    client = await stubborn_client(listener)
    describe = encode_request(DescribeGroupsRequest(groups=("g",)), 0, 1)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while count < 1_000:
            client.send(describe)
            count += 1
            await asyncio.sleep(0)
    assert await handled_in_all(listener) < count
    stats = listener.stats()
    assert stats.closed[CloseReason.UNREAD_REPLIES] == 0
    client.close()


# The end


@pytest.mark.asyncio
async def test_stop_accepting_keeps_who_is_in(listen: Listen) -> None:
    listener = await listen(AnsweringHandler())
    client = await connect(listener)
    client.send(heartbeat(0))
    assert await client.answered(1) == [0]
    listener.stop_accepting()
    await asyncio.sleep(0)  # one loop closes the socket in its next turn
    with pytest.raises(ConnectionRefusedError):
        await connect(listener)
    client.send(heartbeat(1))
    assert await client.answered(1) == [1]
    client.leave()


@pytest.mark.asyncio
async def test_close_lets_pending_replies_out(listen: Listen) -> None:
    handler = ParkingHandler()
    listener = await listen(handler)
    client = await connect(listener)
    client.send(heartbeat(0) + heartbeat(1))
    await until(lambda: len(handler.exchanges) == 2)
    closing = asyncio.create_task(listener.close(PATIENCE_S))
    await asyncio.sleep(0)
    for exchange in reversed(handler.exchanges):
        exchange.reply(ok())
    assert await client.answered(2) == [0, 1]
    assert await client.ended()
    await closing
    assert listener.stats().closed[CloseReason.STOPPING] == 1
    client.leave()


@pytest.mark.asyncio
async def test_close_drops_what_is_not_answered(listen: Listen, log: LogLines) -> None:
    handler = ParkingHandler()
    listener = await listen(handler)
    client = await connect(listener)
    client.send(heartbeat(0))
    await until(lambda: bool(handler.exchanges))
    await listener.close(0.002)
    assert listener.stats().open == 0
    assert handler.exchanges[0].abandoned
    assert await client.ended()
    assert [line["connections"] for line in log if "connections" in line] == [1]
    client.leave()


@pytest.mark.asyncio
async def test_close_sends_large_replies_whole(listen: Listen) -> None:
    handler = DescribingHandler()
    listener = await listen(handler)
    client = await connect(listener)
    request = encode_request(DescribeGroupsRequest(groups=("g",)), 0, 0)
    client.send(request * 20)
    await until(lambda: len(handler.exchanges) == 20)
    handler.describe_all()
    closing = asyncio.create_task(listener.close(PATIENCE_S))
    sizes = [len(await client.payload()) for _ in range(20)]
    assert min(sizes) == max(sizes) > 200_000
    assert await client.ended()
    await closing
    client.leave()


@pytest.mark.asyncio
async def test_api_versions_is_the_only_one_answered_when_unknown(listen: Listen) -> None:
    """A client from the future learns which versions are supported, and is not cut off."""
    client = await connect(await listen(AnsweringHandler()))
    client.send(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 77, 5, -1))
    assert await client.payload() == struct.pack(">ihihhh", 5, 35, 1, 18, 0, 4)
    client.leave()
