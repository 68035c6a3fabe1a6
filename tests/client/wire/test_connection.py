"""Real sockets: a connection becomes ready, carries requests, and ends in every way."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from coterie_client.errors import (
    AnswerTimedOutError,
    ConnectionFailedError,
    ConnectionLostError,
    UnknownHostError,
    VersionNotSpokenError,
    WrongServerError,
)
from coterie_client.wire import Connection, ConnectionLimits, Counters
from coterie_client.wire.addresses import NodeAddress
from coterie_protocol import API_VERSIONS, ApiKey, Request, decode_request, encode_response
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import NetworkError, UnknownServerError
from coterie_protocol.messages import (
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListGroupsRequest,
)
from coterie_protocol.schema import VersionRange
from tests.client.wire.conftest import LogLines
from tests.client.wire.doubles import (
    HANG_UP,
    PATIENCE_S,
    SILENCE,
    FakeServer,
    heartbeat,
    soon,
    spoken,
)

pytestmark = pytest.mark.asyncio

QUICK = ConnectionLimits(connect_timeout_ms=50)


def speaking(**versions: str) -> Mapping[ApiKey, VersionRange]:
    """What a server speaks: as this client does, except as said."""
    changed = {ApiKey[api]: VersionRange.parse(text) for api, text in versions.items()}
    return {**API_VERSIONS, **changed}


async def test_requests_are_answered() -> None:
    async with FakeServer() as server:
        connection = await Connection.open(server.address, client_id="me")
        questions = [connection.request(heartbeat("m" * n), timeout_s=60) for n in (1, 2, 3)]
        answers: list[HeartbeatResponse] = await asyncio.gather(*questions)
        assert [answer.throttle_time_ms for answer in answers] == [1, 2, 3]
        assert {request.client_id for request in server.received} == {"me"}
        assert not connection.closed
        await connection.close()
        assert connection.closed
        await server.emptied()


async def test_first_request_is_api_versions() -> None:
    payloads = []
    reply = encode_response(spoken(), 3, 1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        payloads.append(await reader.readexactly(size))
        writer.write(reply)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection = await Connection.open(NodeAddress(*server.sockets[0].getsockname()))
        request = decode_request(payloads[0])
        assert (request.api_key, request.api_version) == (ApiKey.API_VERSIONS, 3)
        assert request.message.client_software_name == "coterie"
        assert request.message.client_software_version[0].isdigit()
        await connection.close()


@pytest.mark.parametrize("known", ["0", "0-1", "0-2"])
async def test_api_versions_steps_down_to_the_servers_version(known: str) -> None:
    """KIP-511: a server that refuses version 3 lists the versions it supports."""
    versions = speaking(API_VERSIONS=known, HEARTBEAT="0-1")
    async with FakeServer(versions=versions) as server:
        connection = await Connection.open(server.address)
        assert server.versions_asked == [3, VersionRange.parse(known).last]
        assert connection.version_for(HeartbeatRequest) == 1
        await connection.request(heartbeat(), timeout_s=60)
        assert server.received[0].api_version == 1
        await connection.close()


async def test_api_versions_steps_down_to_version_0_without_a_list() -> None:
    asked = []
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number, message in enumerate((refusal, spoken()), 1):
            size = int.from_bytes(await reader.readexactly(4))
            asked.append(decode_request(await reader.readexactly(size)).api_version)
            writer.write(encode_response(message, 0, number))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection = await Connection.open(NodeAddress(*server.sockets[0].getsockname()))
        assert asked == [3, 0]
        await connection.close()


async def test_other_error_of_api_versions_is_raised_as_it_is() -> None:
    answer = encode_response(
        ApiVersionsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, api_keys=()), 3, 1
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(UnknownServerError, match="ApiVersions"):
            await Connection.open(NodeAddress(*server.sockets[0].getsockname()))


async def test_request_unsupported_by_the_server_is_refused_before_it_is_sent() -> None:
    async with FakeServer(versions=speaking(LIST_GROUPS="0-3")) as server:
        connection = await Connection.open(server.address)
        with pytest.raises(VersionNotSpokenError, match="ListGroups"):
            await connection.request(ListGroupsRequest(states_filter=("Dead",)), timeout_s=60)
        await connection.request(heartbeat(), timeout_s=60)
        assert [request.api_key for request in server.received] == [ApiKey.HEARTBEAT]
        await connection.close()


async def test_pending_requests_are_lost_when_the_server_hangs_up() -> None:

    async def answer(request: Request) -> Any:
        return HANG_UP if request.message.member_id == "last" else SILENCE

    async with FakeServer(answer) as server:
        connection = await Connection.open(server.address)
        members = ("first", "second", "last")
        questions = [connection.request(heartbeat(m), timeout_s=PATIENCE_S) for m in members]
        errors = await asyncio.gather(*questions, return_exceptions=True)
        assert [type(error) for error in errors] == [ConnectionLostError] * 3
        assert all(isinstance(error, NetworkError) for error in errors)
        await connection.close()


async def test_server_that_accepts_requests_and_stays_silent_is_given_up() -> None:

    async def answer(_: Request) -> Any:
        return SILENCE

    async with FakeServer(answer) as server:
        connection = await Connection.open(server.address)
        with pytest.raises(AnswerTimedOutError):
            await connection.request(heartbeat(), timeout_s=0.05)
        assert connection.closed
        await connection.close()
        await server.emptied()


async def test_opening_to_a_silent_listener_fails_in_time_and_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = NodeAddress(*listener.getsockname())
        counters = Counters()
        with pytest.raises(
            ConnectionFailedError, match=r"more than 0\.05 s to learn the server's versions"
        ):
            await Connection.open(address, limits=QUICK, counters=counters)
        assert (counters.connections_failed, counters.connections_opened) == (1, 0)


async def test_cancelled_open_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        opening = asyncio.create_task(Connection.open(NodeAddress(*listener.getsockname())))
        accepted, _ = await asyncio.to_thread(listener.accept)
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()
        accepted.settimeout(PATIENCE_S)
        with accepted:  # the client's question, and then its end
            while await asyncio.to_thread(accepted.recv, 1_000):
                pass


async def test_refused_connection_is_retriable_and_names_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = NodeAddress(*listener.getsockname())
    with pytest.raises(ConnectionFailedError, match=str(address)) as caught:
        await Connection.open(address)
    assert caught.value.retriable


async def test_open_cancelled_at_any_step_leaves_no_socket_and_no_task() -> None:
    async with FakeServer() as server:
        for turns in range(25):
            opening = asyncio.create_task(Connection.open(server.address))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait({opening})
            if not opening.cancelled():
                await opening.result().close()
        await server.emptied()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 64 + ".invalid", "a..b"])
async def test_unknown_or_invalid_host_is_a_failed_connection(host: str) -> None:
    with pytest.raises(UnknownHostError, match=host):
        await Connection.open(NodeAddress(host, 9092))


@pytest.mark.parametrize(
    "greeting",
    [b"", b"\0\0\0\4\0\0\0\1", b"\0\0\0\5\0\0\0\1\0", b"\xff" * 8],
    ids=["end", "no body", "half a body", "noise"],
)
async def test_peer_that_is_not_kafka_fails_the_attempt_with_a_hint(greeting: bytes) -> None:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectionFailedError, match="Check that a server listens there"):
            await Connection.open(NodeAddress(*server.sockets[0].getsockname()))


@pytest.mark.parametrize(
    ("greeting", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers HTTP, not Kafka's protocol"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS, so connect with TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "answers SSH"),
        (b"220 mail.example ESMTP\r\n", "answers SMTP or FTP"),
        (b"-ERR unknown command\r\n", "answers Redis"),
    ],
    ids=["HTTP", "TLS", "SSH", "SMTP", "Redis"],
)
@pytest.mark.parametrize("pieces", [1, 3])
async def test_server_of_another_kind_is_named(
    greeting: bytes, sentence: str, pieces: int, log: LogLines
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        for begin in range(pieces):
            writer.write(greeting[begin : begin + 1 if begin < pieces - 1 else None])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = NodeAddress(*server.sockets[0].getsockname())
        with pytest.raises(WrongServerError, match=re.escape(f"{address} {sentence}")) as caught:
            await Connection.open(address)
    assert "bytes" not in str(caught.value)
    assert caught.value.retriable  # a group goes on trying
    assert log == []  # it is up to the caller to tell


async def test_refused_connection_is_told_without_a_tuple() -> None:
    with pytest.raises(ConnectionFailedError, match=r"\(PLAINTEXT\): Connection refused\. Check"):
        await Connection.open(NodeAddress("127.0.0.1", 1))


async def test_close_fails_pending_requests() -> None:

    async def answer(_: Request) -> Any:
        return SILENCE

    async with FakeServer(answer) as server:
        connection = await Connection.open(server.address)
        task = asyncio.create_task(connection.request(heartbeat(), timeout_s=PATIENCE_S))
        await soon(lambda: bool(server.received))
        await connection.close()
        await connection.close()
        with pytest.raises(ConnectionLostError):
            await task
        await server.emptied()


@pytest.mark.parametrize("host", ["localhost", "::1"])
async def test_host_may_be_a_name_or_an_ipv6_address(host: str) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 here")
    async with FakeServer(host=host) as server:
        connection = await Connection.open(server.address)
        assert connection.address.host == host
        await connection.request(heartbeat(), timeout_s=60)
        await connection.close()


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
