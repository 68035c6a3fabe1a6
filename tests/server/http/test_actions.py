"""What a group is to do, as operators ask over HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import MemberGone
from coterie_server.backfill import Backfill
from coterie_server.http import NodeView, TokenOptions, Tokens, create_app
from tests.server.http.pages import Browser, Node, read, refusal
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

REMOVE = "/v1/groups/g/members/remove"
RESET = "/v1/groups/g/offsets/reset"

Act = Callable[[Browser], Awaitable[ClientResponse]]


def acts() -> list[tuple[str, str, dict[str, Any] | None]]:
    return [
        ("POST", "/v1/groups/g/rebalance", None),
        ("POST", REMOVE, {"members": [{"instance": "one"}]}),
        ("POST", RESET, {"topic": "t", "to": 7}),
        ("DELETE", "/v1/groups/g", None),
    ]


# -- removing members ------------------------------------------------------------------------------


async def test_members_are_removed_with_one_rebalance(
    browser: Browser, world: WatchedWorld
) -> None:
    first, second = world.static_pair()
    named = [{"instance": "one"}, {"member": second.id}]
    values = await read(await browser.post(REMOVE, json={"members": named}))
    assert (values["state"], values["members"]) == ("Empty", [])
    assert world.causes.count("member_removed") <= 1
    gone = [each.how for each in world.events if isinstance(each, MemberGone)]
    assert gone == ["removed", "removed"]
    assert first.heartbeat().name == "UNKNOWN_MEMBER_ID"


async def test_others_rebalance_when_a_member_is_removed(
    browser: Browser, world: WatchedWorld
) -> None:
    first, second = world.pair()
    await read(await browser.post(REMOVE, json={"members": [{"member": first.id}]}))
    assert world.causes[-1] == "member_removed"
    assert list(world.group().members) == [second.id]


@pytest.mark.parametrize("named", [{"member": "none"}, {"instance": "none"}])
async def test_removal_is_whole_or_nothing(
    browser: Browser, world: WatchedWorld, named: dict[str, str]
) -> None:
    world.static_pair()
    answer = await browser.post(REMOVE, json={"members": [{"instance": "one"}, named]})
    assert await refusal(answer, 404) == "member_not_found"
    assert len(world.group().members) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"members": []}',
        b'{"members": "one"}',
        b'{"members": [1]}',
        b'{"members": [{}]}',
        b'{"members": [{"member": 1}]}',
        b'{"members": [{"member": "a", "instance": "b"}]}',
        b"[" * 100_000,
        b"\xff",
        json.dumps({"members": [{"member": "a"}] * 1001}).encode(),
    ],
)
async def test_body_that_makes_no_sense(browser: Browser, world: WatchedWorld, body: bytes) -> None:
    world.static_pair()
    assert await refusal(await browser.post(REMOVE, data=body), 400) == "bad_request"
    assert len(world.group().members) == 2


# -- resetting offsets -----------------------------------------------------------------------------


async def test_offsets_of_all_partitions_are_set(browser: Browser, world: WatchedWorld) -> None:
    world.commit({("t", 0): 5, ("u", 0): 9}, group_id="g")
    await read(await browser.post(RESET, json={"topic": "t", "to": 7}))
    kept = {key: row.offset for key, row in world.group().offsets.items()}
    assert {key: kept[key] for key in kept if key[0] == "t"} == {("t", n): 7 for n in range(4)}


async def test_offsets_of_some_partitions_are_deleted(
    browser: Browser, world: WatchedWorld
) -> None:
    world.commit({("t", 0): 5, ("t", 1): 6, ("t", 2): 7})
    body = {"topic": "t", "partitions": [1, 2, 3], "to": "delete"}
    await read(await browser.post(RESET, json=body))
    assert {key: row.offset for key, row in world.group().offsets.items()} == {("t", 0): 5}


async def test_what_was_reset_is_stored(browser: Browser, world: WatchedWorld) -> None:
    world.commit({("t", 0): 5, ("t", 1): 6})
    await read(await browser.post(RESET, json={"topic": "t", "partitions": [0], "to": 0}))
    body = {"topic": "t", "partitions": [1], "to": "delete"}
    await read(await browser.post(RESET, json=body))
    world.crash()
    assert {key: row.offset for key, row in world.group().offsets.items()} == {("t", 0): 0}


async def test_offsets_of_a_group_at_work_are_not_reset(
    browser: Browser, world: WatchedWorld
) -> None:
    world.pair()
    answer = await browser.post(RESET, json={"topic": "t", "to": 7})
    assert await refusal(answer, 409) == "group_not_empty"
    assert not world.group().offsets


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"topic": "none", "to": 1}, "topic_not_found"),
        ({"topic": "t", "partitions": [0, 4], "to": 1}, "partition_not_found"),
        ({"topic": "t", "partitions": [-1], "to": "delete"}, "partition_not_found"),
    ],
)
async def test_reset_of_what_is_not_there(
    browser: Browser, world: WatchedWorld, body: dict[str, Any], name: str
) -> None:
    world.commit({("t", 0): 5})
    assert await refusal(await browser.post(RESET, json=body), 404) == name
    assert world.group().offsets["t", 0].offset == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"topic": 1, "to": 1},
        {"topic": "t"},
        {"topic": "t", "to": -1},
        {"topic": "t", "to": 2**63},
        {"topic": "t", "to": 1.5},
        {"topic": "t", "to": True},
        {"topic": "t", "to": "5"},
        {"topic": "t", "to": 1, "partitions": 0},
        {"topic": "t", "to": 1, "partitions": ["0"]},
        {"topic": "t", "to": 1, "partitions": [True]},
    ],
)
async def test_reset_that_makes_no_sense(
    browser: Browser, world: WatchedWorld, body: dict[str, Any]
) -> None:
    world.commit({("t", 0): 5})
    assert await refusal(await browser.post(RESET, json=body), 400) == "bad_request"


# -- deleting --------------------------------------------------------------------------------------


async def test_empty_group_is_deleted_for_good(browser: Browser, world: WatchedWorld) -> None:
    world.commit({("t", 0): 5})
    assert await read(await browser.delete("/v1/groups/g")) == {"group": "g"}
    assert await refusal(await browser.get("/v1/groups/g"), 404) == "group_not_found"
    world.crash()
    assert "g" not in world.coordinator.groups


async def test_group_at_work_is_not_deleted(browser: Browser, world: WatchedWorld) -> None:
    world.pair()
    assert await refusal(await browser.delete("/v1/groups/g"), 409) == "group_not_empty"
    assert len(world.group().members) == 2


# -- all of them -----------------------------------------------------------------------------------


async def do(
    browser: Browser, act: tuple[str, str, dict[str, Any] | None], **headers: str
) -> ClientResponse:
    method, path, body = act
    sent = None if body is None else json.dumps(body)
    return await browser.request(method, path, headers=headers, data=sent)


@pytest.mark.parametrize("act", acts(), ids=str)
async def test_page_of_another_site_can_do_nothing(
    browser: Browser, world: WatchedWorld, act: tuple[str, str, dict[str, Any] | None]
) -> None:
    world.static_pair()
    before = world.group().row
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert await refusal(await do(browser, act, Origin=origin), 403) == "foreign_origin"
    assert await refusal(await do(browser, act, Host="evil.example"), 403) == "unknown_host"
    assert world.group().row is before


@pytest.mark.parametrize("act", acts(), ids=str)
async def test_group_that_is_none_can_do_nothing(
    browser: Browser, act: tuple[str, str, dict[str, Any] | None]
) -> None:
    assert await refusal(await do(browser, act), 404) == "group_not_found"


@pytest.mark.parametrize("act", acts(), ids=str)
async def test_node_that_does_not_serve_does_nothing(
    browser: Browser, node: Node, act: tuple[str, str, dict[str, Any] | None]
) -> None:
    node.trouble = "The node is stopping."
    assert await refusal(await do(browser, act), 503) == "not_ready"
    node.trouble, node.fault = "", CoterieError("The disk is full.")
    assert await refusal(await do(browser, act), 503) == "not_available"


@pytest.mark.parametrize("act", acts(), ids=str)
async def test_acting_takes_the_right_token(
    view: NodeView, world: WatchedWorld, act: tuple[str, str, dict[str, Any] | None]
) -> None:
    world.static_pair()
    tokens = Tokens(TokenOptions(read="r", admin="a"))
    app = create_app(view, Backfill(world.history, None, 0), world.metrics, tokens=tokens)
    async with TestClient(TestServer(app)) as browser:
        assert await refusal(await do(browser, act), 401) == "unauthorized"
        answer = await do(browser, act, Authorization="Bearer r")
        assert await refusal(answer, 403) == "forbidden"
        assert (await do(browser, act, Authorization="Bearer a")).status in (200, 409)
