"""Groups as the HTTP pages show them, as JSON: lists of them, and one in full.

JSON of many groups or members is made a piece at a time, while the event loop serves others.
A page of the list has the groups that come next by name, whatever came and went since the page
before: a group that exists all the time is on exactly one page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

from multidict import MultiMapping

from coterie_protocol.journal import CAUSES
from coterie_server.group import GroupState
from coterie_server.group.group import CONSUMER
from coterie_server.http.answers import bad_request

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from coterie_server.group import Group, OffsetRow
    from coterie_server.history import History, RebalanceRecord
    from coterie_server.http.group_view import GroupView
    from coterie_server.turns import Making

__all__ = [
    "BY_NAME",
    "LIMIT_DEFAULT",
    "LIMIT_MAX",
    "PAGE_BYTES",
    "RECENT_FIRST",
    "ROWS_AT_ONCE",
    "GroupSummary",
    "KnownGroups",
    "PageQuery",
    "Place",
    "finish",
    "group_in_full",
    "lines_of_groups",
    "offsets_in_full",
    "page_of_groups",
    "read_place",
    "write_place",
]

T = TypeVar("T")

LIMIT_DEFAULT: Final = 1000
LIMIT_MAX: Final = 10_000

#: A page ends with the group that makes it this long: names may have 32,767 characters.
PAGE_BYTES: Final = 4_194_304

#: How many names are compared, how many groups are put in order by what they did, and how many
#: groups or members are written, before other tasks get a turn; each takes a millisecond or two.
_NAMES_AT_ONCE: Final = 2000
_PLACES_AT_ONCE: Final = 500
ROWS_AT_ONCE: Final = 100

BY_NAME: Final = "name"
RECENT_FIRST: Final = "recent"
#: By how many numbers groups stand in each order, before their names: `flapping` has the groups
#: first that rebalanced most often in the last hour, and of these, those that did so last.
_NUMBERS: Final[Mapping[str, int]] = {BY_NAME: 0, RECENT_FIRST: 1, "flapping": 2}
_DIGITS_MAX: Final = 18

#: Where a group stands in a list: numbers, larger ones first and so negative, and its name.
Place = tuple[int | str, ...]
#: Finds a group; None if there is none of that name.
Find = Callable[[str], "Group | None"]

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
    #: How many partitions its members own; None if that is not known.
    partitions: int | None
    #: The rebalance that is going on, or the last one that the node knows.
    last_rebalance: RebalanceRecord | None
    rebalances_last_hour: int

    def json(self) -> str:
        """The summary as JSON: a tenth of the time that an encoder of dictionaries takes."""
        partitions = "null" if self.partitions is None else self.partitions
        return (
            f'{{"group":{_quote(self.group)},"state":"{self.state}","generation":{self.generation}'
            f',"type":{_quote_or_null(self.type)},"protocol":{_quote_or_null(self.protocol)}'
            f',"members":{self.members},"partitions":{partitions}'
            f',"last_rebalance":{_last_rebalance(self.last_rebalance)}'
            f',"rebalances_last_hour":{self.rebalances_last_hour}}}'
        )


def _quote_or_null(text: str | None) -> str:
    return "null" if text is None else _quote(text)


def _last_rebalance(record: RebalanceRecord | None) -> str:
    if record is None:
        return "null"
    ended = "null" if record.ended_ms is None else record.ended_ms
    stopped_ms = record.stopped_partition_ms
    stopped = "null" if stopped_ms is None else stopped_ms / 1000
    return (
        f'{{"started_ms":{record.started_ms},"ended_ms":{ended},"outcome":"{record.outcome.value}"'
        f',"cause":{_quote(record.cause)},"because":{_because(record.cause)}'
        f',"stopped_partition_seconds":{stopped}}}'
    )


@lru_cache(64)
def _because(cause: str) -> str:
    return _quote(CAUSES.get(cause, cause))


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The groups of this node, and what is known of each."""

    #: Finds a group; None if there is none of that name.
    find: Find
    history: History
    date_ms: Callable[[], int]

    def summary(self, group: Group) -> GroupSummary:
        """Summarize a group of the core."""
        row = group.row
        return GroupSummary(
            group=group.id,
            state=group.state.value,
            generation=row.generation,
            type=row.protocol_type,
            protocol=row.protocol_name,
            members=len(group.members),
            partitions=_partitions(group),
            last_rebalance=self.history.latest(group.id),
            rebalances_last_hour=self.history.last_hour(group.id, self.date_ms()),
        )

    def place(self, name: str, order: str) -> Place:
        """Where a group stands in a list."""
        if order == BY_NAME:
            return (name,)
        latest = self.history.latest(name)
        started_ms = 0 if latest is None else latest.started_ms
        if order == RECENT_FIRST:
            return -started_ms, name
        return -self.history.last_hour(name, self.date_ms()), -started_ms, name


def _partitions(group: Group) -> int | None:
    if group.row.protocol_type == CONSUMER and group.ledger.holdings:
        return len(group.ledger.holdings)
    return None if group.members else 0


# -- as JSON ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page of the list of groups is asked for."""

    limit: int = LIMIT_DEFAULT
    #: The page begins after this place; the first page after none.
    after: Place | None = None
    #: Only groups in these states; in any if there are none.
    states: frozenset[str] = frozenset()
    #: Only groups with this in their names, in upper or lower case.
    part: str = ""
    order: str = BY_NAME
    #: All groups in any order, a line for each, instead of a page.
    is_lines: bool = False

    @classmethod
    def read(cls, query: MultiMapping[str]) -> PageQuery:
        """Read the query of a URL, or raise `Refusal`."""
        limit = query.get("limit", str(LIMIT_DEFAULT))
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= len(str(LIMIT_MAX))):
            limit = "0"
        if not 1 <= int(limit) <= LIMIT_MAX:
            raise bad_request(f"limit must be a whole number from 1 to {LIMIT_MAX}.")
        form = query.get("format", "page")
        if form not in ("page", "jsonl"):
            raise bad_request("format must be page or jsonl.")
        states = frozenset(_state(each) for each in query.getall("state", []))
        order = query.get("order", BY_NAME)
        if order not in _NUMBERS:
            raise bad_request(f"order must be one of {', '.join(_NUMBERS)}.")
        after = None if "after" not in query else read_place(query["after"], order)
        part = query.get("q", "").casefold()
        return cls(int(limit), after, states, part, order, form == "jsonl")

    def names(self, name: str) -> bool:
        """Whether a group of this name may be listed."""
        return self.part in name.casefold() if self.part else True


def _state(text: str) -> str:
    for state in GroupState:
        if state.value.lower() == text.lower():
            return state.value
    known = ", ".join(state.value for state in GroupState)
    raise bad_request(f"state must be one of {known}.")


async def finish(making: Making[T]) -> T:
    """Make something piece by piece, while the event loop serves others."""
    while True:
        try:
            next(making)
        except StopIteration as made:
            whole: T = made.value
            return whole
        await asyncio.sleep(0)


def read_place(text: str, order: str) -> Place:
    """The place that a `next` of a page in this order says."""
    numbers: list[int] = []
    for _ in range(_NUMBERS[order]):
        number, _, text = text.partition(":")
        if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX):
            raise bad_request(f"after must be the next of a page with order={order}.")
        numbers.append(-int(number))
    return (*numbers, text)


def write_place(place: Place) -> str:
    """A place as the value of `after`."""
    *numbers, name = place
    return "".join(f"{-int(number)}:" for number in numbers) + str(name)


async def lines_of_groups(
    names: list[str], groups: KnownGroups, query: PageQuery
) -> AsyncIterator[bytes]:
    """The groups with these names, a line of JSON for each, in pieces of about a millisecond."""
    for begin in range(0, len(names), ROWS_AT_ONCE):
        some = names[begin : begin + ROWS_AT_ONCE]
        found = (groups.find(name) for name in some if query.names(name))
        rows = [f"{groups.summary(each).json()}\n" for each in found if _matches(each, query)]
        yield "".join(rows).encode()
        await asyncio.sleep(0)


def _matches(group: Group | None, query: PageQuery) -> TypeGuard[Group]:
    return group is not None and (not query.states or group.state.value in query.states)


async def page_of_groups(names: list[str], groups: KnownGroups, query: PageQuery) -> bytes:
    """A page of the groups with these names, as JSON, with the place of the next page."""
    places = await _next_places(names, groups, query)
    rows: list[str] = []
    size_bytes, upto = 0, 0
    for upto, place in enumerate(places[: query.limit], start=1):
        if upto % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        group = groups.find(str(place[-1]))
        if group is not None:  # or it was deleted meanwhile
            rows.append(groups.summary(group).json())
            size_bytes += len(rows[-1])
            if size_bytes >= PAGE_BYTES:
                break
    following = write_place(places[upto - 1]) if upto < len(places) else None
    return f'{{"groups":[{",".join(rows)}],"next":{_dumps(following)}}}'.encode()


async def group_in_full(group: GroupView, more: Mapping[str, Any]) -> bytes:
    """A group as JSON, with `more` fields."""
    members: list[str] = []
    for count, member in enumerate(group.members, start=1):
        members.append(_dumps(_shallow(member)))
        if count % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
    values = _shallow(group)
    del values["members"]
    values["operations"] = [_shallow(each) for each in group.operations]
    values["awaiting"] = None if group.awaiting is None else _shallow(group.awaiting)
    return f'{_dumps({**values, **more})[:-1]},"members":[{",".join(members)}]}}'.encode()


def _shallow(value: DataclassInstance) -> dict[str, Any]:
    """The fields by name; asdict would copy their values, deeply."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


async def _next_places(names: list[str], groups: KnownGroups, query: PageQuery) -> list[Place]:
    """The places on the page in order, and one more if another page follows."""
    after, best = query.after, list[Place]()
    at_once = _NAMES_AT_ONCE if query.order == BY_NAME else _PLACES_AT_ONCE
    for begin in range(0, len(names), at_once):
        some = names[begin : begin + at_once]
        if query.part:
            some = [name for name in some if query.names(name)]
        places = [groups.place(name, query.order) for name in some]
        if after is not None:
            places = [place for place in places if place > after]
        if len(best) > query.limit:
            last = best[-1]
            places = [place for place in places if place < last]
        if query.states:
            places = [each for each in places if _matches(groups.find(str(each[-1])), query)]
        best += places
        best.sort()
        del best[query.limit + 1 :]
        await asyncio.sleep(0)
    return best


async def offsets_in_full(group_id: str, rows: Iterable[OffsetRow], now_ms: int) -> bytes:
    """Committed offsets as JSON, by topic and partition."""
    topics: dict[str, list[OffsetRow]] = {}
    for count, row in enumerate(rows, start=1):
        topics.setdefault(row.topic, []).append(row)
        if count % _NAMES_AT_ONCE == 0:
            await asyncio.sleep(0)
    lines: list[str] = []
    for topic in sorted(topics):
        quoted = _quote(topic)
        ordered = sorted(topics[topic], key=lambda row: row.partition)
        for row in ordered:
            lines.append(
                f'{{"topic":{quoted},"partition":{row.partition},"offset":{row.offset}'
                f',"metadata":{_quote(row.metadata)},"committed_ms":{row.committed_at_ms}}}'
            )
            if len(lines) % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
    head = _dumps({"group": group_id, "now_ms": now_ms})
    return f'{head[:-1]},"offsets":[{",".join(lines)}]}}'.encode()
