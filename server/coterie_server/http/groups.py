"""Groups as the HTTP pages show them, as JSON: lists of them, and one in full.

JSON of many groups or members is made a piece at a time, while the event loop serves others.
A page of the list has the groups that come next by name, whatever came and went since the page
before: a group that exists all the time is on exactly one page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeGuard, TypeVar

from multidict import MultiMapping

from coterie_server.group import GroupState

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from coterie_server.group import Group
    from coterie_server.http.group_view import GroupView
    from coterie_server.turns import Making

__all__ = [
    "LIMIT_DEFAULT",
    "LIMIT_MAX",
    "GroupSummary",
    "PageQuery",
    "QueryError",
    "finish",
    "group_in_full",
    "lines_of_groups",
    "merged_pages",
    "page_of_groups",
]

T = TypeVar("T")

LIMIT_DEFAULT: Final = 1000
LIMIT_MAX: Final = 10_000

#: A page ends with the group that makes it this long: names may have 32,767 characters.
_PAGE_BYTES: Final = 4_194_304

#: How many names are compared, and how many groups or members are written, before other tasks get
#: a turn; either takes about two milliseconds.
_NAMES_AT_ONCE: Final = 2000
_ROWS_AT_ONCE: Final = 250

_dumps: Final = partial(json.dumps, separators=(",", ":"))
_quote: Final = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list of groups."""

    group: str
    state: str
    generation: int
    type: str | None
    protocol: str | None
    members: int

    @classmethod
    def of(cls, group: Group) -> Self:
        """Summarize a group of the core."""
        return cls(
            group=group.id,
            state=group.state.value,
            generation=group.generation,
            type=group.row.protocol_type,
            protocol=group.row.protocol_name,
            members=len(group.members),
        )

    def json(self) -> str:
        """The summary as JSON: a tenth of the time that an encoder of dictionaries takes."""
        return (
            f'{{"group":{_quote(self.group)},"state":"{self.state}","generation":{self.generation}'
            f',"type":{_quote_or_null(self.type)},"protocol":{_quote_or_null(self.protocol)}'
            f',"members":{self.members}}}'
        )


def _quote_or_null(text: str | None) -> str:
    return "null" if text is None else _quote(text)


# -- as JSON ---------------------------------------------------------------------------------------


class QueryError(Exception):
    """A query parameter is invalid; the text is a sentence that says what is expected."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page of the list of groups is asked for."""

    limit: int = LIMIT_DEFAULT
    #: The page begins after this name; the first page after none.
    after: str | None = None
    #: Only groups in these states; in any if there are none.
    states: frozenset[str] = frozenset()
    #: All groups in any order, a line for each, instead of a page.
    is_lines: bool = False

    @classmethod
    def read(cls, query: MultiMapping[str]) -> PageQuery:
        """Read the query of a URL, or raise `QueryError`."""
        limit = query.get("limit", str(LIMIT_DEFAULT))
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= len(str(LIMIT_MAX))):
            limit = "0"
        if not 1 <= int(limit) <= LIMIT_MAX:
            raise QueryError(f"limit must be a whole number from 1 to {LIMIT_MAX}.")
        form = query.get("format", "page")
        if form not in ("page", "jsonl"):
            raise QueryError("format must be page or jsonl.")
        states = frozenset(_state(each) for each in query.getall("state", []))
        return cls(int(limit), query.get("after"), states, form == "jsonl")


def _state(text: str) -> str:
    for state in GroupState:
        if state.value.lower() == text.lower():
            return state.value
    known = ", ".join(state.value for state in GroupState)
    raise QueryError(f"state must be one of {known}.")


async def finish(making: Making[T]) -> T:
    """Make something piece by piece, while the event loop serves others."""
    while True:
        try:
            next(making)
        except StopIteration as made:
            whole: T = made.value
            return whole
        await asyncio.sleep(0)


#: Finds a group; None if there is none of that name.
Find = Callable[[str], "Group | None"]


async def lines_of_groups(names: list[str], find: Find, query: PageQuery) -> AsyncIterator[bytes]:
    """The groups with these names, a line of JSON for each, in pieces of about a millisecond."""
    for begin in range(0, len(names), _ROWS_AT_ONCE):
        found = (find(name) for name in names[begin : begin + _ROWS_AT_ONCE])
        rows = [f"{GroupSummary.of(each).json()}\n" for each in found if _matches(each, query)]
        yield "".join(rows).encode()
        await asyncio.sleep(0)


def _matches(group: Group | None, query: PageQuery) -> TypeGuard[Group]:
    return group is not None and (not query.states or group.state.value in query.states)


async def page_of_groups(names: list[str], find: Find, query: PageQuery) -> bytes:
    """A page of the groups with these names, as JSON, with the name to ask for the next page."""
    names = await _next_names(names, find, query)
    rows: list[str] = []
    size_bytes, upto = 0, 0
    for upto, name in enumerate(names[: query.limit], start=1):
        if upto % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        group = find(name)
        if group is not None:  # or it was deleted meanwhile
            rows.append(GroupSummary.of(group).json())
            size_bytes += len(rows[-1])
            if size_bytes >= _PAGE_BYTES:
                break
    following = names[upto - 1] if upto < len(names) else None
    return f'{{"groups":[{",".join(rows)}],"next":{_dumps(following)}}}'.encode()


def merged_pages(pages: Sequence[bytes], limit: int) -> bytes:
    """One page of what several nodes have on the same page.

    A node may have ended its page early, so nothing is shown beyond what all of them have shown.
    """
    found = [json.loads(page) for page in pages]
    upto = min((page["next"] for page in found if page["next"] is not None), default=None)
    rows = {row["group"]: row for page in found for row in page["groups"]}
    shown = sorted(name for name in rows if upto is None or name <= upto)
    is_more = upto is not None or len(shown) > limit
    shown = shown[:limit]
    following = (shown[-1] if shown else upto) if is_more else None
    return _dumps({"groups": [rows[name] for name in shown], "next": following}).encode()


async def group_in_full(group: GroupView, more: Mapping[str, Any]) -> bytes:
    """A group as JSON, with `more` fields."""
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
    """The fields by name; asdict would copy their values, deeply."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


async def _next_names(names: list[str], find: Find, query: PageQuery) -> list[str]:
    """The names on the page in order, and one more if another page follows."""
    after, best = query.after, list[str]()
    for begin in range(0, len(names), _NAMES_AT_ONCE):
        some = names[begin : begin + _NAMES_AT_ONCE]
        if after is not None:
            some = [name for name in some if name > after]
        if len(best) > query.limit:
            last = best[-1]
            some = [name for name in some if name < last]
        if query.states:
            some = [name for name in some if _matches(find(name), query)]
        best += some
        best.sort()
        del best[query.limit + 1 :]
        await asyncio.sleep(0)
    return best
