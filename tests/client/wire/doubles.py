"""Servers that do as they are told, on real sockets and without any."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self

from coterie_client.wire.addresses import NodeAddress
from coterie_protocol import (
    API_VERSIONS,
    ApiKey,
    FrameReader,
    ProtocolError,
    Request,
    decode_request,
    decode_request_header,
    encode_response,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    ApiVersion,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataResponse,
    MetadataResponseBroker,
)
from coterie_protocol.schema import VersionRange

__all__ = [
    "HANG_UP",
    "PATIENCE_S",
    "SILENCE",
    "Answer",
    "FakeServer",
    "PipeTransport",
    "heartbeat",
    "metadata_of",
    "soon",
    "spoken",
]

#: Far longer than anything with real sockets takes; a test that needs it fails.
PATIENCE_S: Final = 60.0

#: Instead of an answer: none, or the end of the connection.
SILENCE: Final = object()
HANG_UP: Final = object()

#: Gives a message, bytes to send as they are, `SILENCE` or `HANG_UP`.
Answer = Callable[[Request], Awaitable[Any]]


def heartbeat(member_id: str = "member") -> HeartbeatRequest:
    """Some request."""
    return HeartbeatRequest(group_id="group", generation_id=1, member_id=member_id)


def spoken(versions: Mapping[ApiKey, VersionRange] = API_VERSIONS) -> ApiVersionsResponse:
    """What a server says of itself."""
    keys = (
        ApiVersion(api_key=api, min_version=v.first, max_version=v.last)
        for api, v in versions.items()
    )
    return ApiVersionsResponse(api_keys=tuple(keys))


def metadata_of(*addresses: NodeAddress, controller: int = 0) -> MetadataResponse:
    """A cluster of these nodes, numbered from 0."""
    brokers = (
        MetadataResponseBroker(node_id=number, host=address.host, port=address.port)
        for number, address in enumerate(addresses)
    )
    return MetadataResponse(brokers=tuple(brokers), controller_id=controller, topics=())


async def soon(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # many conditions, none of them an event
            await asyncio.sleep(0)


async def answer_all(request: Request) -> Any:
    """Say of a heartbeat which member's it was, by a number in its answer."""
    if request.api_key is ApiKey.HEARTBEAT:
        return HeartbeatResponse(throttle_time_ms=len(request.message.member_id))
    return HANG_UP


class FakeServer:
    """A server on a real socket that answers each connection in order, as Kafka does.

    It speaks `versions`, and asked for ApiVersions in one beyond them it answers as KIP-511 says.
    All else is what `answer` makes of it.
    """

    def __init__(
        self,
        answer: Answer = answer_all,
        *,
        versions: Mapping[ApiKey, VersionRange] = API_VERSIONS,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer = answer
        self._versions = versions
        self._host = host
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._port = 0
        self.connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        #: How many connections there have been.
        self.accepted = 0
        #: The requests that were read, and the versions that ApiVersions was asked in.
        self.received: list[Request] = []
        self.versions_asked: list[int] = []
        self._failures: list[Exception] = []

    @property
    def address(self) -> NodeAddress:
        """Where it listens; the same after a restart."""
        return NodeAddress(self._host, self._port)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, ssl=self._tls
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop all connections; raise what kept it from answering, if anything.

        A client takes that for a lost connection, and may well get over it.
        """
        assert self._server is not None
        self._server.close()
        connections = dict(self.connections)
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        if connections:
            await asyncio.wait(connections)
        await self._server.wait_closed()
        if self._failures:
            raise self._failures[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def emptied(self) -> None:
        """Wait until all clients have gone."""
        await soon(lambda: not self.connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        self.connections[task] = writer
        try:
            # Clients that vanish or talk nonsense, and tests that end, are no errors here.
            with contextlib.suppress(ConnectionError, ProtocolError, asyncio.CancelledError):
                await self._talk(reader, writer)
        except Exception as error:  # noqa: BLE001  # it is the test's own
            self._failures.append(error)
        finally:
            del self.connections[task]
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while data := await reader.read(65_536):
            for payload in frames.feed(data):
                answer = await self._respond(payload)
                if answer is HANG_UP:
                    writer.transport.abort()
                    return
                if answer is not SILENCE:
                    writer.write(answer)

    async def _respond(self, payload: bytes) -> Any:
        header = decode_request_header(payload)
        if header.api_key == ApiKey.API_VERSIONS:
            self.versions_asked.append(header.api_version)
            common = self._versions[ApiKey.API_VERSIONS]
            if header.api_version not in common:
                own = {ApiKey.API_VERSIONS: common}
                refusal = ApiVersionsResponse(
                    error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=spoken(own).api_keys
                )
                return encode_response(refusal, 0, header.correlation_id)
            answer: Any = spoken(self._versions)
        else:
            request = decode_request(payload)
            self.received.append(request)
            answer = await self._answer(request)
        if isinstance(answer, bytes) or answer in (SILENCE, HANG_UP):
            return answer
        return encode_response(answer, header.api_version, header.correlation_id)


class PipeTransport(asyncio.Transport):
    """A transport without a network: remembers what is written, and how it ends."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.written: list[bytes] = []
        self.closing = False
        self.high_bytes = 0
        #: Whether closing takes effect; a server that reads nothing keeps it from that.
        self.lets_go = True
        self._ended = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take the high mark."""
        assert high is not None
        assert low is None
        self.high_bytes = high

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Remember."""
        assert not self.closing
        self.written.append(bytes(data))

    def close(self) -> None:
        """End, if it can."""
        self.closing = True
        if self.lets_go:
            self._end()

    def abort(self) -> None:
        """End."""
        self.closing = True
        self._end()

    def is_closing(self) -> bool:
        """Whether the end was asked for."""
        return self.closing

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
