"""What a node tells of a group's past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coterie_server.backfill import Backfill
from coterie_server.http import NodeView, create_app
from coterie_server.journal import JournalWriter
from coterie_server.past import reading
from tests.server.http.pages import Browser, Node, read, refusal, view_of
from tests.server.past.told import numbers, owners_at
from tests.support.watched_world import SECOND_MS, WatchedWorld

pytestmark = pytest.mark.asyncio

PAST = "/v1/groups/g/past"


@pytest.fixture
def journal(tmp_path: Path, world: WatchedWorld) -> Iterator[JournalWriter]:
    """The journal of the world's coordinator."""
    writer = JournalWriter(
        tmp_path / "journal",
        "1",
        segment_bytes=4_000,
        segment_ms=10**9,
        retention_ms=-1,
        clock=lambda: world.now_ms,
    )
    observe = world.observe

    def observe_and_write(ts_ms: int, event: Any) -> None:
        observe(ts_ms, event)
        writer.observe(ts_ms, event)

    world.observe = observe_and_write  # type: ignore[method-assign]
    yield writer
    writer.close()


@pytest.fixture
def view(node: Node, journal: JournalWriter) -> NodeView:
    """What the pages see of the node."""
    return view_of(node, journal)


async def test_who_owned_what_is_told_for_every_moment(
    browser: Browser, world: WatchedWorld
) -> None:
    first, second = world.pair()
    shared_ms = world.now_ms
    world.sleep(2 * SECOND_MS)
    second.leave()
    left_ms = world.now_ms
    world.sleep(2 * SECOND_MS)
    values = await read(await browser.get(PAST))
    pair = {("t", number): {first.id if number % 2 == 0 else second.id} for number in range(4)}
    assert owners_at(values, shared_ms + 1) == pair
    assert owners_at(values, left_ms - 1) == pair
    rest = {place: owners for place, owners in pair.items() if owners == {first.id}}
    assert owners_at(values, left_ms) == rest
    (gap,) = [each for each in values["spans"] if each["until_ms"] is None]
    assert (gap["kind"], numbers(gap["partitions"]), gap["from_ms"]) == ("gap", {1, 3}, left_ms)


async def test_its_rebalances_are_those_of_the_group_s_page(
    browser: Browser, world: WatchedWorld
) -> None:
    world.cooperative_hand_over()
    group = await read(await browser.get("/v1/groups/g"))
    past = await read(await browser.get(PAST))
    assert past["rebalances"] == group["rebalances"]


async def test_members_are_told_with_their_times(browser: Browser, world: WatchedWorld) -> None:
    _, second = world.pair()
    world.sleep(SECOND_MS)
    second.leave()
    world.sleep(SECOND_MS)
    (gone,) = [
        each
        for each in (await read(await browser.get(PAST)))["members"]
        if each["member"] == second.id
    ]
    assert gone["ended"] == "left"
    assert gone["from_ms"] < gone["until_ms"] == world.now_ms - SECOND_MS
    assert gone["client_id"] == "b"


async def test_a_group_that_was_quiet_for_all_of_the_time_has_what_it_has_now(
    browser: Browser, world: WatchedWorld, journal: JournalWriter
) -> None:
    first, second = world.pair()
    journal.flush()
    for path in journal.directory.iterdir():
        path.unlink()
    values = await read(await browser.get(PAST))
    assert values["generations"][0]["from_ms"] == values["since_ms"]
    owners = owners_at(values, world.now_ms)
    assert {place: owner for place, (owner,) in owners.items()} == {
        ("t", number): first.id if number % 2 == 0 else second.id for number in range(4)
    }
    assert {each["client_id"] for each in values["members"]} == {"a", "b"}


async def test_without_a_journal_only_the_present_is_told(world: WatchedWorld) -> None:
    world.pair()
    app = create_app(view_of(Node(world)), Backfill(world.history, None, 0), world.metrics)
    async with TestClient(TestServer(app)) as client:
        values = await read(await client.get(PAST))
        assert values["limit"] == "no_journal"
        assert values["since_ms"] == world.now_ms
        assert not (await read(await client.get("/v1/console")))["past"]


async def test_where_it_was_read_no_further_is_said(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    world.sleep(2 * SECOND_MS)
    values = await read(await browser.get(f"{PAST}?since_ms=0"))
    assert values["limit"] == "complete"
    later = await read(await browser.get(f"{PAST}?since_ms={world.now_ms - 1}"))
    assert later["limit"] == "asked"
    assert later["since_ms"] == world.now_ms - 1


@pytest.mark.parametrize("query", ["since_ms=x", "until_ms=-1", "since_ms=9&until_ms=9"])
async def test_times_that_make_no_sense_are_refused(browser: Browser, query: str) -> None:
    assert await refusal(await browser.get(f"{PAST}?{query}"), 400) == "bad_request"


async def test_a_group_that_does_not_exist(browser: Browser) -> None:
    assert await refusal(await browser.get(PAST), 404) == "group_not_found"


async def test_what_takes_too_long_is_given_up(
    browser: Browser, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pair()
    monkeypatch.setattr(reading, "_SECONDS_MAX", 0.0)
    assert await refusal(await browser.get(PAST), 503) == "too_much"


async def test_an_unreadable_journal_is_said(
    browser: Browser, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pair()

    def fail(_: Path) -> list[Any]:
        raise OSError("the disk is gone")

    monkeypatch.setattr(reading, "list_segments", fail)
    assert (await read(await browser.get(PAST)))["limit"] == "unreadable"
