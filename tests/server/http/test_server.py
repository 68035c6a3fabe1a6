"""Listening for HTTP: its clients take neither the node's files, nor its memory, nor its time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web

from coterie_server.backfill import Backfill
from coterie_server.config.settings import Settings
from coterie_server.http import (
    HttpServer,
    NodeView,
    create_app,
)
from coterie_server.http.server import BoundedConnection, ConnectionLimit
from coterie_server.metrics import NodeSnapshot
from coterie_server.net import Listener
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from coterie_server.tls import ServerTls, TlsOptions
from tests.server.net.doubles import until
from tests.support.certificates import Authority
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio


async def test_server_listens_until_it_is_closed(view: NodeView, world: WatchedWorld) -> None:
    server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start("127.0.0.1", 0)
    async with ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{server.port}/healthz") as answer:
            assert answer.status == 200
        await server.close()
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await session.get(f"http://127.0.0.1:{server.port}/healthz")


async def test_address_in_use_is_an_error(view: NodeView, world: WatchedWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
        with pytest.raises(OSError, match="ddress already in use"):
            await server.start("127.0.0.1", taken.getsockname()[1])


async def test_server_answers_over_tls_with_the_certificate_of_the_moment(
    view: NodeView, world: WatchedWorld, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue()
    tls = ServerTls(TlsOptions(keystore_location=str(files.both)))
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = HttpServer(app, tls=tls)
    await server.start("127.0.0.1", 0)
    context = authority.client_context()
    seen = []
    half_open = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(80)]
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        seen.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.transport.abort()
        files.both.write_bytes(authority.issue().both.read_bytes())
        tls.reload()
    assert seen[0] != seen[1]
    for _, writer in half_open:
        writer.transport.abort()
    await server.close()


async def test_compressed_bodies_are_not_unpacked(
    view: NodeView, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even what is refused would be, to any size, and nobody else have a turn meanwhile."""

    def unpack(*_: object, **__: object) -> None:
        raise AssertionError("it is unpacked")

    monkeypatch.setattr("aiohttp.http_parser.DeflateBuffer", unpack)
    server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start("127.0.0.1", 0)
    async with ClientSession(f"http://127.0.0.1:{server.port}") as session:
        for path in ("/v1/groups/g/offsets/reset", "/none"):
            headers = {"Content-Encoding": "deflate"}
            async with session.post(path, data=b"x", headers=headers) as answer:
                assert answer.status == 415
                assert (await answer.json())["error"] == "unsupported_media_type"
    await server.close()


async def test_unknown_expectation_is_refused_as_all_is(
    view: NodeView, world: WatchedWorld
) -> None:
    server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start("127.0.0.1", 0)
    headers = {"Expect": "wonders"}
    async with (
        ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.get("/v1/groups", headers=headers) as answer,
    ):
        assert answer.status == 417
        assert (await answer.json())["error"] == "expectation_failed"
    await server.close()


async def test_of_many_that_shake_hands_at_once_only_the_newest_stay(
    view: NodeView, world: WatchedWorld, tmp_path: Path
) -> None:
    """As many as come in one turn of the event loop, or a flood would take all file descriptors."""
    tls = ServerTls(TlsOptions(keystore_location=str(Authority(tmp_path).issue().both)))
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = HttpServer(app, tls=tls)
    await server.start("127.0.0.1", 0)
    came = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(90)]
    loop = asyncio.get_running_loop()
    for each in came:
        each.settimeout(0)
    async with asyncio.timeout(5):
        assert [await _read(loop, each) for each in came[:26]] == 26 * [b""]
    with pytest.raises(BlockingIOError):
        came[26].recv(1)
    for each in came:
        each.close()
    await server.close()


async def _read(loop: asyncio.AbstractEventLoop, connected: socket.socket) -> bytes:
    try:
        return await loop.sock_recv(connected, 1)
    except ConnectionResetError:
        return b""


async def test_server_answers_by_its_own_names() -> None:
    here = Address("127.0.0.1", 0)
    options = ServerOptions(
        listeners=(ListenerOptions(here, Address("coordinator.example", 0)),),
        http=here,
        settings=Settings(http_allowed_hosts="one.example, two.example"),
    )
    async with Server(options) as server, ClientSession() as session:
        statuses = {}
        for name in ("coordinator", "one", "two", "evil"):
            url, headers = f"http://{server.http_address}/v1/groups", {"Host": f"{name}.example"}
            async with session.get(url, headers=headers) as answer:
                statuses[name] = answer.status
        async with session.get(f"http://{server.http_address}/metrics") as answer:
            figures = await answer.text()
    assert statuses == {"coordinator": 200, "one": 200, "two": 200, "evil": 403}
    assert 'coterie_groups{state="Empty"} 0.0' in figures


# -- bounds ----------------------------------------------------------------------------------------


class Served(asyncio.Protocol):
    """Stands for the protocol that answers, and records what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def connection_lost(self, _exc: Exception | None) -> None:
        self.told.append("lost")

    def data_received(self, data: bytes) -> None:
        self.told.append(data.decode())

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class FakeTransport(asyncio.Transport):
    """A connection that can be aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def connect(limit: ConnectionLimit) -> tuple[BoundedConnection, Served, FakeTransport]:
    """Open a connection."""
    served, transport = Served(), FakeTransport()
    connection = BoundedConnection(limit, lambda: served)
    connection.connection_made(transport)
    return connection, served, transport


async def test_there_is_room_for_so_many_and_then_again(
    log: list[MutableMapping[str, Any]],
) -> None:
    limit = ConnectionLimit(2)
    first, _, _ = connect(limit)
    for busy in (first, connect(limit)[0]):
        busy.is_answering = True
    crowd = [connect(limit) for _ in range(3)]
    for connection, served, transport in crowd:
        connection.data_received(b"in vain")
        connection.connection_lost(None)
        assert (served.told, transport.aborted) == ([], True)
    assert [line["event"] for line in log] == ["HTTP connections refused"]
    first.connection_lost(None)
    _, served, transport = connect(limit)
    assert (served.told, transport.aborted) == (["made"], False)


async def test_connections_without_a_request_make_room() -> None:
    limit = ConnectionLimit(2)
    answering, _, answered = connect(limit)
    answering.is_answering = True
    _, _, idle = connect(limit)
    _, served, transport = connect(limit)
    assert (served.told, answered.aborted, idle.aborted) == (["made"], False, True)
    assert not transport.aborted


async def test_answer_that_is_still_to_be_read_makes_no_room() -> None:
    limit = ConnectionLimit(1)
    reading, _, read = connect(limit)
    reading.pause_writing()
    assert connect(limit)[2].aborted
    assert not read.aborted
    reading.resume_writing()


HALF_A_BODY = (
    b"POST /v1/groups/g/offsets/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{"
)


BEGUN = {
    "nothing": b"",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: loc",
    "half a body": HALF_A_BODY,
}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
@pytest.mark.parametrize("has_tls", [False, True])
async def test_flood_of_clients_that_ask_nothing_leaves_others_answered(
    view: NodeView, world: WatchedWorld, tmp_path: Path, begun: bytes, *, has_tls: bool
) -> None:
    authority = Authority(tmp_path)
    tls = ServerTls(TlsOptions(keystore_location=str(authority.issue().both)))
    context = authority.client_context() if has_tls else None
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = HttpServer(app, ConnectionLimit(4), tls if has_tls else None)
    await server.start("127.0.0.1", 0)
    flood = []
    for _ in range(9):
        flood.append(await asyncio.open_connection("127.0.0.1", server.port, ssl=context))
        flood[-1][1].write(begun)
    await turns()  # in which what has come of them is read
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    for _, each in (*flood, (reader, writer)):
        each.transport.abort()
    await server.close()


async def test_body_that_does_not_come_is_given_up(
    view: NodeView, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may have vanished, and would hold its place for ever."""
    monkeypatch.setattr("coterie_server.http.server._BODY_S", 0.05)
    server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(HALF_A_BODY)
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"}")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b'"error":"request_timeout"' in answer
    writer.transport.abort()
    await server.close()


async def test_request_that_has_come_as_a_whole_keeps_its_place_again(
    view: NodeView, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only until its body is there is it one that has nothing to answer."""
    busy: list[bool] = []
    limit = ConnectionLimit()

    async def operate(*_: object) -> None:
        busy.extend(each.is_busy for each in limit._open)  # noqa: SLF001

    monkeypatch.setattr(view, "operate", operate)
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = HttpServer(app, limit)
    await server.start("127.0.0.1", 0)
    async with ClientSession(f"http://127.0.0.1:{server.port}") as session:
        async with session.post("/v1/groups/g/rebalance", data=b"{}") as answer:
            assert answer.status == 200
        assert busy == [True]
        assert [each.is_busy for each in limit._open] == [False]  # noqa: SLF001
    await server.close()


@pytest.mark.parametrize("piece", [b"/", b"/a", b"/.."])
async def test_path_with_thousands_of_slashes_keeps_nobody_waiting(
    view: NodeView, world: WatchedWorld, piece: bytes
) -> None:
    """A page would be looked for at each of them, which takes seconds."""
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = HttpServer(app)
    await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    path = b"/v1" + piece * (130_000 // len(piece))
    began_s = time.process_time()
    writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 404 Not Found\r\n"
    assert time.process_time() - began_s < 0.5
    writer.transport.abort()
    await server.close()


async def test_an_answer_that_is_not_read_is_given_up() -> None:
    connection, served, transport = connect(ConnectionLimit(unread_s=0))
    connection.pause_writing()
    await turns()
    assert (served.told, transport.aborted) == (["made", "pause"], True)


async def test_an_answer_that_is_read_in_time_is_not() -> None:
    """The timer of one answer does not go on for the next."""
    connection, served, transport = connect(ConnectionLimit(unread_s=0))
    connection.pause_writing()
    connection.resume_writing()
    await turns()
    assert (served.told, transport.aborted) == (["made", "pause", "resume"], False)


class SlowView(NodeView):
    """Takes as long to look at the node as a test likes."""

    def __init__(self) -> None:
        super().__init__(cast(Listener, None), None)
        self.go_on = asyncio.Event()
        self.begun = self.looking = self.most = 0

    async def snapshot(self) -> NodeSnapshot:
        """Count how many look at the same time."""
        self.begun += 1
        self.looking += 1
        self.most = max(self.most, self.looking)
        try:
            await self.go_on.wait()
        finally:
            self.looking -= 1
        return NodeSnapshot()


def app(view: NodeView) -> web.Application:
    """The pages of a node."""
    world = WatchedWorld()
    return create_app(view, Backfill(world.history, None, 0), world.metrics)


async def turns() -> None:
    """Let the loop run all that is due."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_answers_are_made_one_at_a_time() -> None:
    """Each is made in short pieces, but a hundred at once would make one long one."""
    view = SlowView()
    server = HttpServer(app(view))
    await server.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}"
    async with ClientSession() as session:
        asked = [asyncio.create_task(session.get(f"{url}/metrics")) for _ in range(5)]
        await until(lambda: view.begun > 0)
        async with session.get(f"{url}/healthz") as answer:
            assert answer.status == 200
        view.go_on.set()
        assert [(await each).status for each in asked] == [200] * 5
    assert (view.begun, view.most) == (5, 1)
    await server.close()


async def test_an_answer_is_not_made_for_a_client_that_has_gone() -> None:
    view = SlowView()
    server = HttpServer(app(view))
    await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: view.looking > 0)
    writer.close()
    await until(lambda: not view.looking)
    await server.close()


async def test_garbage_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A traceback for each piece of it would fill the disk."""
    server = HttpServer(app(SlowView()))
    await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /\0\r\n\r\n")
    assert (await reader.readline()).endswith(b"400 Bad Request\r\n")
    writer.close()
    await server.close()
    assert caplog.records == []
