"""Bytes and behaviour that a daemon has to endure."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import socket
from collections.abc import AsyncIterator
from typing import Final

from coterie_protocol import API_VERSIONS, encode_request, request_class
from tests.live.daemon import HOST
from tests.support.samples import filled

__all__ = [
    "connections",
    "deafen",
    "mutations",
    "room_for_connections",
    "throw",
    "valid_frames",
]

#: What a liar writes where a size, a count or a number is expected.
_NUMBERS: Final = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x00\x00\xff\xff",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x00",
    b"\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x00",
)
_ANSWER_S: Final = 0.05
#: Files of this process besides the connections that it holds.
_SPARE_FILES: Final = 200


def valid_frames() -> list[bytes]:
    """One valid request of each API in each version that the daemon speaks."""
    return [
        encode_request(filled(request_class(api), version), version, 7, "fuzz")
        for api, versions in API_VERSIONS.items()
        for version in range(versions.first, versions.last + 1)
    ]


def mutations(chance: random.Random, frames: list[bytes], number: int) -> list[bytes]:
    """Frames after one to three changes; most keep a size that is right, to be read at all."""
    return [_mutated(chance, chance.choice(frames)) for _ in range(number)]


def _mutated(chance: random.Random, frame: bytes) -> bytes:
    payload = frame[4:]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(payload) + 1)
        match chance.randrange(5):
            case 0:
                flipped = bytes(byte ^ 1 << chance.randrange(8) for byte in payload[at : at + 1])
                payload = payload[:at] + flipped + payload[at + 1 :]
            case 1:
                payload = payload[:at]
            case 2:
                number = chance.choice(_NUMBERS)
                payload = payload[:at] + number + payload[at + len(number) :]
            case 3:
                payload = payload[:at] + chance.choice(_NUMBERS) + payload[at:]
            case _:
                payload = payload[:at] + payload[at + chance.randint(1, 8) :]
    size = (
        chance.choice(_NUMBERS[:4]) if chance.random() < 0.05 else len(payload).to_bytes(4, "big")
    )
    return size + payload


async def throw(port: int, frames: list[bytes]) -> None:
    """Send frames one after another, on a new connection whenever the daemon has hung up."""
    left = list(frames)
    while left:
        reader, writer = await asyncio.open_connection(HOST, port)
        with contextlib.suppress(ConnectionError):
            while left:
                writer.write(left.pop())
                await writer.drain()
                # Whether an answer comes, and which, is not the point; some never do.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ANSWER_S):
                        if not await reader.read(65_536):
                            break
        writer.close()


def room_for_connections(wanted: int) -> int:
    """How many connections the limit of open files leaves this process, `wanted` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, wanted + _SPARE_FILES)), hard))
    return min(wanted, hard - _SPARE_FILES)


@contextlib.asynccontextmanager
async def connections(port: int, number: int) -> AsyncIterator[None]:
    """Hold connections on which nothing is said."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(number):
            _, writer = await asyncio.open_connection(HOST, port)
            writers.append(writer)
        yield
    finally:
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def deafen(port: int, data: bytes) -> socket.socket:
    """Send requests on a connection from which nothing is ever read."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect((HOST, port))
    deaf.setblocking(False)  # noqa: FBT003 - its only parameter
    with contextlib.suppress(BlockingIOError, ConnectionError):
        while data:
            data = data[deaf.send(data) :]
    return deaf
