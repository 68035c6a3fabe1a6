"""docs/http.md lists every path and every field, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie_server.backfill import Backfill
from coterie_server.http import (
    NodeView,
    create_app,
)
from tests.server.http.pages import Browser, read
from tests.support.watched_world import SECOND_MS, WatchedWorld

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_path_is_documented(view: NodeView, world: WatchedWorld) -> None:
    app = create_app(view, Backfill(world.history, None, 0), world.metrics)
    routes = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", PAGE, flags=re.MULTILINE)) == routes


@pytest.mark.asyncio
async def test_every_field_is_documented(browser: Browser, world: WatchedWorld) -> None:
    first, _ = world.pair()
    world.member("c").join()
    first.join()
    world.live(60 * SECOND_MS, first)
    first.sync({})
    first.join()
    world.member("d").join()
    values = await read(await browser.get("/v1/groups/g"))
    shown = {
        *values,
        *values["members"][0],
        *values["awaiting"],
        *values["rebalances"][0],
        *values["rebalances"][0]["late"][0],
        *values["rebalances"][0]["came"],
    }
    assert {name for name in shown if f"`{name}`" not in PAGE} == set()


@pytest.mark.asyncio
async def test_what_a_group_lacks_of_its_line_in_the_list_is_documented(
    browser: Browser, world: WatchedWorld
) -> None:
    world.pair()
    (line,) = (await read(await browser.get("/v1/groups")))["groups"]
    group = await read(await browser.get("/v1/groups/g"))
    said = re.search(r"^The fields of the list, but for (.+?), and these\.", PAGE, re.MULTILINE)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == set(line) - set(group)
