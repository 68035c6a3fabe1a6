"""Groups as JSON, made a piece at a time, while the event loop serves others.

A page of the list has the groups that come next by name, whatever came and went since the page
before: a group that is there all the time is on exactly one page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from coterie_server.http.views import GroupView, NodeView

__all__ = [
    "LIMIT_DEFAULT",
    "LIMIT_MAX",
    "PageQuery",
    "QueryError",
    "group_in_full",
    "page_of_groups",
]

_dumps: Final = partial(json.dumps, separators=(",", ":"))

LIMIT_DEFAULT: Final = 1000
LIMIT_MAX: Final = 10_000

#: A page ends behind the group that makes it as long as this: names may have 32,767 characters.
_PAGE_BYTES: Final = 4_194_304

#: How many names are compared, and how many groups are written, before it is others' turn; either
#: takes about two milliseconds.
_NAMES_AT_ONCE: Final = 2000
_ROWS_AT_ONCE: Final = 200


class QueryError(Exception):
    """A question that makes no sense; the sentence says what is expected."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page is asked for."""

    limit: int = LIMIT_DEFAULT
    #: The page begins behind this name; the first page is the one behind no name.
    after: str | None = None

    @classmethod
    def read(cls, query: Mapping[str, str]) -> PageQuery:
        """What stands behind the question mark, or raise `QueryError`."""
        limit = query.get("limit", str(LIMIT_DEFAULT))
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= len(str(LIMIT_MAX))):
            limit = "0"
        if not 1 <= int(limit) <= LIMIT_MAX:
            raise QueryError(f"limit has to be a whole number from 1 to {LIMIT_MAX}.")
        return cls(int(limit), query.get("after"))


async def page_of_groups(node: NodeView, query: PageQuery) -> bytes:
    """The page as JSON: its groups, and behind which name the next page begins."""
    names = await _next_names(node.group_names(), query)
    rows: list[str] = []
    size_bytes, upto = 0, 0
    for upto, name in enumerate(names[: query.limit], start=1):
        if upto % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        summary = node.summary(name)
        if summary is not None:  # it may have gone meanwhile
            rows.append(_dumps(_shallow(summary)))
            size_bytes += len(rows[-1])
            if size_bytes >= _PAGE_BYTES:
                break
    following = names[upto - 1] if upto < len(names) else None
    return f'{{"groups":[{",".join(rows)}],"next":{_dumps(following)}}}'.encode()


async def group_in_full(group: GroupView, more: Mapping[str, Any]) -> bytes:
    """A group as JSON, as it was at one moment, and what else is told of it."""
    members: list[str] = []
    for count, member in enumerate(group.members, start=1):
        members.append(_dumps(_shallow(member)))
        if count % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
    values = _shallow(group)
    del values["members"]
    values["awaiting"] = None if group.awaiting is None else _shallow(group.awaiting)
    return f'{_dumps({**values, **more})[:-1]},"members":[{",".join(members)}]}}'.encode()


def _shallow(value: DataclassInstance) -> dict[str, Any]:
    """The fields by name, as they are; asdict would copy all that is in them."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


async def _next_names(names: list[str], query: PageQuery) -> list[str]:
    """The names of the page in order, and one more if there are more."""
    after, best = query.after, list[str]()
    for begin in range(0, len(names), _NAMES_AT_ONCE):
        some = names[begin : begin + _NAMES_AT_ONCE]
        if after is not None:
            some = [name for name in some if name > after]
        if len(best) > query.limit:
            last = best[-1]
            some = [name for name in some if name < last]
        best += some
        best.sort()
        del best[query.limit + 1 :]
        await asyncio.sleep(0)
    return best
