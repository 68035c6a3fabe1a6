"""The chart of ownership: a row for each partition, a bar for each owner.

A process keeps its colour over its memberships.  The colour starts from a hash of its name, so that
it is the same in each report as far as possible; another one is taken only where a process that it
meets in the chart, before, after, above or below, already has it.  The colours themselves are in
`report.css`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import Bar, Fault, GroupDetail, Process, Rebalance, Row
from coterie_pipeline.report.scale import Scale, plot

__all__ = ["COLOURS", "Owner", "gantt", "note", "owners", "tip"]

#: The number of colours; red is not among them, as it means that something is wrong.
COLOURS: Final = 8

#: A prefix that all names share is left out of bars from this length on.
_SHARED_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Owner:
    """How a holder appears."""

    colour: int
    #: The number of its process, by which the page selects and filters.
    number: int
    name: str


def owners(rows: Sequence[Row], processes: Sequence[Process]) -> Mapping[str, Owner]:
    """How each holder in these rows and processes appears."""
    holders = _identities(rows, processes)
    colours = _colours(rows, holders)
    numbers = {identity: number for number, identity in enumerate(sorted(set(holders.values())))}
    shared = _shared(list(holders))
    short = words.short_names([holder[shared:] or holder for holder in holders])
    return {
        holder: Owner(colours[identity], numbers[identity], short[holder[shared:] or holder])
        for holder, identity in holders.items()
    }


def _identities(rows: Sequence[Row], processes: Sequence[Process]) -> dict[str, str]:
    """The process of each holder, by memberships first and by intervals where there is none."""
    found = {bar.holder: bar.identity for row in rows for bar in row.bars}
    for process in processes:
        found |= {session.holder: process.identity for session in process.sessions}
    return found


def _shared(names: Sequence[str]) -> int:
    """The length of the prefix, up to the end of a word, that all names share."""
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
    # Those that meet most others have the least choice, so they choose first.
    for identity in sorted(meets, key=lambda each: (-len(meets[each]), each)):
        taken = [chosen[other] for other in sorted(meets[identity]) if other in chosen]
        wanted = zlib.crc32(identity.encode(errors="replace")) % COLOURS
        order = [(wanted + step) % COLOURS for step in range(COLOURS)]
        chosen[identity] = min(order, key=taken.count)
    return chosen


def _meetings(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Pairs of holders that are side by side in the chart."""
    for row in rows:
        for bar, following in pairwise(row.bars):
            yield bar.holder, following.holder
    for upper, lower in pairwise(rows):
        yield from _side_by_side(upper.bars, lower.bars)


def _side_by_side(upper: Sequence[Bar], lower: Sequence[Bar]) -> Iterator[tuple[str, str]]:
    """Pairs of holders of two neighbouring partitions at one time; both rows are sorted."""
    above, below = 0, 0
    while above < len(upper) and below < len(lower):
        one, other = upper[above], lower[below]
        if one.from_ms < other.to_ms and other.from_ms < one.to_ms:
            yield one.holder, other.holder
        if one.to_ms <= other.to_ms:
            above += 1
        else:
            below += 1


# -- the chart -------------------------------------------------------------------------------------


_HEIGHT: Final = 16
_BAR: Final = 12
_TOP: Final = 2

#: The least share of the chart at which a bar has room for letters of its owner's name.
_NAMED_MIN: Final = 0.015


def gantt(detail: GroupDetail, scale: Scale, owners: Mapping[str, Owner]) -> Markup:
    """The rows, with the times of rebalances behind them."""
    return element(
        "div",
        _behind(detail.rebalances, scale),
        *(_row(row, scale, owners) for row in detail.rows),
        class_="lanes rows",
    )


def _moments(rebalances: tuple[Rebalance, ...], scale: Scale) -> Iterator[Markup]:
    """A vertical line for each rebalance."""
    for rebalance in rebalances:
        at = scale.at(rebalance.started_ms)
        yield element("line", x1=at, x2=at, y1="0", y2="100%")


def tip(*lines: str | None) -> Markup:
    """What is shown of a shape that is pointed at."""
    return element("title", "\n".join(line for line in lines if line))


def _behind(rebalances: tuple[Rebalance, ...], scale: Scale) -> Markup:
    lines = element("svg", *_moments(rebalances, scale), class_="plot", width="100%", height="100%")
    window = element("svg", lines, class_="window", width="100%", height="100%")
    return element("div", window, class_="behind", aria_hidden="true")


def _row(row: Row, scale: Scale, owners: Mapping[str, Owner]) -> Markup:
    mark = element("b", "!", class_="alarm", title="owned twice") if row.overlaps else None
    label = element("span", mark, element("bdi", words.cut(row.name, 80)), class_="name")
    shapes = [
        *(_bar(bar, scale, owners[bar.holder]) for bar in row.bars),
        *(_tail(bar, scale, owners[bar.holder]) for bar in row.bars if bar.released_ms > bar.to_ms),
        *(_fault(fault, scale) for fault in sorted(row.faults, key=_layer)),
    ]
    return element(
        "div",
        element("div", label, class_="label", title=words.cut(row.name)),
        plot(_HEIGHT, _said(row), *shapes),
        class_="lane part",
        data_name=words.cut(row.name),
    )


def _said(row: Row) -> str:
    owners = len({bar.holder for bar in row.bars})
    parts = [f"{row.name}: {words.count(owners, 'owner')}"]
    if row.stopped_ms:
        parts.append(f"without an owner for {words.duration(row.stopped_ms)}")
    if row.overlaps:
        parts.append(f"owned twice {words.count(row.overlaps, 'time')}")
    return words.cut(", ".join(parts))


def _layer(fault: Fault) -> int:
    """What is drawn over what."""
    return _LAYERS.index(fault.fault)


_LAYERS: Final = ("silence", "gap", "overlap")


def _bar(bar: Bar, scale: Scale, owner: Owner) -> Markup:
    """A bar; a wide one has its owner's name, cut off at its end."""
    place: dict[str, str | int] = {
        "x": scale.at(bar.from_ms),
        "width": scale.width(bar.from_ms, bar.to_ms),
        "y": _TOP,
        "height": _BAR,
        "class_": f"bar o{owner.colour}",
        "data_h": owner.number,
    }
    tooltip = _bar_tip(bar)
    if scale.share(bar.from_ms, bar.to_ms) < _NAMED_MIN:
        return element("rect", tooltip, **place)
    whole = element("rect", width="100%", height=_BAR)
    name = element("text", owner.name, x=4, y=_BAR - 3)
    return element("svg", whole, name, tooltip, **place)


def _bar_tip(bar: Bar) -> Markup:
    who = words.short_name(bar.holder)
    if bar.member != bar.holder:
        who += f" as {words.short_name(bar.member)}"
    if bar.host:
        who += f" at {words.cut(bar.host.lstrip('/'), 60)}"
    generations = _generations(bar)
    if bar.intervals > 1:
        generations = f"{words.count(bar.intervals, 'interval')}, {generations}"
    late = bar.released_ms - bar.to_ms
    return tip(
        who,
        _when(bar.from_ms, bar.to_ms),
        generations + (f"; {_BEGAN[bar.began]}" if bar.began in _BEGAN else ""),
        words.ended(bar.ended) if bar.ended else None,
        f"may have worked on for {words.duration(late)}" if late > 0 else None,
    )


_BEGAN: Final[Mapping[str, str]] = {
    "claimed": "not assigned: the member claimed it",
    "recovered": "had it when a node read the group back",
    "replaced": "took it over from its former process",
}


def _generations(bar: Bar) -> str:
    if bar.generation is None:
        return "generation not known"
    if bar.last_generation in (None, bar.generation):
        return f"generation {bar.generation}"
    return f"generations {bar.generation} to {bar.last_generation}"


def _when(from_ms: int, to_ms: int) -> str:
    day = words.date(to_ms) if words.date(from_ms) != words.date(to_ms) else ""
    until = f"{words.clock_ms(to_ms)} {day}".rstrip()
    took = words.duration(to_ms - from_ms)
    return f"{words.clock_ms(from_ms)} to {until} ({took})"


def _tail(bar: Bar, scale: Scale, owner: Owner) -> Markup:
    """The time after a bar in which the former owner may have worked on."""
    return element(
        "rect",
        x=scale.at(bar.to_ms),
        width=scale.width(bar.to_ms, bar.released_ms),
        y=_TOP + _BAR - 3,
        height=3,
        class_=f"tail o{owner.colour}",
    )


def _fault(fault: Fault, scale: Scale) -> Markup:
    x, width = scale.at(fault.from_ms), scale.width(fault.from_ms, fault.to_ms)
    if fault.fault != "overlap":
        tooltip = _gap_tip(fault) if fault.fault == "gap" else _silence_tip(fault)
        return element("rect", tooltip, x=x, width=width, y=_TOP, height=_BAR, class_=fault.fault)
    tooltip = _overlap_tip(fault)
    if not fault.sure_ms:
        return element(
            "rect", tooltip, x=x, width=width, y=1, height=_HEIGHT - 2, class_="possible"
        )
    # The outline is a shape of its own, so that the shortest one is red with dark edges.
    place: dict[str, str | int] = {"x": x, "width": width, "y": 1, "height": _HEIGHT - 2}
    edge = element("rect", **place, class_="edge")
    return element("g", edge, element("rect", **place), tooltip, class_="overlap")


def _overlap_tip(fault: Fault) -> Markup:
    sure, most = words.duration(fault.sure_ms), words.duration(fault.to_ms - fault.from_ms)
    if fault.sure_ms:
        tooltip = f"Two owners for {sure}" + (f", perhaps {most}" if sure != most else "")
    else:
        tooltip = f"Perhaps two owners, for {most} at most"
    if fault.times > 1:
        tooltip += f" ({fault.times} times)"
    # Two processes of one static member are told by their member ids.
    is_one = fault.holder == fault.next_holder
    pair = (fault.member, fault.next_member) if is_one else (fault.holder, fault.next_holder)
    both = " and ".join(map(words.short_name, pair))
    return tip(tooltip, both, _when(fault.from_ms, fault.to_ms), words.cause(fault.cause))


def _silence_tip(fault: Fault) -> Markup:
    silent = f"{words.short_name(fault.holder)} was silent for {words.duration(fault.sure_ms)}"
    if fault.times > 1:
        silent += f" ({fault.times} times)"
    return tip(silent, _when(fault.from_ms, fault.to_ms), f"then it {words.gone(fault.cause)}")


def _gap_tip(fault: Fault) -> Markup:
    stood = f"No owner for {words.duration(fault.sure_ms)}"
    if fault.times > 1:
        stood += f" ({fault.times} times)"
    why = None
    if fault.rebalance is not None:
        why = f"rebalance {fault.rebalance}: {words.cause(fault.cause)}"
    return tip(
        stood,
        _when(fault.from_ms, fault.to_ms),
        why,
        "goes on at the end of the journal" if fault.is_open else None,
    )


def note(detail: GroupDetail) -> Markup | None:
    """What is not drawn, or merged; None if everything is drawn."""
    left = detail.rows_in_all - len(detail.rows)
    sentences = []
    if left:
        faulty = detail.faulty_rows_left_out
        had = f"{faulty:,} of them with a fault" if faulty else "none with a fault"
        sentences.append(f"+ {words.count(left, 'partition')} more, {had}.")
    if detail.merged_below_ms:
        near = words.duration(detail.merged_below_ms)
        sentences.append(f"What is less than {near} apart is drawn as one.")
    drawn = sum(bar.intervals for row in detail.rows for bar in row.bars)
    hidden = sum(row.intervals for row in detail.rows) - drawn
    if hidden:
        sentences.append(f"{words.count(hidden, 'short interval')} not drawn.")
    return element("p", " ".join(sentences), class_="note") if sentences else None
