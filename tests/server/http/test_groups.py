"""What the HTTP pages show of groups."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from coterie_protocol.journal import CAUSES
from coterie_protocol.messages import DeleteGroupsRequest
from coterie_server.backfill import Backfill
from coterie_server.group import Group
from coterie_server.http import (
    GroupView,
    HttpServer,
    NodeView,
    create_app,
)
from coterie_server.turns import Unfinished, begin
from tests.server.http.pages import Browser, Node, read, refusal
from tests.support.group_harness import assigned
from tests.support.turns import PerTurn, finished
from tests.support.warm_groups import warm_pair
from tests.support.watched_world import SECOND_MS, WatchedWorld

pytestmark = pytest.mark.asyncio


async def test_groups_are_listed_by_name(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    world.member("x", group="zoo").join()
    world.commit({("t", 0): 1}, group_id="apart")
    values = await read(await browser.get("/v1/groups"))
    assert values["groups"] == [
        {
            "group": "apart",
            "state": "Empty",
            "generation": 0,
            "type": None,
            "protocol": None,
            "members": 0,
            "partitions": 0,
            "last_rebalance": None,
            "rebalances_last_hour": 0,
        },
        {
            "group": "g",
            "state": "Stable",
            "generation": 2,
            "type": "consumer",
            "protocol": "range",
            "members": 2,
            "partitions": 4,
            "last_rebalance": {
                "started_ms": world.now_ms,
                "ended_ms": world.now_ms,
                "outcome": "completed",
                "cause": "member_joined",
                "because": CAUSES["member_joined"],
                "stopped_partition_seconds": 0.0,
            },
            "rebalances_last_hour": 2,
        },
        {
            "group": "zoo",
            "state": "PreparingRebalance",
            "generation": 0,
            "type": "consumer",
            "protocol": None,
            "members": 1,
            "partitions": None,
            "last_rebalance": {
                "started_ms": world.now_ms,
                "ended_ms": None,
                "outcome": "running",
                "cause": "member_joined",
                "because": CAUSES["member_joined"],
                "stopped_partition_seconds": None,
            },
            "rebalances_last_hour": 1,
        },
    ]


def viewed(group: Group, until_ms: int | None, date_of: Callable[[int], int]) -> GroupView:
    """A group in full."""
    shown = finished(begin(GroupView.of(group, until_ms, date_of)))
    assert isinstance(shown, GroupView)
    return shown


def fill(world: WatchedWorld, *names: str) -> None:
    """Have groups of these names."""
    for name in names:
        world.commit({("t", 0): 1}, group_id=name)


async def walk(browser: Browser, limit: int) -> AsyncIterator[list[str]]:
    """The names on each page."""
    query = {"limit": str(limit)}
    while True:
        values = await read(await browser.get("/v1/groups", params=query))
        yield [group["group"] for group in values["groups"]]
        if values["next"] is None:
            return
        query["after"] = values["next"]


@pytest.mark.parametrize(
    ("limit", "pages"),
    [(2, [["a", "b"], ["c", "d&=/"], ["é"]]), (5, [["a", "b", "c", "d&=/", "é"]])],
)
async def test_groups_come_in_pages(
    browser: Browser, world: WatchedWorld, limit: int, pages: list[list[str]]
) -> None:
    """A page that is just full is not followed by an empty one."""
    fill(world, "c", "é", "a", "d&=/", "b")
    assert [page async for page in walk(browser, limit)] == pages


async def test_pages_of_no_groups(browser: Browser) -> None:
    assert await read(await browser.get("/v1/groups")) == {"groups": [], "next": None}


async def test_groups_that_come_and_go_between_pages(browser: Browser, world: WatchedWorld) -> None:
    fill(world, "b", "d", "f", "h")
    pages = walk(browser, 2)
    assert await anext(pages) == ["b", "d"]
    world.request(DeleteGroupsRequest(groups_names=("d",)), 2)
    fill(world, "a", "e")
    assert [page async for page in pages] == [["e", "f"], ["h"]]


async def test_group_that_goes_while_its_page_is_made(
    browser: Browser, node: Node, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page begins after it all the same."""
    fill(world, "a", "b", "c")
    monkeypatch.setattr(node, "group_names", lambda: ["a", "b", "b2", "c"])
    assert [page async for page in walk(browser, 3)] == [["a", "b"], ["c"]]


@pytest.mark.slow
async def test_page_of_long_names_is_shorter(browser: Browser, world: WatchedWorld) -> None:
    names = [f"{number:03}" + "x" * 30_000 for number in range(300)]
    fill(world, *names)
    pages = [page async for page in walk(browser, 300)]
    assert [len(page) for page in pages] == [140, 140, 20]
    assert [name for page in pages for name in page] == names


async def test_longest_name_can_be_asked_for(view: NodeView, world: WatchedWorld) -> None:
    """Kafka's clients may use names of 32,767 bytes."""
    server = HttpServer(create_app(view, Backfill(world.history, None, 0), world.metrics))
    await server.start("127.0.0.1", 0)
    try:
        async with ClientSession() as session:
            url = URL(
                f"http://127.0.0.1:{server.port}/v1/groups/" + "%C3%A9" * 16_383, encoded=True
            )
            async with session.get(url) as answer:
                assert await refusal(answer, 404) == "group_not_found"
    finally:
        await server.close()


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "x", "", "1e3", "٣", "9" * 5000])
async def test_limit_that_makes_no_sense(browser: Browser, limit: str) -> None:
    answer = await browser.get("/v1/groups", params={"limit": limit})
    assert await refusal(answer, 400) == "bad_request"


@pytest.mark.parametrize("form", ["page", "jsonl"])
async def test_others_are_served_while_a_list_is_made(
    browser: Browser,
    view: NodeView,
    node: Node,
    world: WatchedWorld,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    fill(world, "a")
    group = view.find("a")
    written = PerTurn()

    def count(_group_id: str) -> Group | None:
        written.count += 1
        return group

    monkeypatch.setattr(view, "group_names", lambda: [f"{number}" for number in range(10_000)])
    monkeypatch.setattr(node, "group", count)
    if form == "jsonl":
        text = await (await browser.get("/v1/groups?format=jsonl")).text()
        assert text.count("\n") == 10_000
    else:
        values = await read(await browser.get("/v1/groups?limit=10000"))
        assert len(values["groups"]) == 10_000
    assert written.most == 100


async def lines(browser: Browser, **query: str) -> list[dict[str, Any]]:
    """The list of all groups as lines."""
    answer = await browser.get("/v1/groups", params={"format": "jsonl", **query})
    assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
    return [json.loads(line) for line in (await answer.text()).splitlines()]


async def test_lines_have_what_pages_have(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    world.member("x", group='z"\n\\é').join()
    fill(world, "apart")
    values = await read(await browser.get("/v1/groups"))
    assert sorted(await lines(browser), key=lambda row: row["group"]) == values["groups"]


async def test_no_groups_are_no_lines(browser: Browser) -> None:
    assert await lines(browser) == []


async def test_groups_of_a_state_are_listed(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    fill(world, "a", "b", "c")
    assert [row["group"] for row in await lines(browser, state="stable")] == ["g"]
    values = await read(await browser.get("/v1/groups?state=Empty&limit=2"))
    assert ([row["group"] for row in values["groups"]], values["next"]) == (["a", "b"], "b")
    values = await read(await browser.get("/v1/groups?state=Empty&limit=2&after=b&state=Stable"))
    assert ([row["group"] for row in values["groups"]], values["next"]) == (["c", "g"], None)


@pytest.mark.parametrize("query", ["state=Bogus", "state=", "format=xml", "format=jsonl&state=x"])
async def test_state_or_format_that_there_is_not(browser: Browser, query: str) -> None:
    assert await refusal(await browser.get(f"/v1/groups?{query}"), 400) == "bad_request"


async def test_group_that_goes_while_lines_are_made(
    browser: Browser, node: Node, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world, "a", "c")
    monkeypatch.setattr(node, "group_names", lambda: ["a", "b", "c"])
    assert [row["group"] for row in await lines(browser)] == ["a", "c"]


async def test_group_shows_its_members_and_what_they_own(
    browser: Browser, world: WatchedWorld
) -> None:
    first, second = world.pair()
    world.sleep(SECOND_MS)
    first.heartbeat()
    world.commit({("u", 0): 5}, client=first, generation_id_or_member_epoch=2, member_id=first.id)
    values = await read(await browser.get("/v1/groups/g"))
    assert (values["state"], values["generation"], values["leader"]) == ("Stable", 2, first.id)
    assert (values["type"], values["protocol"]) == ("consumer", "range")
    assert (values["offsets"], values["awaiting"], values["rebalance"]) == (1, None, None)
    assert values["members"] == [
        {
            "member": first.id,
            "instance": None,
            "client_id": "a",
            "host": "10.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "since_ms": world.now_ms - SECOND_MS,
            "last_seen_ms": world.now_ms,
            "parked": False,
            "address": None,
            "labels": {},
            "away_since_ms": None,
            "away_until_ms": None,
            "owned": {"t": [0, 2]},
            "standbys": None,
            "warming": None,
            "lags": None,
            "targets": None,
        },
        {
            "member": second.id,
            "instance": None,
            "client_id": "b",
            "host": "10.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "since_ms": world.now_ms - SECOND_MS,
            "last_seen_ms": world.now_ms - SECOND_MS,
            "parked": False,
            "address": None,
            "labels": {},
            "away_since_ms": None,
            "away_until_ms": None,
            "owned": {"t": [1, 3]},
            "standbys": None,
            "warming": None,
            "lags": None,
            "targets": None,
        },
    ]


async def test_member_that_is_away_is_shown_as_such() -> None:
    world = WatchedWorld(static_registration_timeout_ms=60_000)
    first, _ = world.static_pair()
    world.live(15 * SECOND_MS, first)
    away = viewed(world.group(), None, int).members[1]
    since_ms = world.now_ms - 5 * SECOND_MS
    assert (away.away_since_ms, away.away_until_ms) == (since_ms, since_ms + 50 * SECOND_MS)


async def test_copies_of_state_are_shown_with_how_far_behind_they_are() -> None:
    world = WatchedWorld()
    owner, heir = warm_pair(world)
    view = viewed(world.group(), None, int)
    shown = {member.member: member for member in view.members}
    assert shown[heir.id].warming == {"t": (3,)}
    assert shown[heir.id].standbys == {"t": (0,)}
    assert shown[heir.id].targets == {"t": (3,)}
    assert shown[heir.id].lags == {"t": {"0": 7, "3": 1_234}}
    assert (shown[owner.id].warming, shown[owner.id].lags) == ({}, {})
    assert view.next_probing_ms == 99_000


async def test_owned_partitions_are_known_without_the_ledger() -> None:
    world = WatchedWorld(ownership_guard="off")
    world.pair()
    owned = [member.owned for member in viewed(world.group(), None, int).members]
    assert owned == [{"t": (0, 2)}, {"t": (1, 3)}]


async def test_member_without_partitions_owns_none(world: WatchedWorld) -> None:
    """None is not the same as unknown."""
    first, second = world.pair()
    first.join()
    second.join()
    first.sync({first: assigned("t", 0, 1, 2, 3)})
    assert [member.owned for member in viewed(world.group(), None, int).members] == [
        {"t": (0, 1, 2, 3)},
        {},
    ]


@pytest.mark.parametrize(
    ("attributes", "assignment"),
    [({"protocol_type": "connect"}, assigned("t", 0)), ({"metadata": b"?"}, b"\x00")],
)
async def test_owned_partitions_that_cannot_be_read_are_unknown(
    world: WatchedWorld, attributes: dict[str, Any], assignment: bytes
) -> None:
    worker = world.member("a", **attributes)
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: assignment})
    assert viewed(world.group(), None, int).members[0].owned is None


async def test_times_are_shown_as_dates(world: WatchedWorld) -> None:
    """Also after the clock was set."""
    world.pair()
    hour_ms = 3_600_000
    shown = viewed(world.group(), world.now_ms, lambda now_ms: now_ms + hour_ms)
    assert {member.last_seen_ms for member in shown.members} == {
        member.last_seen_ms + hour_ms for member in world.group().members.values()
    }


async def test_group_shows_whom_it_waits_for(browser: Browser, world: WatchedWorld) -> None:
    first, second = world.pair(rebalance_ms=60_000)
    began_ms = world.now_ms
    first.join()
    third = world.member("c")
    third.join_once()
    values = await read(await browser.get("/v1/groups/g"))
    assert values["state"] == "PreparingRebalance"
    assert values["awaiting"] == {
        "phase": "join",
        "members": [second.id],
        "unclaimed": [third.id],
        "initial_delay": False,
        "until_ms": began_ms + 60_000,
    }
    assert [member["parked"] for member in values["members"]] == [True, False]


async def test_group_shows_the_members_that_have_not_synced(
    browser: Browser, world: WatchedWorld
) -> None:
    first, second = world.pair(rebalance_ms=60_000)
    first.join()
    second.join()
    second.sync()
    values = await read(await browser.get("/v1/groups/g"))
    assert values["state"] == "CompletingRebalance"
    assert (values["awaiting"]["phase"], values["awaiting"]["members"]) == ("sync", [first.id])


async def test_initial_delay_is_told_from_waiting() -> None:
    """While a new group waits for more members, none is missing."""
    world = WatchedWorld(initial_rebalance_delay_ms=3 * SECOND_MS)
    world.member("a").join()
    awaiting = viewed(world.group(), None, int).awaiting
    assert awaiting is not None
    assert (awaiting.initial_delay, awaiting.members) == (True, ())


async def test_group_shows_its_last_rebalances(browser: Browser, world: WatchedWorld) -> None:
    first, second = world.pair()
    began_ms = world.now_ms
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(SECOND_MS)
    world.share(first, second)
    values = await read(await browser.get("/v1/groups/g"))
    assert [each["generation"] for each in values["rebalances"]] == [3, 2, 1]
    assert values["rebalances"][0] == {
        "outcome": "completed",
        "cause": "leader_rejoined",
        "because": CAUSES["leader_rejoined"],
        "detail": first.id,
        "from_state": "Stable",
        "generation": 3,
        "follows": None,
        "started_ms": began_ms,
        "joined_ms": began_ms + SECOND_MS,
        "ended_ms": began_ms + 2 * SECOND_MS,
        "prepare_ms": SECOND_MS,
        "complete_ms": SECOND_MS,
        "total_ms": 2 * SECOND_MS,
        "protocol": "range",
        "leader": first.id,
        "members": 2,
        "came": {"count": 0, "names": []},
        "went": {"count": 0, "names": []},
        "dropped": {"count": 0, "names": []},
        "awaited": {"count": 1, "names": [second.id]},
        "late": [
            {
                "member": second.id,
                "instance": None,
                "host": "10.0.0.1",
                "after_ms": SECOND_MS,
                "how": "joined",
            }
        ],
        "moved": 0,
        "revoked": 0,
        "needs_rejoin": False,
        "waiting_moves": {"count": 0, "names": []},
        "stopped_partition_seconds": 2 * 2 + 2 * 1,
        "silent_partition_seconds": 0,
    }


async def test_running_rebalance_is_shown_apart(browser: Browser, world: WatchedWorld) -> None:
    first, _ = world.pair()
    first.join()
    values = await read(await browser.get("/v1/groups/g"))
    assert (values["rebalance"]["outcome"], values["rebalance"]["total_ms"]) == ("running", None)
    assert len(values["rebalances"]) == 2


async def test_unknown_group_is_not_found(browser: Browser) -> None:
    assert await refusal(await browser.get("/v1/groups/nope"), 404) == "group_not_found"


@pytest.mark.parametrize(
    "name", ["a/b", "a%2Fb", "größe 1", "x?y#z", "a+b", '"', "{7}{{7}}", "watch", "a\n\u202eb"]
)
async def test_group_of_any_name_can_be_asked_for(
    browser: Browser, world: WatchedWorld, name: str
) -> None:
    world.form(world.member("a", group=name))
    escaped = "".join(f"%{byte:02X}" for byte in name.encode())
    values = await read(await browser.get(URL(f"/v1/groups/{escaped}", encoded=True)))
    assert values["group"] == name


async def test_a_group_of_very_many_members_is_viewed_in_pieces(world: WatchedWorld) -> None:
    for number in range(300):
        world.member(f"m{number}", group="crowd").join()
    viewing = begin(GroupView.of(world.group("crowd"), None, int))
    assert isinstance(viewing, Unfinished)
    assert len(finished(viewing).members) == 300
