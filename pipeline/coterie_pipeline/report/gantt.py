"""Who owned what: a row for each partition, a bar for each owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import Bar, Fault, GroupDetail, Rebalance, Row
from coterie_pipeline.report.owners import Owner
from coterie_pipeline.report.scale import Scale, plot

__all__ = ["gantt", "note", "tip"]

_HEIGHT: Final = 16
_BAR: Final = 12
_TOP: Final = 2

#: From which share of the chart on a bar has room for some letters of its owner's name.
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
    """What is told of a shape to who points at it."""
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
        *(_fault(fault, scale) for fault in sorted(row.faults, key=_is_overlap)),
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


def _is_overlap(fault: Fault) -> bool:
    return fault.fault == "overlap"


def _bar(bar: Bar, scale: Scale, owner: Owner) -> Markup:
    """A bar; a wide one bears its owner's name, which its own window cuts off at its end."""
    place: dict[str, str | int] = {
        "x": scale.at(bar.from_ms),
        "width": scale.width(bar.from_ms, bar.to_ms),
        "y": _TOP,
        "height": _BAR,
        "class_": f"bar o{owner.colour}",
        "data_h": owner.number,
    }
    told = _bar_tip(bar)
    if scale.share(bar.from_ms, bar.to_ms) < _NAMED_MIN:
        return element("rect", told, **place)
    whole = element("rect", width="100%", height=_BAR)
    name = element("text", owner.name, x=4, y=_BAR - 3)
    return element("svg", whole, name, told, **place)


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
    "claimed": "nobody gave it, it said that it owns it",
    "recovered": "had it when a node read the group back",
    "replaced": "took it over from its former self",
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
    """From when somebody lost a partition until it had let go of it at the latest."""
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
    if not _is_overlap(fault):
        return element("rect", _gap_tip(fault), x=x, width=width, y=_TOP, height=_BAR, class_="gap")
    told = _overlap_tip(fault)
    if not fault.sure_ms:
        return element("rect", told, x=x, width=width, y=1, height=_HEIGHT - 2, class_="possible")
    # The outline is a shape of its own, so that the shortest one is red with dark edges.
    place: dict[str, str | int] = {"x": x, "width": width, "y": 1, "height": _HEIGHT - 2}
    edge = element("rect", **place, class_="edge")
    return element("g", edge, element("rect", **place), told, class_="overlap")


def _overlap_tip(fault: Fault) -> Markup:
    sure, most = words.duration(fault.sure_ms), words.duration(fault.to_ms - fault.from_ms)
    if fault.sure_ms:
        told = f"Two owners for {sure}" + (f", perhaps {most}" if sure != most else "")
    else:
        told = f"Perhaps two owners, for {most} at most"
    if fault.times > 1:
        told += f" ({fault.times} times)"
    both = f"{words.short_name(fault.holder)} and {words.short_name(fault.next_holder)}"
    return tip(told, both, _when(fault.from_ms, fault.to_ms), words.cause(fault.cause))


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
    """What of the partitions is not drawn, or not drawn apart; None if all is."""
    left = detail.rows_in_all - len(detail.rows)
    said = []
    if left:
        faulty = detail.faulty_rows_left_out
        had = f"{faulty:,} of them with a fault" if faulty else "none with a fault"
        said.append(f"+ {words.count(left, 'partition')} more, {had}.")
    if detail.merged_below_ms:
        near = words.duration(detail.merged_below_ms)
        said.append(f"What is less than {near} apart is drawn as one.")
    drawn = sum(bar.intervals for row in detail.rows for bar in row.bars)
    hidden = sum(row.intervals for row in detail.rows) - drawn
    if hidden:
        said.append(f"{words.count(hidden, 'short interval')} not drawn.")
    return element("p", " ".join(said), class_="note") if said else None
