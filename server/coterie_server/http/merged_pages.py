"""One page of the list of groups, put together of what several nodes have on theirs."""

from __future__ import annotations

import asyncio
import heapq
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from coterie_server.http.groups import (
    BY_NAME,
    PAGE_BYTES,
    RECENT_FIRST,
    ROWS_AT_ONCE,
    PageQuery,
    Place,
    read_place,
    write_place,
)

__all__ = ["merged_pages"]

_read_row: Final = json.JSONDecoder().raw_decode
#: Behind the last row comes something else, which may have any braces: the name of a group.
_BEFORE_ROW: Final = re.compile(r"[\s,]*(?={)")


async def merged_pages(pages: Sequence[bytes], query: PageQuery) -> bytes:
    """One page of what several nodes have on the same page, as long as one of them at most.

    A node may have ended its page early, so nothing is shown beyond what all of them have shown.
    Only the lines that are shown are read, and some at a time, as nodes may have very many.
    """
    texts = [page.decode() for page in pages]
    ends = (end for text in texts if (end := _end_of(text, query.order)) is not None)
    upto = min(ends, default=None)
    is_more, last, rows, size = upto is not None, upto, list[str](), 0
    lines = heapq.merge(*(_lines_of(text, query.order) for text in texts), key=lambda line: line[0])
    for count, (place, row) in enumerate(lines, start=1):
        if count % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if (upto is not None and place > upto) or (rows and place == last):
            continue  # Two nodes may have a group that goes from one to the other.
        if len(rows) == query.limit or size >= PAGE_BYTES:
            is_more = True
            break
        rows.append(row)
        size, last = size + len(row), place
    following = write_place(last) if is_more and last is not None else None
    return f'{{"groups":[{",".join(rows)}],"next":{json.dumps(following)}}}'.encode()


def _end_of(page: str, order: str) -> Place | None:
    """Where the next page begins, if there is one: it comes last, and no name has bare quotes."""
    following, _ = _read_row(page.rpartition('"next":')[2].lstrip())
    return None if following is None else read_place(following, order)


def _lines_of(page: str, order: str) -> Iterator[tuple[Place, str]]:
    """The lines of a page, each with its place."""
    at = page.index("[") + 1
    while before := _BEFORE_ROW.match(page, at):
        row, at = _read_row(page, before.end())
        yield _place_of(row, order), page[before.end() : at]


def _place_of(row: Mapping[str, Any], order: str) -> Place:
    """Where another node has this line of a list."""
    name = row["group"]
    if order == BY_NAME:
        return (name,)
    last = row["last_rebalance"]
    started_ms = 0 if last is None else last["started_ms"]
    if order == RECENT_FIRST:
        return -started_ms, name
    return -row["rebalances_last_hour"], -started_ms, name
