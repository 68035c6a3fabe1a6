"""A node inside of a program: where it says that it is, how it begins and how it ends."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from coterie_client import Admin
from coterie_server import embedded
from coterie_server.config.listeners import ListenerError
from coterie_server.config.setting import SettingsError
from coterie_server.embedded import EmbeddedNode, own_address
from coterie_server.own_place import _Place
from coterie_server.server import ServerError
from coterie_server.serving.leases import LeaseKeeper
from coterie_server.storage import StoreError
from coterie_server.storage.lock import DirectoryInUseError, DirectoryUnusableError
from tests.support.ports import free_port


@pytest.mark.parametrize(
    ("store", "hosts", "address"),
    [
        ("postgresql://ann:s3cret@one.example:6432/x", ["one.example"], "10.0.0.1"),
        ("postgresql://one.example,[::1]:6432/x", ["one.example"], "10.0.0.1"),
        ("postgresql://away.example,one.example/x", ["away.example", "one.example"], "10.0.0.1"),
        ("postgresql://away.example/x", ["away.example"], "127.0.0.1"),
        ("postgresql:///x", [], "127.0.0.1"),
        ("postgresql://o[ne/x", [], "127.0.0.1"),
        ("sqlite:/var/lib/a", [], "127.0.0.1"),
        ("memory:", [], "127.0.0.1"),
    ],
)
def test_own_address_is_that_towards_the_first_server_that_is_known(
    store: str, hosts: list[str], address: str
) -> None:
    asked = []

    def towards(host: str) -> str:
        asked.append(host)
        if host == "away.example":
            raise OSError
        return "10.0.0.1"

    assert own_address(store, towards) == address
    assert asked == hosts


@pytest.mark.asyncio
async def test_own_address_is_looked_up_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that is silent takes its time, and the program may have other groups."""
    loop, asks, may_answer = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow(host: str) -> str:
        loop.call_soon_threadsafe(asks.set)
        assert may_answer.wait(5), "the event loop stands still"
        raise OSError(host)

    monkeypatch.setattr(embedded, "_address_towards", slow)
    starting = asyncio.create_task(
        EmbeddedNode(f"postgresql://u@127.0.0.1:{free_port()}/x").start()
    )
    await asks.wait()
    may_answer.set()
    with pytest.raises(StoreError, match="can't be reached"):
        await starting


def store_in(folder: Path) -> str:
    return f"sqlite:{folder}/groups.db"


def leaving_waits(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Have nodes hand over only when they may; returns that one does, and that it may go on."""
    is_leaving, may_leave = asyncio.Event(), asyncio.Event()
    leave = LeaseKeeper.leave

    async def slowly(self: LeaseKeeper) -> None:
        is_leaving.set()
        await may_leave.wait()
        await leave(self)

    monkeypatch.setattr(LeaseKeeper, "leave", slowly)
    return is_leaving, may_leave


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"topics": {"t": "3"}}, "topic 't' can't have '3' partitions: expected a whole number"),
        ({"topics": {"t": 2.5}}, "topic 't' can't have 2.5 partitions"),
        ({"topics": {"t": True}}, "topic 't' can't have True partitions"),
        ({"topics": ["t"]}, r"topics must be names with their numbers .*, got \['t'\]"),
        ({"topics": "t:3"}, "topics must be names with their numbers .*, got 't:3'"),
        ({"settings": {"shard_lease_ms": "5000"}}, "shard.lease.ms = '5000'"),
        ({"settings": {"shard.lease.ms": 5000}}, "'shard.lease.ms'; .* is shard_lease_ms"),
        ({"settings": {"shards_lease": 5000}}, "unknown setting 'shards_lease'"),
        ({"settings": {5: 5000}}, "unknown setting 5"),
        (
            {"settings": ["shards"]},
            r"settings must be names with their values, .*, got \['shards'\]",
        ),
        ({"settings": ()}, r"settings must be names with their values, .*, got \(\)"),
        ({"port": 70_000}, "host '127.0.0.1' and port 70000: expected a port from 0 to 65535"),
        ({"port": -1}, "port -1"),
        ({"port": None}, "port None"),
        ({"host": "a b"}, "host 'a b'"),
        ({"host": "127.0.0.1:9092"}, "host '127.0.0.1:9092'"),
        ({"host": "::"}, "which stands for every address of this machine"),
        ({"host": 5}, "host 5"),
    ],
)
def test_what_it_can_not_be_told_is_refused_before_it_starts(
    tmp_path: Path, wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ListenerError, SettingsError), match=sentence):
        EmbeddedNode(store_in(tmp_path), **wrong)


@pytest.mark.parametrize("store", ["", None, 5])
def test_a_store_that_is_not_named_is_not_taken_for_one_in_memory(store: Any) -> None:
    """Each process would have groups of its own, and all of them every partition."""
    with pytest.raises(StoreError, match=rf"store must be postgresql://.*, got {store!r}"):
        EmbeddedNode(store)


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
async def test_bootstrap_is_where_others_reach_it(tmp_path: Path, host: str) -> None:
    """And not where it listens, which stands for every address of whichever machine is asked."""
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    async with EmbeddedNode(store_in(tmp_path), host=host, topics={"t": 1}) as node:
        name, _, _ = node.bootstrap.rpartition(":")
        assert name.strip("[]") == host
        async with Admin(node.bootstrap) as admin:
            assert (await admin.topics.describe("t")).name == "t"


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.asyncio
async def test_node_that_runs_is_not_started_again(tmp_path: Path) -> None:
    """That would stop it, while it still told where it is."""
    async with EmbeddedNode(store_in(tmp_path), topics={"t": 1}) as node:
        with pytest.raises(RuntimeError, match="runs already"):
            await node.start()
        async with Admin(node.bootstrap) as admin:
            assert (await admin.topics.describe("t")).name == "t"


@pytest.mark.asyncio
async def test_node_that_does_not_run_is_nowhere(tmp_path: Path) -> None:
    node = EmbeddedNode(store_in(tmp_path))
    await node.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = node.bootstrap
    async with node:
        assert node.bootstrap
    with pytest.raises(RuntimeError, match="does not run"):
        _ = node.bootstrap


@pytest.mark.asyncio
async def test_node_that_has_stopped_can_be_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = EmbeddedNode(store_in(tmp_path), topics={"t": 1}, journal=str(tmp_path / "journal"))
    for offset in (1, 2):
        async with node, Admin(node.bootstrap) as admin:
            await admin.offsets.set("g", {("t", 0): offset})
    assert [each.levelname for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.asyncio
async def test_node_that_could_not_start_can_be_started_later(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    node = EmbeddedNode(store_in(tmp_path / "folder"))
    with pytest.raises(StoreError):
        await node.start()
    (tmp_path / "folder").unlink()
    async with node:
        assert node.bootstrap


@pytest.mark.asyncio
async def test_errors_name_no_options_of_a_command(tmp_path: Path) -> None:
    """A program has none of the options of a command."""
    store, taken = f"sqlite:{tmp_path / 'store'}", tmp_path / "file"
    taken.touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        node = EmbeddedNode(store, port=other.getsockname()[1])
        with pytest.raises(ServerError, match=r"in use\. Choose another address\.$"):
            await node.start()
    with pytest.raises(DirectoryUnusableError, match=r"Choose another directory\.$"):
        await EmbeddedNode(store, journal=taken).start()
    async with EmbeddedNode(store, journal=tmp_path / "journal"):
        with pytest.raises(DirectoryInUseError, match=r"or choose another directory\.$"):
            await EmbeddedNode(store, journal=tmp_path / "journal").start()


@pytest.mark.asyncio
async def test_node_whose_start_is_cancelled_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C, while it waits for the lease of a node that may have ended."""
    waits = asyncio.Event()

    async def look_until_cancelled(*_: object) -> None:
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(_Place, "wait_until_free", look_until_cancelled)
    node = EmbeddedNode(store_in(tmp_path))
    before = asyncio.all_tasks()
    entering = asyncio.create_task(node.__aenter__())
    await waits.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert asyncio.all_tasks() == before
    assert "coterie-store" not in {each.name for each in threading.enumerate()}
    monkeypatch.undo()
    async with node:
        assert node.bootstrap


@pytest.mark.asyncio
async def test_node_whose_end_is_cancelled_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would go on to look after leases, for as long as the program runs."""
    is_leaving, may_leave = leaving_waits(monkeypatch)
    node = EmbeddedNode(store_in(tmp_path))
    await node.start()
    before = asyncio.all_tasks()
    ending = asyncio.create_task(node.stop())
    await is_leaving.wait()
    for _ in range(2):
        ending.cancel()
        await asyncio.sleep(0)
    may_leave.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    left = [each for each in asyncio.all_tasks() & before if each is not asyncio.current_task()]
    assert left == []
    assert "coterie-store" not in {each.name for each in threading.enumerate()}


@pytest.mark.asyncio
async def test_node_that_is_stopped_while_it_starts_stops_when_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a handler of signals; or it would have its share of the groups for ever."""
    waits, may_go_on = asyncio.Event(), asyncio.Event()

    async def look_for_long(*_: object) -> None:
        waits.set()
        await may_go_on.wait()

    monkeypatch.setattr(_Place, "wait_until_free", look_for_long)
    node = EmbeddedNode(store_in(tmp_path))
    before = asyncio.all_tasks()
    starting = asyncio.create_task(node.start())
    await waits.wait()
    stopping = asyncio.create_task(node.stop())
    await asyncio.sleep(0)
    may_go_on.set()
    await starting
    await stopping
    with pytest.raises(RuntimeError, match="does not run"):
        _ = node.bootstrap
    assert asyncio.all_tasks() == before
    assert "coterie-store" not in {each.name for each in threading.enumerate()}


@pytest.mark.asyncio
async def test_who_stops_a_node_that_is_stopping_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not stop the rest of it, while it hands its groups over."""
    is_leaving, may_leave = leaving_waits(monkeypatch)
    node = EmbeddedNode(store_in(tmp_path))
    await node.start()
    host, _, port = node.bootstrap.rpartition(":")
    first = asyncio.create_task(node.stop())
    await is_leaving.wait()
    second = asyncio.create_task(node.stop())
    await asyncio.sleep(0)
    try:
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        assert not second.done()
    finally:
        may_leave.set()
        await asyncio.gather(first, second)


@pytest.mark.asyncio
async def test_node_that_is_about_to_start_is_nowhere_yet(tmp_path: Path) -> None:
    node = EmbeddedNode(store_in(tmp_path))
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = node.bootstrap
    await starting
    await node.stop()


@pytest.mark.asyncio
async def test_clients_leave_half_of_the_open_files_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit, none of its files could be opened, and asyncio's log would fill the disk."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    async with EmbeddedNode(store_in(tmp_path)) as node:
        host, _, port = node.bootstrap.rpartition(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
        refused = [reader.read(1) for reader, _ in opened[32:]]
        async with asyncio.timeout(30):
            assert await asyncio.gather(*refused) == [b""] * 8
        assert not any(reader.at_eof() for reader, _ in opened[:32])
        for _, writer in opened:
            writer.close()
