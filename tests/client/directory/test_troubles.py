"""What goes wrong with a watch is told, and tried again: it never ends without a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coterie_client import Directory
from coterie_client.directory.http_stream import EventStream, ServerEvent
from coterie_client.errors import ClientClosedError
from tests.client.directory.served import serving, until, url, why_unknown
from tests.server.http.pages import Node
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def told_by(event_id: str, told: str) -> bytes:
    return HEAD + f"id: {event_id}\nevent: snapshot\ndata: {told}\n\n".encode()


OWNED = (
    '{"owners": [{"topic": "t", "partition": 0, "state": "owned", "owner": "m"}],'
    ' "topics": {"t": 1}, "generation": 1}'
)


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[str]:
    """The address of what answers each connection with other bytes, the last of them for ever."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_token_function_that_fails_is_asked_again(world: WatchedWorld, node: Node) -> None:
    world.pair()
    failures = [KeyError("SECRET"), asyncio.CancelledError(), RuntimeError("the SECRET is closed")]

    def token() -> str:
        if failures:
            raise failures.pop()
        return "secret"

    troubles: set[str | None] = set()

    def is_known() -> bool:
        troubles.add(directory.trouble)
        return bool(directory.owners)

    async with serving(node) as server, Directory(url(server), "g", token=token) as directory:
        await until(is_known)
        assert (await directory.owner(partition=0)).is_owned
        assert directory.trouble is None
    told = "the function that gives tokens failed"
    kinds = ("RuntimeError", "CancelledError", "KeyError")
    assert {f"{told} ({kind})" for kind in kinds} <= troubles


@pytest.mark.parametrize("token", [b"secret", 7, "two\nlines"])
async def test_token_of_a_function_that_is_no_text_is_not_sent(token: Any) -> None:
    async with (
        answering(told_by("1", OWNED)) as address,
        Directory(address, "g", token=lambda: token) as directory,
    ):
        assert "token must be one line" in await why_unknown(directory)


@pytest.mark.parametrize("host", ["a..b", "a" * 70, "a\0b"])
async def test_another_address_is_tried_where_one_has_no_valid_name(
    world: WatchedWorld, node: Node, host: str
) -> None:
    world.pair()
    async with Directory(f"http://{host}:80", "g") as directory:
        assert f"The host {host} is not known here" in await why_unknown(directory)
    async with (
        serving(node) as server,
        Directory([f"http://{host}:80", url(server)], "g") as directory,
    ):
        assert (await directory.owner(partition=0)).is_owned


async def test_bug_is_told_and_does_not_end_the_watch(
    world: WatchedWorld,
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world.pair()
    feed, bugs = EventStream.feed, [ZeroDivisionError("a bug")]

    def feed_with_a_bug(stream: EventStream, data: bytes) -> list[ServerEvent]:
        if bugs:
            raise bugs.pop()
        return feed(stream, data)

    monkeypatch.setattr(EventStream, "feed", feed_with_a_bug)
    async with serving(node) as server, Directory(url(server), "g") as directory:
        await until(lambda: directory.trouble)
        assert directory.trouble == "ZeroDivisionError: a bug"
        assert (await directory.owner(partition=0)).is_owned
    assert "watching failed" in caplog.text
    assert "feed_with_a_bug" in caplog.text


async def test_number_that_can_be_none_is_an_answer_like_any_other_nonsense() -> None:
    nonsense = told_by("1", '{"owners": [], "topics": {"t": 1e999}, "generation": 1}')
    async with (
        answering(nonsense, told_by("1", OWNED)) as address,
        Directory(address, "g") as directory,
    ):
        assert (await directory.owner(partition=0)).member == "m"


async def test_id_that_can_not_be_sent_back_is_not_sent() -> None:
    async with (
        answering(told_by("a\x01", OWNED), told_by("1", OWNED)) as address,
        Directory(address, "g", on_change=lambda _: told.append(1)),
    ):
        told: list[int] = []
        await until(lambda: len(told) > 1)


async def test_silence_in_a_handshake_has_a_reason() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # To the client's end: from Python 3.12 on, a server's own waits for all connections.
        await reader.read()
        writer.close()

    deaf = await asyncio.start_server(listen, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{deaf.sockets[0].getsockname()[1]}"
    async with deaf, Directory(address, "g", silence_timeout=0.1) as directory:
        await until(lambda: directory.trouble)
        assert directory.trouble == f"no connection to {address} within 0.1 seconds"


async def test_watch_that_was_cancelled_is_told_to_callers() -> None:
    async with Directory("127.0.0.1:1", "g") as directory:
        for task in asyncio.all_tasks():
            if "coterie directory" in task.get_name():
                task.cancel()
                await asyncio.wait([task])
        with pytest.raises(ClientClosedError, match="was cancelled"):
            await directory.owner(partition=0)
