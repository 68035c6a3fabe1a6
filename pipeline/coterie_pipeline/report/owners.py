"""How each owner appears in the charts: its colour, its name in short, and its number.

A process keeps its colour over its memberships.  The colour begins with a hash of its name, so that
it is the same in each report as far as possible; it moves on only where a process that it meets in
the chart, before, after, above or below, already has it.  The colours themselves are in
`report.css`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.model import Bar, Process, Row

__all__ = ["COLOURS", "Owner", "owners"]

#: How many there are; red is none of them, it means that something is wrong.
COLOURS: Final = 8

#: A beginning that all names share is left out of bars if it is as long as this.
_SHARED_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Owner:
    """How one holder appears."""

    colour: int
    #: The process: what is picked and filtered by.
    number: int
    name: str


def owners(rows: Sequence[Row], processes: Sequence[Process]) -> Mapping[str, Owner]:
    """Each holder in these rows and processes."""
    holders = _identities(rows, processes)
    colours = _colours(rows, holders)
    numbers = {identity: number for number, identity in enumerate(sorted(set(holders.values())))}
    shared = _shared(list(holders))
    return {
        holder: Owner(
            colours[identity], numbers[identity], words.short_name(holder[shared:]) or holder
        )
        for holder, identity in holders.items()
    }


def _identities(rows: Sequence[Row], processes: Sequence[Process]) -> dict[str, str]:
    """The process of each holder; where intervals and memberships disagree, these know better."""
    found = {bar.holder: bar.identity for row in rows for bar in row.bars}
    for process in processes:
        found |= {session.holder: process.identity for session in process.sessions}
    return found


def _shared(names: Sequence[str]) -> int:
    """How long the beginning is that tells nobody from anybody; it ends where a word does."""
    if len(names) < 2:
        return 0
    pairs = zip(min(names), max(names), strict=False)
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    ends = max(common.rfind(mark) for mark in "-_./@: ") + 1
    return ends if ends >= _SHARED_MIN else 0


def _colours(rows: Sequence[Row], holders: Mapping[str, str]) -> Mapping[str, int]:
    meets: dict[str, set[str]] = {identity: set() for identity in holders.values()}
    for pair in _meetings(rows):
        one, other = (holders[holder] for holder in pair)
        if one != other:
            meets[one].add(other)
            meets[other].add(one)
    chosen: dict[str, int] = {}
    # Those who meet most have the least choice, so they choose first.
    for identity in sorted(meets, key=lambda each: (-len(meets[each]), each)):
        taken = [chosen[other] for other in sorted(meets[identity]) if other in chosen]
        wanted = zlib.crc32(identity.encode(errors="replace")) % COLOURS
        order = [(wanted + step) % COLOURS for step in range(COLOURS)]
        chosen[identity] = min(order, key=taken.count)
    return chosen


def _meetings(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Pairs of holders that lie side by side."""
    for row in rows:
        for bar, following in pairwise(row.bars):
            yield bar.holder, following.holder
    for upper, lower in pairwise(rows):
        yield from _side_by_side(upper.bars, lower.bars)


def _side_by_side(upper: Sequence[Bar], lower: Sequence[Bar]) -> Iterator[tuple[str, str]]:
    """Pairs that own one of two partitions each at one time; both rows are in order."""
    above, below = 0, 0
    while above < len(upper) and below < len(lower):
        one, other = upper[above], lower[below]
        if one.from_ms < other.to_ms and other.from_ms < one.to_ms:
            yield one.holder, other.holder
        if one.to_ms <= other.to_ms:
            above += 1
        else:
            below += 1
