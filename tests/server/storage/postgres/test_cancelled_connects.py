"""Attempts to connect that are given up, to a server that need not be one of PostgreSQL's."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging

import pytest

from coterie_server.storage.postgres import PostgresStore

pytestmark = pytest.mark.asyncio

#: The moments of an attempt, counted in turns of the loop.
MOMENTS = 40


async def test_attempt_that_is_cancelled_at_any_moment_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            await reader.read()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for turns in range(MOMENTS):
            store = PostgresStore(f"postgresql://ann@127.0.0.1:{port}/coterie")
            opening = asyncio.create_task(store.open())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            for _ in range(5):  # the end of the connection is told later
                await asyncio.sleep(0)
    gc.collect()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_other_errors_of_futures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.get_running_loop().create_future().set_exception(ConnectionError("lost"))
    gc.collect()
    assert "Future exception was never retrieved" in caplog.text
