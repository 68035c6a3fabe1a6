"""The watches of the list of groups and of one group, and committed offsets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from coterie_server.backfill import Backfill
from coterie_server.group import BundleRow, OffsetRow
from coterie_server.http import (
    NodeView,
    create_app,
    group_lists,
    group_watch,
    list_watch,
    owner_watch,
)
from coterie_server.http.groups import KnownGroups, Place
from coterie_server.http.streams import Broadcast, Streams
from tests.server.http.event_stream import Stream
from tests.server.http.pages import Browser, Node, read, refusal
from tests.support.turns import PerTurn
from tests.support.watched_world import SECOND_MS, WatchedWorld

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are told without the rests between them."""
    for module in (list_watch, group_watch):
        monkeypatch.setattr(module, "_GATHER_S", 0.001)
        monkeypatch.setattr(module, "_PAUSE_S", 0.002)


@asynccontextmanager
async def watching(browser: Browser, path: str, **query: str) -> AsyncIterator[Stream]:
    async with browser.get(path, params=query) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        stream = Stream(answer)
        begin = await stream.next()
        assert begin.kind == "begin"
        assert begin.data["now_ms"] >= 0
        yield stream


def fill(world: WatchedWorld, node: Node, *names: str) -> None:
    for name in names:
        world.commit({("t", 0): 1}, group_id=name)
        node.listeners.tell(name)


async def until_told(changes: Broadcast[Any], number: int) -> None:
    async with asyncio.timeout(60):
        while changes.number < number:
            await changes.changed(changes.number, 10)


# -- the list --------------------------------------------------------------------------------------


async def test_line_of_a_group_that_changes_is_told(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    async with watching(browser, "/v1/watch") as stream:
        world.pair()
        node.listeners.tell("g")
        event = await stream.next()
        assert event.kind == "group"
        page = await read(await browser.get("/v1/groups"))
        assert page["groups"] == [event.data]


async def test_group_that_is_deleted_is_told_as_gone(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    fill(world, node, "g")
    async with watching(browser, "/v1/watch") as stream:
        await browser.delete("/v1/groups/g")
        node.listeners.tell("g")
        event = await stream.next()
        assert (event.kind, event.data) == ("gone", {"group": "g"})


async def test_what_has_not_changed_is_not_told_again(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    async with watching(browser, "/v1/watch") as stream:
        fill(world, node, "a")
        assert (await stream.next()).data["group"] == "a"
        # A commit changes nothing of the line.
        fill(world, node, "a", "b")
        assert (await stream.next()).data["group"] == "b"


async def test_group_that_was_gone_for_a_moment_is_told_again(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    """A watcher may have asked for its list in that moment."""
    async with watching(browser, "/v1/watch") as stream:
        fill(world, node, "a")
        assert (await stream.next()).data["group"] == "a"
        await browser.delete("/v1/groups/a")
        node.listeners.tell("a")
        fill(world, node, "a", "b")
        assert (await stream.next()).data["group"] == "a"


async def test_many_changes_of_a_group_are_one_line(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    async with watching(browser, "/v1/watch") as stream:
        world.static_pair()
        for _ in range(100):
            node.listeners.tell("g")
        assert (await stream.next()).data["state"] == "Stable"
        await browser.post("/v1/groups/g/rebalance")
        node.listeners.tell("g")
        assert (await stream.next()).data["state"] == "PreparingRebalance"


async def test_only_groups_that_are_asked_for_are_told(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    async with watching(browser, "/v1/watch", q="ÄPFEL") as stream:
        fill(world, node, "birnen", "grüne-äpfel")
        assert (await stream.next()).data["group"] == "grüne-äpfel"


async def test_group_that_leaves_its_state_is_gone_for_those_who_asked_for_it(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    world.static_pair()
    async with watching(browser, "/v1/watch", state="stable") as stream:
        await browser.post("/v1/groups/g/rebalance")
        node.listeners.tell("g")
        assert (await stream.next()).kind == "gone"


async def test_nothing_is_listened_to_without_watchers(
    browser: Browser, node: Node, world: WatchedWorld
) -> None:
    assert not node.listeners.are_any
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(watching(browser, "/v1/watch"))
        world.pair()
        await stack.enter_async_context(watching(browser, "/v1/groups/g/watch"))
        assert node.listeners.are_any
    async with asyncio.timeout(60):
        while node.listeners.are_any:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)


async def test_all_watchers_get_the_same(browser: Browser, world: WatchedWorld, node: Node) -> None:
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(watching(browser, "/v1/watch")) for _ in range(5)
        ]
        fill(world, node, "a")
        assert len({(await stream.next()).data["group"] for stream in streams}) == 1


async def test_watcher_that_misses_changes_is_told_to_ask_again(
    view: NodeView, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "_PIECES_MAX", 1)
    watch = list_watch.ListWatch(view, KnownGroups(view.find, world.history, view.date_ms))
    place = watch.changes.number
    for count, name in enumerate("ab", start=1):
        fill(world, node, name)
        await until_told(watch.changes, count)
    assert watch.changes.after(place) is None
    watch.stop("over")


async def test_watch_ends_when_groups_move(
    browser: Browser, view: NodeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "_LOOK_S", 0.01)
    async with watching(browser, "/v1/watch") as stream:
        monkeypatch.setattr(view, "own_lives", lambda: frozenset({(0, 2)}))
        event = await stream.next()
        assert event.kind == "end"
        assert event.data["message"].endswith("ask again.")


async def test_groups_that_are_lost_are_not_told_as_gone(
    browser: Browser,
    view: NodeView,
    world: WatchedWorld,
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(world, node, "g")
    async with watching(browser, "/v1/watch") as stream:
        monkeypatch.setattr(view, "own_lives", lambda: frozenset({(0, 2)}))
        monkeypatch.setattr(node, "group", lambda _: None)
        node.listeners.tell("g")
        assert (await stream.next()).kind == "end"


async def test_quiet_watch_is_known_to_be_alive(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lists, "ALIVE_S", 0.01)
    async with watching(browser, "/v1/watch") as stream:
        assert await stream.block() == {":": "alive"}


@pytest.mark.parametrize("query", ["state=x", "order=x", "limit=0"])
async def test_watch_of_what_makes_no_sense(browser: Browser, query: str) -> None:
    assert await refusal(await browser.get(f"/v1/watch?{query}"), 400) == "bad_request"


async def test_a_burst_of_changes_is_told_in_pieces(
    view: NodeView, world: WatchedWorld, node: Node
) -> None:
    """While the lines of very many groups are made, others have their turns."""
    world.commit({("t", 0): 1}, group_id="a")
    group, lines = view.find("a"), PerTurn()

    def find(_name: str) -> Any:
        lines.count += 1
        return group

    watch = list_watch.ListWatch(view, KnownGroups(find, world.history, view.date_ms))
    for number in range(10_000):
        node.listeners.tell(f"{number}")
    lines.count = 0
    await until_told(watch.changes, 1)
    async with asyncio.timeout(60):
        while lines.count < 10_000:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    watch.stop("over")
    assert lines.most == 100


# -- one group -------------------------------------------------------------------------------------


async def test_group_is_shown_at_first_and_when_it_changes(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    world.static_pair()
    async with watching(browser, "/v1/groups/g/watch") as stream:
        first = await stream.next()
        assert first.kind == "group"
        assert first.data == await read(await browser.get("/v1/groups/g"))
        await browser.post("/v1/groups/g/rebalance")
        node.listeners.tell("g")
        second = await stream.next()
        assert second.data["state"] == "PreparingRebalance"
        assert second.data == await read(await browser.get("/v1/groups/g"))


async def test_heartbeats_are_told_by_themselves(
    browser: Browser, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "_LOOK_S", 0.01)
    first, second = world.pair()
    async with watching(browser, "/v1/groups/g/watch") as stream:
        assert (await stream.next()).kind == "group"
        world.sleep(SECOND_MS)
        first.heartbeat()
        while True:
            event = await stream.next()
            assert event.kind == "seen"
            if event.data["now_ms"] == world.now_ms:
                break
        seen = event.data["seen"]
        assert seen[first.id] == world.now_ms
        assert seen[second.id] == world.now_ms - SECOND_MS


async def test_watch_of_no_group_is_not_found(browser: Browser, node: Node) -> None:
    assert await refusal(await browser.get("/v1/groups/g/watch"), 404) == "group_not_found"
    assert not node.listeners.are_any


async def test_watch_ends_with_its_group(browser: Browser, world: WatchedWorld, node: Node) -> None:
    fill(world, node, "g")
    async with watching(browser, "/v1/groups/g/watch") as stream:
        assert (await stream.next()).kind == "group"
        await browser.delete("/v1/groups/g")
        node.listeners.tell("g")
        event = await stream.next()
        assert event.kind == "end"
        assert event.data["message"] == "There is no group 'g' here."


@pytest.mark.parametrize("path", ["/v1/groups/g/watch", "/v1/groups/g/owners/watch"])
async def test_watch_ends_when_another_node_has_had_the_group(
    browser: Browser, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It may be back before anything is noticed, and what it has become is told to none."""
    for module in (group_watch, owner_watch):
        monkeypatch.setattr(module, "_LOOK_S", 0.01)
    world.pair()
    async with browser.get(path) as answer:
        stream = Stream(answer)
        await stream.next()
        node.fence_number += 1
        while (event := await stream.next()).kind != "end":
            pass
    assert event.data == {"message": "The group was read anew from the store."}


async def test_slow_watcher_gets_the_last_view_only(
    view: NodeView, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "_ENTRIES_MAX", 1)
    world.pair()
    views = iter([b'{"n":1}', b'{"n":2}', b'{"n":3}'])

    async def in_full(_name: str) -> bytes:
        return next(views)

    watch = group_watch.GroupViewWatch(view, "g", in_full)
    await watch.start()
    for count in (2, 3):
        node.listeners.tell("g")
        await until_told(watch.changes, count)
    assert watch.changes.after(1) is None
    assert watch.latest == (3, b'event: group\ndata: {"n":3}\n\n')
    watch.stop("over")


async def test_slow_watcher_gets_a_view_that_comes_while_it_is_sent_one(
    view: NodeView, world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "_ENTRIES_MAX", 1)
    world.pair()
    views = (b'{"n":%d}' % number for number in itertools.count(1))

    async def in_full(_name: str) -> bytes:
        return next(views)

    watch = group_watch.GroupViewWatch(view, "g", in_full)
    await watch.start()
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)
        if len(sent) == 1:  # so many that the next ones are missed
            for count in (2, 3):
                node.listeners.tell("g")
                await until_told(watch.changes, count)
        elif len(sent) == 2:
            node.listeners.tell("g")
            await until_told(watch.changes, 4)
        else:
            watch.stop("over")

    response = SimpleNamespace(write=write, write_eof=AsyncMock())
    streams = cast(Streams, SimpleNamespace(end=AsyncMock()))
    async with asyncio.timeout(60):
        await group_watch.tell_views(watch, streams, cast(web.StreamResponse, response))
    assert [line.partition(b"data: ")[2].strip() for line in sent] == [
        b'{"n":1}',
        b'{"n":3}',
        b'{"n":4}',
    ]


async def test_watchers_that_do_not_read_hold_no_copies_of_a_long_view(view: NodeView) -> None:
    """Else a thousand of them would need a thousand times the memory of one."""
    long_view = b'{"n":"%s"}' % (b"x" * 5_000_000)

    async def in_full(_name: str) -> bytes:
        return long_view

    watch = group_watch.GroupViewWatch(view, "g", in_full)
    await watch.start()
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        assert len(data) <= 65_536
        sent.append(bytes(data))

    watch.stop("over")
    response = SimpleNamespace(write=write, write_eof=AsyncMock())
    streams = cast(Streams, SimpleNamespace(end=AsyncMock()))
    await group_watch.tell_views(watch, streams, cast(web.StreamResponse, response))
    assert b"".join(sent) == b"event: group\ndata: %s\n\n" % long_view


@pytest.mark.parametrize("path", ["/v1/watch", "/v1/groups/g/watch", "/v1/groups/g/owners/watch"])
async def test_all_watchers_count_against_one_limit(
    view: NodeView, world: WatchedWorld, path: str
) -> None:
    world.pair()
    app = create_app(view, Backfill(world.history, None, 0), world.metrics, watchers_max=1)
    async with TestClient(TestServer(app)) as browser, watching(browser, "/v1/watch"):
        assert await refusal(await browser.get(path), 503) == "too_many_watchers"


@pytest.mark.parametrize("path", ["/v1/watch", "/v1/groups/g/watch"])
async def test_watches_end_when_the_node_stops(
    view: NodeView, world: WatchedWorld, path: str
) -> None:
    world.pair()
    server = TestServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    async with TestClient(server) as browser, watching(browser, path) as stream:
        closing = asyncio.ensure_future(server.app.shutdown())
        while (event := await stream.next()).kind != "end":
            pass
        assert event.data == {"message": "The node is stopping."}
        await closing


# -- the list's orders -----------------------------------------------------------------------------


def flap(world: WatchedWorld, name: str, times: int) -> None:
    for number in range(times):
        world.sleep(SECOND_MS)
        client = world.member(f"a{number}", group=name)
        client.join()
        client.leave()


async def names(browser: Browser, **query: Any) -> list[str]:
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = await read(await browser.get("/v1/groups", params={**query, **after}))
        found += [each["group"] for each in page["groups"]]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_groups_are_ordered_as_asked(
    browser: Browser, world: WatchedWorld, node: Node, limit: int
) -> None:
    fill(world, node, "quiet", "calm:1")
    flap(world, "often", 3)
    flap(world, "once:now", 1)
    flap(world, "as-often", 3)
    by = {"limit": str(limit)}
    flapping = ["as-often", "often", "once:now", "calm:1", "quiet"]
    assert await names(browser, order="flapping", **by) == flapping
    recent = ["as-often", "once:now", "often", "calm:1", "quiet"]
    assert await names(browser, order="recent", **by) == recent
    assert await names(browser, order="name", **by) == sorted(flapping)


@pytest.mark.parametrize("after", ["", "x", "-1:g", "1", "1:x", "\u0661:1:g", "9" * 20 + ":1:g"])
async def test_place_that_is_none(browser: Browser, after: str) -> None:
    query = {"order": "flapping", "after": after}
    assert await refusal(await browser.get("/v1/groups", params=query), 400) == "bad_request"


@pytest.mark.parametrize("order", ["recent", "flapping"])
async def test_others_are_served_while_groups_are_put_in_order(
    browser: Browser, view: NodeView, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    placed, place = PerTurn(), KnownGroups.place

    def count(self: KnownGroups, name: str, order: str) -> Place:
        placed.count += 1
        return place(self, name, order)

    monkeypatch.setattr(view, "group_names", lambda: [f"{number}" for number in range(100_000)])
    monkeypatch.setattr(KnownGroups, "place", count)
    await read(await browser.get("/v1/groups", params={"order": order, "limit": "100"}))
    assert placed.most == 500


async def test_groups_are_searched_by_a_part_of_their_names(
    browser: Browser, world: WatchedWorld, node: Node
) -> None:
    fill(world, node, "Orders-EU", "orders-us", "mail", "100%")
    assert await names(browser, q="ORDERS") == ["Orders-EU", "orders-us"]
    assert await names(browser, q="orders", limit="1") == ["Orders-EU", "orders-us"]
    assert await names(browser, q="%") == ["100%"]
    assert await names(browser, q="none") == []


# -- offsets ---------------------------------------------------------------------------------------


async def test_committed_offsets_are_shown(browser: Browser, world: WatchedWorld) -> None:
    world.commit({("t", 1): 7})
    world.sleep(SECOND_MS)
    world.commit({("t", 0): 5})
    assert await read(await browser.get("/v1/groups/g/offsets")) == {
        "group": "g",
        "now_ms": world.now_ms,
        "offsets": [
            {
                "topic": "t",
                "partition": 0,
                "offset": 5,
                "metadata": "",
                "committed_ms": world.now_ms,
            },
            {
                "topic": "t",
                "partition": 1,
                "offset": 7,
                "metadata": "",
                "committed_ms": world.now_ms - SECOND_MS,
            },
        ],
    }


async def test_others_are_served_while_offsets_are_shown(
    browser: Browser, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topics["t"] = 10_000
    world.commit({("t", partition): 1 for partition in range(10_000)})
    made, make = PerTurn(), BundleRow.offset_at

    def count(self: BundleRow, at: int) -> OffsetRow:
        made.count += 1
        return make(self, at)

    monkeypatch.setattr(BundleRow, "offset_at", count)
    answer = await read(await browser.get("/v1/groups/g/offsets"))
    assert len(answer["offsets"]) == 10_000
    assert 0 < made.most <= 2_000


async def test_offsets_of_no_group_are_not_found(browser: Browser) -> None:
    assert await refusal(await browser.get("/v1/groups/g/offsets"), 404) == "group_not_found"
