"""Who owned what at every moment of a time, in as few words as that can be said.

A *period* says what each member has from a moment on.  Within a period, partitions lose their
owners only by a gap, so a period and the gaps in it tell who owns what at any moment: exactly what
the intervals of ownership tell, from which both are made.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from coterie_server.past.ranges import in_ranges

if TYPE_CHECKING:
    from coterie_server.past.marks import Mark

__all__ = ["Held", "Latest", "Period", "Span", "periods", "spans"]

#: How many intervals, and how many faults, are held at a time: some 50 megabytes of them.
ROWS_MAX: Final = 200_000

_SORTED_AT_ONCE: Final = 1_000


class Held(NamedTuple):
    """An interval in which a member had a partition; the latest end is the greatest."""

    until_ms: int
    since_ms: int
    topic: str
    partition: int
    member: str


class Fault(NamedTuple):
    """A time with two owners, none, or a silent one; the latest end is the greatest."""

    until_ms: int
    since_ms: int
    topic: str
    partition: int
    kind: str
    cause: str
    is_open: bool
    holders: tuple[str, ...]


_Row = TypeVar("_Row", Held, Fault)
_Sortable = TypeVar("_Sortable", int, Held, tuple[Any, ...])


@dataclass(slots=True)
class Latest:
    """The rows of a time, without the oldest if there are too many."""

    since_ms: int
    until_ms: int
    rows_max: int = ROWS_MAX
    held: list[Held] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def take_interval(self, row: dict[str, Any]) -> None:
        """Take in a row of the table of ownership."""
        if row["from_ms"] < row["to_ms"]:
            of_partition = row["topic"], row["partition"], row["member"]
            self._push(self.held, Held(row["to_ms"], row["from_ms"], *of_partition))

    def take_fault(self, row: dict[str, Any]) -> None:
        """Take in a row of the table of faults."""
        holders = row["holder"], row["next_holder"]
        if holders[0] == holders[1] and row["fault"] == "overlap":  # two processes of one instance
            holders = row["member"], row["next_member"]
        named = tuple(each for each in holders if each is not None)
        sure_ms = row["from_ms"] + row["sure_ms"]
        parts = [(row["fault"], row["from_ms"], row["to_ms"])]
        if row["fault"] == "overlap":
            parts = [
                ("overlap", row["from_ms"], sure_ms),
                ("possible_overlap", sure_ms, row["to_ms"]),
            ]
        for kind, since_ms, until_ms in parts:
            if since_ms < until_ms:
                fault = Fault(
                    until_ms, since_ms, row["topic"], row["partition"], kind, row["cause"],
                    row["is_open"], named,
                )  # fmt: skip
                self._push(self.faults, fault)

    def _push(self, rows: list[_Row], row: _Row) -> None:
        if row.until_ms <= self.since_ms or row.since_ms >= self.until_ms:
            return
        if len(rows) < self.rows_max:
            heapq.heappush(rows, row)
        else:
            self.since_ms = max(self.since_ms, heapq.heappushpop(rows, row).until_ms)


# -- periods -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Period:
    """What members had from one moment to another one, but for gaps."""

    from_ms: int
    #: None if it goes on.
    until_ms: int | None
    generation: int | None
    #: Whether that is all that they had.
    is_whole: bool
    #: By member and topic.
    owned: dict[str, dict[str, str]]


def periods(rows: Latest, closings: Sequence[Mark]) -> Iterator[Period]:
    """The periods of a time, the latest first."""
    later: Period | None = None
    for period in _between_turns(rows, closings):
        if later is not None and _says_the_same(period, later):
            later = replace(period, until_ms=later.until_ms)
            continue
        if later is not None:
            yield later
        later = period
    if later is not None:
        yield later


def _between_turns(rows: Latest, closings: Sequence[Mark]) -> Iterator[Period]:
    by_end = _latest_first(rows.held)
    dates = [each.at_ms for each in closings]
    alive: list[tuple[int, Held]] = []
    until_ms = None
    held = next(by_end, None)
    for at_ms in _turns(rows, dates):
        while held is not None and held.until_ms > at_ms:
            heapq.heappush(alive, (-held.since_ms, held))
            held = next(by_end, None)
        while alive and -alive[0][0] > at_ms:
            heapq.heappop(alive)
        place = bisect_right(dates, at_ms) - 1
        mark = closings[place] if place >= 0 else None
        if mark is not None or alive:
            generation = None if mark is None else mark.generation
            is_whole = mark is not None and mark.is_known
            owned = _by_member(each for _, each in alive)
            yield Period(at_ms, until_ms, generation, is_whole, owned)
        until_ms = at_ms


def _says_the_same(one: Period, other: Period) -> bool:
    follows = one.until_ms == other.from_ms
    return follows and replace(one, from_ms=0, until_ms=0) == replace(other, from_ms=0, until_ms=0)


def _turns(rows: Latest, dates: Iterable[int]) -> list[int]:
    """When it changes who has what, other than by the beginning of a gap; the latest first."""
    gaps = [each for each in rows.faults if each.kind == "gap"]
    into_gaps = {(each.topic, each.partition, each.since_ms) for each in gaps}
    turns = {rows.since_ms, *dates}
    turns.update(each.since_ms for each in rows.held)
    turns.update(each.until_ms for each in gaps)
    turns.update(
        each.until_ms
        for each in rows.held
        if (each.topic, each.partition, each.until_ms) not in into_gaps
    )
    inside = (each for each in turns if rows.since_ms <= each < rows.until_ms)
    return list(_latest_first(list(inside)))


def _latest_first(rows: Sequence[_Sortable]) -> Iterator[_Sortable]:
    """Rows in order, the greatest first.

    They are sorted in pieces of about a millisecond: Python's lock is held while a list is sorted.
    """
    begins = range(0, len(rows), _SORTED_AT_ONCE)
    pieces = [sorted(rows[begin : begin + _SORTED_AT_ONCE], reverse=True) for begin in begins]
    return heapq.merge(*pieces, reverse=True)


def _by_member(held: Iterable[Held]) -> dict[str, dict[str, str]]:
    numbers: dict[str, dict[str, list[int]]] = {}
    for each in held:
        of_member = numbers.setdefault(each.member, {})
        of_member.setdefault(each.topic, []).append(each.partition)
    return {
        member: {topic: in_ranges(owned) for topic, owned in sorted(topics.items())}
        for member, topics in sorted(numbers.items())
    }


# -- gaps and overlaps -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which partitions had two owners, none, or a silent one."""

    kind: str
    topic: str
    partitions: str
    from_ms: int
    #: None if it goes on.
    until_ms: int | None
    #: As in the table of faults.
    cause: str
    #: The instance ids or member ids of the two owners; of a gap, of the former one and the next.
    holders: tuple[str, ...]


def spans(rows: Latest) -> list[Span]:
    """All of them, those of several partitions as one; the latest first."""
    together: dict[tuple[Any, ...], list[int]] = {}
    for each in rows.faults:
        same = each.until_ms, each.since_ms, each.kind, each.topic, each.cause, each.is_open
        together.setdefault((*same, each.holders), []).append(each.partition)
    found = []
    for key in _latest_first(list(together)):
        until_ms, since_ms, kind, topic, cause, is_open, holders = key
        end_ms = None if is_open else until_ms
        partitions = in_ranges(together[key])
        found.append(Span(kind, topic, partitions, since_ms, end_ms, cause, holders))
    return found
