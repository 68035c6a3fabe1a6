"""Drains, pins and freezes that are asked for over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_server.http.standing_orders import ORDERS
from tests.server.http.pages import Browser, read, refusal
from tests.support.group_harness import Client
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

HOUR_MS = 3_600_000


@pytest.fixture
def members(world: WatchedWorld) -> tuple[Client, Client]:
    """A group of a dynamic and a static member, whose leader follows operations."""
    one = world.member("one", follows=True)
    two = world.member("two", follows=True, static="i2")
    world.form(one, two)
    return one, two


def path(name: str, group: str = "g") -> str:
    """Where an operation is asked for."""
    return f"/v1/groups/{group}/operations/{name}"


@pytest.mark.usefixtures("members")
async def test_drain_is_shown_with_the_group(browser: Browser, world: WatchedWorld) -> None:
    body = {"instance": "i2", "at_a_time": 1, "by": "ann", "reason": "disk errors"}
    values = await read(await browser.post(path("drain"), json=body))
    drain = {
        "operation": "drain",
        "member": None,
        "instance": "i2",
        "partitions": None,
        "at_a_time": 1,
        "left": 2,
        "by": "ann",
        "reason": "disk errors",
        "since_ms": world.now_ms,
        "until_ms": None,
        "followed": True,
    }
    assert values["operations"] == [drain]
    assert values["state"] == "PreparingRebalance"
    again = await read(await browser.get("/v1/groups/g"))
    assert again["operations"] == [drain]
    assert again["rebalance"]["cause"] == "drain"
    assert again["rebalance"]["detail"].endswith("asked for by ann: disk errors")


async def test_all_of_them_can_be_asked_for(
    browser: Browser, members: tuple[Client, Client]
) -> None:
    one, two = members
    some = {"partitions": {"t": [0, 1]}}
    bodies: dict[str, Any] = {
        "drain": {"member": one.id},
        "undrain": {"member": one.id},
        "pin": {"member": two.id, **some},
        "unpin": some,
        "keep-from": {"member": one.id, **some},
        "freeze": {"for_ms": 60_000},
        "unfreeze": {},
    }
    assert bodies.keys() == set(ORDERS)
    shown = []
    for name, body in bodies.items():
        values = await read(await browser.post(path(name), json=body))
        shown.append([each["operation"] for each in values["operations"]])
    assert shown == [
        ["drain"],
        [],
        ["pin"],
        [],
        ["keep-from"],
        ["keep-from", "freeze"],
        ["keep-from"],
    ]


async def test_pins_and_freezes_are_shown_with_what_is_particular_to_them(
    browser: Browser, world: WatchedWorld, members: tuple[Client, Client]
) -> None:
    one, _ = members
    await browser.post(path("pin"), json={"member": one.id, "partitions": {"t": [3, 1]}})
    values = await read(await browser.post(path("freeze")))
    pin, freeze = values["operations"]
    assert (pin["member"], pin["partitions"]) == (one.id, {"t": [1, 3]})
    assert freeze["until_ms"] == world.now_ms + HOUR_MS
    assert (pin["left"], freeze["at_a_time"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("drain", {}),
        ("drain", {"member": "a", "instance": "b"}),
        ("drain", {"member": ""}),
        ("drain", {"member": 7}),
        ("drain", {"member": "a", "at_a_time": -1}),
        ("drain", {"member": "a", "at_a_time": True}),
        ("drain", {"member": "a", "at_a_time": 2**31}),
        ("drain", {"member": "a", "partitions": {"t": [0]}}),
        ("drain", {"member": "a", "reason": "x" * 256}),
        ("drain", {"member": "a", "by": "two\nlines"}),
        ("pin", {"member": "a"}),
        ("pin", {"member": "a", "partitions": {}}),
        ("pin", {"member": "a", "partitions": [0]}),
        ("pin", {"member": "a", "partitions": {"t": 0}}),
        ("pin", {"member": "a", "partitions": {"t": [-1]}}),
        ("pin", {"member": "a", "partitions": {"t": [0.5]}}),
        ("pin", {"member": "a", "partitions": {"t": [[0]]}}),
        ("pin", {"member": "a", "partitions": {"t": list(range(10_001))}}),
        ("unpin", {"member": "a", "instance": "b", "partitions": {"t": [0]}}),
        ("freeze", {"for_ms": 0}),
        ("freeze", {"for_ms": "1h"}),
        ("freeze", {"for_ms": 2 * 86_400_000}),
        ("freeze", {"member": "a"}),
        ("freeze", []),
    ],
)
@pytest.mark.usefixtures("members")
async def test_body_that_makes_no_sense_is_refused(
    browser: Browser, world: WatchedWorld, name: str, body: Any
) -> None:
    assert await refusal(await browser.post(path(name), json=body), 400) == "bad_request"
    assert not world.group().operations


async def test_what_the_group_refuses_is_a_conflict(browser: Browser, world: WatchedWorld) -> None:
    java = world.member("java")
    world.form(java)
    answer = await browser.post(path("drain"), json={"member": java.id})
    assert await refusal(answer, 409) == "leader_cannot_follow"


@pytest.mark.usefixtures("members")
async def test_what_is_not_there_is_not_found(browser: Browser) -> None:
    body = {"instance": "i2", "partitions": {"t": [99]}}
    assert await refusal(await browser.post(path("freeze", "nope")), 404) == "group_not_found"
    answer = await browser.post(path("drain"), json={"instance": "nope"})
    assert await refusal(answer, 404) == "member_not_found"
    assert await refusal(await browser.post(path("pin"), json=body), 404) == "partition_not_found"
    assert await refusal(await browser.post(path("move"), json=body), 404) == "not_found"


@pytest.mark.usefixtures("members")
async def test_page_of_another_site_can_order_nothing(
    browser: Browser, world: WatchedWorld
) -> None:
    headers = {"Origin": "http://elsewhere.example"}
    answer = await browser.post(path("freeze"), headers=headers)
    assert await refusal(answer, 403) == "foreign_origin"
    answer = await browser.post(path("freeze"), headers={"Host": "evil.example:9080"})
    assert await refusal(answer, 403) == "unknown_host"
    assert not world.group().operations


async def test_console_offers_them(browser: Browser) -> None:
    values = await read(await browser.get("/v1/console"))
    assert set(ORDERS) <= set(values["operations"])
