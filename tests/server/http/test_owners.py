"""The pages that say who owns what, and the watch of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from coterie_protocol.member_data import MemberData, join_member_data
from coterie_protocol.partitioner import partition_of_key
from coterie_server.backfill import Backfill
from coterie_server.http import NodeView, create_app, owner_watch, owners
from tests.server.http.event_stream import Event, Stream
from tests.server.http.pages import Browser, Node, read, refusal
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

TOLD = join_member_data(None, MemberData("h1:80", {"zone": "eu-1a"}))


def partitions(values: dict[str, Any]) -> list[int]:
    return [row["partition"] for row in values["owners"]]


# -- questions -------------------------------------------------------------------------------------


async def test_all_owners_are_shown(browser: Browser, world: WatchedWorld) -> None:
    first, _ = world.pair(user_data=TOLD)
    values = await read(await browser.get("/v1/groups/g/owners"))
    assert values["topics"] == {"t": 4}
    assert partitions(values) == [0, 1, 2, 3]
    assert values["owners"][0] == {
        "topic": "t",
        "partition": 0,
        "state": "owned",
        "owner": first.id,
        "instance": None,
        "address": "h1:80",
        "labels": {"zone": "eu-1a"},
        "token": None,
    }


async def test_owner_of_a_partition_is_shown(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    values = await read(await browser.get("/v1/groups/g/owners?topic=t&partition=3"))
    assert partitions(values) == [3]


async def test_owner_of_a_key_is_shown(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    values = await read(await browser.get("/v1/groups/g/owners", params={"key": "kunde ß"}))
    assert partitions(values) == [partition_of_key("kunde ß".encode(), 4)]


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("key=", b""),
        ("key=a+b%2Bc%26%3D", b"a b+c&="),
        ("key=%ff%00%C3%28", b"\xff\x00\xc3("),
        ("%6Bey=%25FF", b"%FF"),
        ("key=a%3Db=c", b"a=b=c"),
    ],
)
async def test_key_may_be_any_bytes(
    browser: Browser, world: WatchedWorld, query: str, key: bytes
) -> None:
    world.topics["t"] = 997
    world.pair()
    url = URL(f"/v1/groups/g/owners?{query}", encoded=True)
    values = await read(await browser.get(url))
    assert partitions(values) == [partition_of_key(key, 997)]


async def test_owners_of_a_topic_are_shown(browser: Browser, world: WatchedWorld) -> None:
    world.pair(topics=("t", "u"))
    values = await read(await browser.get("/v1/groups/g/owners?topic=u"))
    assert {row["topic"] for row in values["owners"]} == {"u"}


async def test_topic_that_is_not_worked_on_is_unowned(
    browser: Browser, world: WatchedWorld
) -> None:
    world.pair()
    values = await read(await browser.get("/v1/groups/g/owners?topic=u&partition=1"))
    assert [row["state"] for row in values["owners"]] == ["unowned"]
    whole = await read(await browser.get("/v1/groups/g/owners?topic=u"))
    assert whole["owners"][1:2] == values["owners"]


@pytest.mark.parametrize(
    ("query", "status", "name"),
    [
        ("partition=-1", 400, "bad_request"),
        ("partition=1e3", 400, "bad_request"),
        ("partition=99999999999999999999", 400, "bad_request"),
        ("partition=1&key=a", 400, "bad_request"),
        ("partition=4", 404, "partition_not_found"),
        ("topic=nosuch&key=a", 404, "topic_not_found"),
        ("topic=nosuch", 404, "topic_not_found"),
    ],
)
async def test_senseless_questions_are_refused(
    browser: Browser, world: WatchedWorld, query: str, status: int, name: str
) -> None:
    world.pair()
    assert await refusal(await browser.get(f"/v1/groups/g/owners?{query}"), status) == name


async def test_topic_is_needed_where_there_are_several(
    browser: Browser, world: WatchedWorld
) -> None:
    world.pair(topics=("t", "u"))
    assert await refusal(await browser.get("/v1/groups/g/owners?key=a"), 400) == "bad_request"


@pytest.mark.parametrize("path", ["owners", "owners/watch"])
async def test_group_that_is_none_is_not_found(browser: Browser, path: str) -> None:
    assert await refusal(await browser.get(f"/v1/groups/none/{path}"), 404) == "group_not_found"


@pytest.mark.parametrize("path", ["owners", "owners/watch"])
async def test_group_of_something_else_is_unreadable(
    browser: Browser, world: WatchedWorld, path: str
) -> None:
    connect = world.member("a", protocol_type="connect")
    connect.join()
    connect.sync({connect: b"whatever"})
    assert await refusal(await browser.get(f"/v1/groups/g/{path}"), 409) == "unreadable"


async def test_members_are_shown_with_what_they_tell(browser: Browser, world: WatchedWorld) -> None:
    world.pair(user_data=TOLD)
    values = await read(await browser.get("/v1/groups/g"))
    assert values["members"][0]["address"] == "h1:80"
    assert values["members"][0]["labels"] == {"zone": "eu-1a"}


# -- watching --------------------------------------------------------------------------------------


@asynccontextmanager
async def watching(browser: Browser, last: str = "") -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": last} if last else {}
    async with browser.get("/v1/groups/g/owners/watch", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        yield Stream(answer)


def touch(node: Node) -> None:
    """What a shard does after each request that moves partitions."""
    node.listeners.tell("g")


async def test_watch_begins_with_all_owners(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    async with watching(browser) as stream:
        event = await stream.next()
    assert event.kind == "snapshot"
    assert event.data["reason"] == "new"
    assert event.owners == dict.fromkeys(range(4), "owned")
    assert event.id


async def test_change_is_told_with_what_changed_only(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    _, second = world.pair()
    async with watching(browser) as stream:
        await stream.next()
        second.leave()
        touch(node)
        event = await stream.next()
    assert event.kind == "change"
    assert event.owners == {1: "on_its_way", 3: "on_its_way"}
    assert event.data["gone"] == []


async def test_partition_that_is_none_any_more_is_gone(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    first = world.member("a")
    world.form(first)
    async with watching(browser) as stream:
        await stream.next()
        first.leave()
        touch(node)
        event = await stream.next()
    assert event.data["gone"] == [["t", number] for number in range(4)]


async def change_twice(stream: Stream, world: WatchedWorld, node: Node) -> list[Event]:
    """Two changes, as a watcher sees them."""
    third = world.member("c")
    third.join()
    touch(node)
    found = []
    for client in list(world.group().members.values())[:2]:
        world.group().ledger.forget(client.id)
        touch(node)
        found.append(await stream.next())
    return found


async def test_watcher_that_comes_back_gets_what_it_missed(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    world.pair()
    async with watching(browser) as stream:
        begin = await stream.next()
        missed = await change_twice(stream, world, node)
    async with watching(browser, begin.id) as stream:
        assert [await stream.next(), await stream.next()] == missed
    async with watching(browser, missed[0].id) as stream:
        assert await stream.next() == missed[1]


async def test_watcher_that_comes_too_late_is_told_so(
    browser: Browser, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_watch, "_CHANGES_MAX", 1)
    world.pair()
    async with watching(browser) as stream:
        begin = await stream.next()
        changes = await change_twice(stream, world, node)
    async with watching(browser, begin.id) as stream:
        event = await stream.next()
    assert (event.kind, event.data["reason"], event.id) == ("snapshot", "too_late", changes[1].id)


@pytest.mark.parametrize("last", ["0123456789abcdef.3", "nonsense", "a.b.c", "9" * 5000])
async def test_id_of_another_node_is_not_taken_for_its_own(
    browser: Browser, world: WatchedWorld, last: str
) -> None:
    world.pair()
    async with watching(browser, last) as stream:
        event = await stream.next()
    assert (event.kind, event.data["reason"]) == ("snapshot", "other_node")


@pytest.mark.parametrize("number", ["99", "x", "9" * 5000, "-1"])
async def test_number_that_was_not_reached_is_not_gone_on_from(
    browser: Browser, world: WatchedWorld, number: str
) -> None:
    world.pair()
    async with watching(browser) as stream:
        epoch, _, _ = (await stream.next()).id.partition(".")
    async with watching(browser, f"{epoch}.{number}") as stream:
        assert (await stream.next()).kind == "snapshot"


async def test_watcher_is_kept_informed_that_nothing_happens(
    browser: Browser, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "ALIVE_S", 0.01)
    world.pair()
    async with watching(browser) as stream:
        await stream.next()
        assert await stream.block() == {":": "alive"}


async def hear(stream: Stream) -> None:
    """Return at a comment after some that may have been on their way."""
    for _ in range(4):
        await stream.block()


async def test_node_in_trouble_does_not_seem_alive(
    browser: Browser, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "ALIVE_S", 0.01)
    world.pair()
    async with watching(browser) as stream:
        await stream.next()
        node.trouble = "The leases have run out."
        heard = asyncio.create_task(hear(stream))
        await asyncio.wait([heard], timeout=0.3)
        assert not heard.done()
        heard.cancel()


async def test_deleted_group_ends_the_watch(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    first = world.member("a")
    world.form(first)
    async with watching(browser) as stream:
        await stream.next()
        first.leave()
        world.delete("g")
        touch(node)
        event = await stream.next()
        assert event.kind == "end"
        assert "no group 'g'" in event.data["message"]
        assert await stream.answer.content.read() == b""
    assert not node.listeners.are_any


async def test_too_many_watchers_are_refused(view: NodeView, world: WatchedWorld) -> None:
    world.pair()
    app = create_app(view, Backfill(world.history, None, 0), world.metrics, watchers_max=1)
    async with TestClient(TestServer(app)) as browser:
        async with watching(browser) as stream:
            await stream.next()
            refused = await browser.get("/v1/groups/g/owners/watch")
            assert await refusal(refused, 503) == "too_many_watchers"
            assert (await browser.get("/v1/groups/g/owners")).status == 200
        async with asyncio.timeout(60):
            while (await browser.get("/v1/groups/g/owners/watch")).status != 200:
                pass


async def test_stopping_node_ends_all_watches(view: NodeView, world: WatchedWorld) -> None:
    world.pair()
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    server = TestServer(app)
    async with TestClient(server) as browser, watching(browser) as stream:
        await stream.next()
        await app.shutdown()
        event = await stream.next()
    assert (event.kind, event.data) == ("end", {"message": "The node is stopping."})


async def test_moved_group_ends_the_watch(
    browser: Browser, world: WatchedWorld, view: NodeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_watch, "_LOOK_S", 0.01)
    world.pair()
    async with watching(browser) as stream:
        await stream.next()
        monkeypatch.setattr(view, "not_shown", lambda _: "It is on its way.")
        event = await stream.next()
    assert (event.kind, event.data) == ("end", {"message": "It is on its way."})


async def test_changes_are_told_in_order_to_many_watchers(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    world.pair()
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(watching(browser)) for _ in range(40)]
        begins = [await stream.next() for stream in streams]
        assert len({event.id for event in begins}) == 1
        told = await change_twice(streams[0], world, node)
        for stream in streams[1:]:
            assert [await stream.next(), await stream.next()] == told


async def test_watcher_that_reads_slowly_gets_the_whole_again(
    world: WatchedWorld, view: NodeView, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no buffer of its own: what it misses while it does not read is gathered."""
    monkeypatch.setattr(owner_watch, "_CHANGES_MAX", 1)
    first, _ = world.pair()
    watch = owner_watch.GroupWatch(view, "g")
    await watch.start()
    for _ in range(3):
        world.group().ledger.told ^= {first.id}
        touch(node)
        await asyncio.wait_for(watch.changes.changed(watch.changes.number, 60), 60)
    assert watch.changes.number == 3
    assert watch.changes.after(0) is None
    assert len(watch.changes.after(2) or ()) == 1
    watch.stop("over")
    assert not node.listeners.are_any
