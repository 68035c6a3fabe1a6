"""One page of what several nodes have on the same page."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from coterie_server.http.groups import PageQuery, merged_pages


def page_of(names: list[str], limit: int, after: str | None) -> bytes:
    """The page of one node."""
    left = sorted(name for name in names if after is None or name > after)
    following = left[limit - 1] if len(left) > limit else None
    return json.dumps({"groups": [{"group": n} for n in left[:limit]], "next": following}).encode()


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
        pages = [page_of(names, max(limit - shorter, 1), after) for names in nodes]
        page = json.loads(merged_pages(pages, PageQuery(limit)))
        assert len(page["groups"]) <= limit
        found += [row["group"] for row in page["groups"]]
        after = page["next"]
        if after is None:
            break
    assert found == sorted({name for names in nodes for name in names})
