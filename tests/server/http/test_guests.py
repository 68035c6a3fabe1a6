"""Whoever asks for pages takes neither the node's files, nor its memory, nor its members' turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession, web

from coterie_server.history import History
from coterie_server.http import GroupSummary, GroupView, HttpServer, create_app
from coterie_server.http.guests import Guest, Guests
from coterie_server.metrics import Metrics
from tests.server.net.doubles import until

pytestmark = pytest.mark.asyncio


class Served(asyncio.Protocol):
    """What would answer; it notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        """Note it."""
        self.told.append("made")

    def connection_lost(self, _exc: Exception | None) -> None:
        """Note it."""
        self.told.append("lost")

    def data_received(self, data: bytes) -> None:
        """Note it."""
        self.told.append(data.decode())

    def pause_writing(self) -> None:
        """Note it."""
        self.told.append("pause")

    def resume_writing(self) -> None:
        """Note it."""
        self.told.append("resume")


class Wire(asyncio.Transport):
    """A connection that can be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        """Cut it."""
        self.aborted = True


def come(guests: Guests) -> tuple[Guest, Served, Wire]:
    """A connection is opened."""
    served, transport = Served(), Wire()
    guest = Guest(guests, served)
    guest.connection_made(transport)
    return guest, served, transport


async def test_there_is_room_for_so_many_and_then_again() -> None:
    """Who comes when all places are taken is closed at once, and one line tells of all of them."""
    guests = Guests(2)
    first, _, _ = come(guests)
    come(guests)
    with structlog.testing.capture_logs() as log:
        crowd = [come(guests) for _ in range(3)]
    for guest, served, transport in crowd:
        guest.data_received(b"in vain")
        guest.connection_lost(None)
        assert (served.told, transport.aborted) == ([], True)
    assert [line["event"] for line in log] == ["HTTP connections refused"]
    first.connection_lost(None)
    _, served, transport = come(guests)
    assert (served.told, transport.aborted) == (["made"], False)


async def test_an_answer_that_is_not_read_is_given_up() -> None:
    """Or it would be kept for as long as its client likes."""
    guest, served, transport = come(Guests(unread_s=0))
    guest.pause_writing()
    await turns()
    assert (served.told, transport.aborted) == (["made", "pause"], True)


async def test_an_answer_that_is_read_in_time_is_not() -> None:
    """Nor does the clock of one answer go on for the next."""
    guest, served, transport = come(Guests(unread_s=0))
    guest.pause_writing()
    guest.resume_writing()
    await turns()
    assert (served.told, transport.aborted) == (["made", "pause", "resume"], False)


class Node:
    """Takes as long to count as a test likes."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun = self.counting = self.most = 0

    def not_ready(self) -> str | None:
        """It is."""

    def group_names(self) -> list[str]:
        """There are none."""
        return []

    def summary(self, group_id: str) -> GroupSummary | None:
        """There are none."""

    def group(self, group_id: str) -> GroupView | None:
        """There are none."""

    async def force_rebalance(self, group_id: str) -> GroupView:
        """There are none."""
        raise AssertionError(group_id)

    async def count_groups(self) -> None:
        """Count how many count at the same time."""
        self.begun += 1
        self.counting += 1
        self.most = max(self.most, self.counting)
        try:
            await self.go_on.wait()
        finally:
            self.counting -= 1


def app(node: Node) -> web.Application:
    """The pages of such a node."""
    history: Any = History(1)
    return create_app(node, history, Metrics("1", history))


async def turns() -> None:
    """Let the loop run all that is due."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_views_are_made_one_at_a_time() -> None:
    """Each is made in short pieces, but a hundred at once would make one long one."""
    node = Node()
    server = HttpServer(app(node))
    await server.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}"
    async with ClientSession() as session:
        asked = [asyncio.create_task(session.get(f"{url}/metrics")) for _ in range(5)]
        await until(lambda: node.begun > 0)
        async with session.get(f"{url}/healthz") as answer:
            assert answer.status == 200
        node.go_on.set()
        assert [(await each).status for each in asked] == [200] * 5
    assert (node.begun, node.most) == (5, 1)
    await server.close()


async def test_a_view_is_not_made_for_who_has_gone() -> None:
    """Nor does it keep others waiting."""
    node = Node()
    server = HttpServer(app(node))
    await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: node.counting > 0)
    writer.close()
    await until(lambda: not node.counting)
    await server.close()


async def test_garbage_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A traceback for each piece of it would fill the disk."""
    server = HttpServer(app(Node()))
    await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /\0\r\n\r\n")
    assert (await reader.readline()).endswith(b"400 Bad Request\r\n")
    writer.close()
    await server.close()
    assert caplog.records == []
