"""One page of what several nodes have on the same page."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.http import merged_pages as merging
from coterie_server.http.groups import ROWS_AT_ONCE, PageQuery
from coterie_server.http.merged_pages import merged_pages


def page_of(names: list[str], limit: int, after: str | None) -> bytes:
    """The page of one node."""
    left = sorted(name for name in names if after is None or name > after)
    following = left[limit - 1] if len(left) > limit else None
    return json.dumps({"groups": [{"group": n} for n in left[:limit]], "next": following}).encode()


def merged(pages: list[bytes], limit: int) -> Any:
    """What they are together."""
    return json.loads(asyncio.run(merged_pages(pages, PageQuery(limit))))


@given(
    nodes=st.lists(st.lists(st.text(max_size=3), max_size=8), min_size=1, max_size=3),
    limit=st.integers(1, 4),
    shorter=st.integers(0, 2),
)
def test_pages_of_several_nodes_have_each_group_once(
    nodes: list[list[str]], limit: int, shorter: int
) -> None:
    """Also where a node ends its page before the limit, as it does when that would be too long."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = merged([page_of(names, max(limit - shorter, 1), after) for names in nodes], limit)
        assert len(page["groups"]) <= limit
        found += [row["group"] for row in page["groups"]]
        after = page["next"]
        if after is None:
            break
    assert found == sorted({name for names in nodes for name in names})


@pytest.mark.parametrize("name", ['],"next":null}', '{"group":"b"}', "{", "}]\\", "next"])
@pytest.mark.parametrize("limit", [1, 2])
def test_names_that_look_like_the_page_are_names(name: str, limit: int) -> None:
    """In the page's rows, and where the next page begins."""
    names = [name, f"{name}, too"]
    assert merged([page_of(names, limit, None), page_of([], limit, None)], limit) == {
        "groups": [{"group": each} for each in names[:limit]],
        "next": name if limit == 1 else None,
    }


def test_page_of_several_nodes_is_no_longer_than_that_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "PAGE_BYTES", 1000)
    nodes = [[f"{number:03}{node}" for number in range(100)] for node in "abc"]
    found: list[str] = []
    after: str | None = None
    while True:
        pages = [page_of(names, 50, after) for names in nodes]
        page = asyncio.run(merged_pages(pages, PageQuery(50)))
        assert len(page) < 1500
        found += [row["group"] for row in json.loads(page)["groups"]]
        after = json.loads(page)["next"]
        if after is None:
            break
    assert found == sorted(name for names in nodes for name in names)


def test_others_have_their_turns_while_long_pages_are_put_together() -> None:
    nodes = [[f"{number:05}{node}" for number in range(10 * ROWS_AT_ONCE)] for node in "abc"]
    turns = 0

    async def count(task: asyncio.Task[bytes]) -> None:
        nonlocal turns
        while not task.done():
            turns += 1
            await asyncio.sleep(0)

    async def merge() -> None:
        pages = [page_of(names, 10_000, None) for names in nodes]
        await count(asyncio.create_task(merged_pages(pages, PageQuery(10_000))))

    asyncio.run(merge())
    assert turns >= 30
