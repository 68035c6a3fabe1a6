"""Nothing is shown that a crash could undo, or that another node may know better."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.server.http.pages import Browser, Node, read, refusal
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

#: Those about a group that the node has, but for the lists, which leave out what they can't tell.
PAGES = ["/v1/groups/g", "/v1/groups/g/offsets", "/v1/groups/g/owners"]
ALL_PAGES = [*PAGES, "/v1/groups"]


@pytest.mark.parametrize("page", PAGES)
async def test_page_waits_until_what_it_shows_is_durable(
    page: str, node: Node, world: WatchedWorld, browser: Browser
) -> None:
    world.pair()
    node.store_works.clear()
    asking = asyncio.ensure_future(browser.get(page))
    await asyncio.wait([asking], timeout=0.05)
    assert not asking.done()
    # Others are served meanwhile.
    assert (await browser.get("/v1/groups")).status == 200
    node.store_works.set()
    assert (await asking).status == 200


@pytest.mark.parametrize("page", PAGES)
async def test_page_shows_nothing_that_was_not_stored(
    page: str, node: Node, world: WatchedWorld, browser: Browser
) -> None:
    world.pair()
    node.is_durable = False
    assert await refusal(await browser.get(page), 503) == "not_ready"


@pytest.mark.parametrize("page", ALL_PAGES)
async def test_page_is_not_shown_while_another_node_may_have_the_groups(
    page: str, node: Node, world: WatchedWorld, browser: Browser
) -> None:
    world.pair()
    node.trust.until_s = 0
    assert (await browser.get(page)).status == 503


@pytest.mark.parametrize("page", ALL_PAGES)
async def test_page_is_shown_once_the_leases_are_confirmed(
    page: str, node: Node, world: WatchedWorld, browser: Browser
) -> None:
    """As after a pause of the node."""
    world.pair()
    asked = asyncio.Event()
    node.trust.until_s, node.trust.doubt = 0, asked.set
    asking = asyncio.ensure_future(browser.get(page))
    await asked.wait()
    node.trust.extend(node.trust.now_s(), 60_000)
    node.trust.decide()
    answer = await asking
    assert answer.status == 200
    assert await read(answer)


class Shard:
    """A shard of the node, that has what is not durable yet."""

    shard, fence_number = 0, 1
    is_owned = is_served = True
    is_durable = False

    def __init__(self, node: Node) -> None:
        self._node = node

    async def until_durable(self) -> bool:
        """Wait for the store, which then has it."""
        return await self._node.until_durable()


@pytest.mark.parametrize("form", ["page", "jsonl"])
async def test_list_waits_until_what_it_shows_is_durable(
    form: str, node: Node, world: WatchedWorld, browser: Browser
) -> None:
    world.pair()
    node.shards = cast("Any", (Shard(node),))
    node.store_works.clear()

    async def ask() -> str:
        answer = await browser.get(f"/v1/groups?format={form}")
        return await answer.text()

    asking = asyncio.ensure_future(ask())
    await asyncio.wait([asking], timeout=0.05)
    assert not asking.done()
    node.store_works.set()
    assert '"group":"g"' in await asking
