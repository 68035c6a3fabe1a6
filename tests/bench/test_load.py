"""The client that keeps servers busy."""

from __future__ import annotations

import asyncio
import itertools
import os

import pytest

from bench.support.load import connect, disconnect, keep_busy

pytestmark = pytest.mark.asyncio

ANSWER = bytes.fromhex("00000004 00000001")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer whatever comes."""
    while await reader.read(1024):
        writer.write(ANSWER)
    writer.close()


async def test_burst_has_an_answer_however_short_it_is() -> None:
    """The first turns of a busy machine took longer than a whole burst of a quick run."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        transports = await connect(port, 2)
        frames = [itertools.repeat(ANSWER) for _ in transports]
        burst = await keep_busy(transports, frames, pid=os.getpid(), seconds=0)
        await disconnect(transports)
    assert burst.answers > 0
    assert burst.server_cpu_s > 0
