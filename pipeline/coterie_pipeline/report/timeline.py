"""A group's rebalances: a chart with a row for each cause, and each rebalance in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.causes import icon, mark, order, sign
from coterie_pipeline.report.gantt import tip
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import GroupDetail, Late, Rebalance, Some
from coterie_pipeline.report.scale import Scale, plot

__all__ = ["headline", "listing", "sentences", "timeline"]

_OUTCOMES: Final[Mapping[str, str]] = {
    "superseded": "Another rebalance began before this one was over.",
    "emptied": "It ended as the last member went.",
    "interrupted": "The node went down before it was over.",
    "running": "The journal ends in it.",
}

#: How many of those who were late are named one by one.
_LATE_MAX: Final = 3


def headline(rebalance: Rebalance) -> str:
    """Its number, time, cause and cost, in one line."""
    parts = [
        f"Rebalance {rebalance.number}",
        words.clock_ms(rebalance.started_ms),
        words.cause(rebalance.cause),
    ]
    if rebalance.total_ms is not None:
        parts.append(f"took {words.duration(rebalance.total_ms)}")
    if rebalance.cost_ms:
        parts.append(f"{words.seconds(rebalance.cost_ms)} partition-seconds stopped")
    return " · ".join(parts)


def sentences(rebalance: Rebalance) -> Iterator[str]:
    """Its cause, the members it waited for, what it changed and what it cost."""
    yield from _why(rebalance)
    yield from _waiting(rebalance)
    yield from _members(rebalance)
    yield from _cost(rebalance)
    if rebalance.needs_rejoin:
        yield "Members were asked to join once more, to get what others had to give up first."
    if rebalance.outcome in _OUTCOMES:
        yield _OUTCOMES[rebalance.outcome]


def _why(rebalance: Rebalance) -> Iterator[str]:
    why = _upper(words.cause(rebalance.cause))
    yield f"{why}: {words.cut(rebalance.detail)}." if rebalance.detail else f"{why}."
    if rebalance.root != rebalance.number and rebalance.cause_chain:
        chain = " → ".join(words.cause(cause) for cause in rebalance.cause_chain)
        yield f"It goes back to rebalance {rebalance.root} ({chain})."
    if rebalance.detection_ms is not None:
        silent = words.duration(rebalance.detection_ms)
        yield f"It had been silent for {silent} when it was given up."


def _waiting(rebalance: Rebalance) -> Iterator[str]:
    waited = rebalance.awaited.count
    if rebalance.prepare_ms is not None:
        took = words.duration(rebalance.prepare_ms)
        members = f" for {words.count(waited, 'member')}" if waited else ""
        yield f"It took {took} until all had joined{', waiting' + members if members else ''}."
    elif waited:
        yield f"It waited for {words.count(waited, 'member')}."
    yield from (f"{_late(late)}." for late in rebalance.late[:_LATE_MAX])
    left = rebalance.late_count - len(rebalance.late[:_LATE_MAX])
    if left > 0:
        yield f"{words.number(left)} more were late, by less."
    if rebalance.complete_ms is not None:
        yield f"Then {words.duration(rebalance.complete_ms)} until the assignment was in place."


def _late(late: Late) -> str:
    name = words.short_name(late.instance or late.member)
    host = f" at {words.cut(late.host.lstrip('/'), 60)}" if late.host else ""
    return f"{name}{host} {words.gone(late.how)} after {words.duration(late.after_ms)}"


def _members(rebalance: Rebalance) -> Iterator[str]:
    lists: tuple[tuple[str, Some], ...] = (
        ("Came", rebalance.came),
        ("Went", rebalance.went),
        ("Dropped, as they did not join in time", rebalance.dropped),
    )
    for verb, members in lists:
        if members.count:
            yield f"{verb}: {words.some(members)}."


def _cost(rebalance: Rebalance) -> Iterator[str]:
    if rebalance.moved is not None and rebalance.partitions is not None:
        whole = words.count(rebalance.partitions, "partition")
        moved = f"{words.number(rebalance.moved)} of {whole} moved{_kept(rebalance)}."
        yield moved if rebalance.moved else "No partition moved."
    if rebalance.stopped_partition_ms is not None:
        stopped = words.seconds(rebalance.stopped_partition_ms)
        stood_still = f"Partitions stood still for {stopped} s, added up over the partitions."
        yield stood_still if rebalance.stopped_partition_ms else "No partition stood still."
    if rebalance.silent_partition_ms:
        silent = words.seconds(rebalance.silent_partition_ms)
        yield (
            f"Before that, their owners had been silent for {silent} s, added up likewise, until "
            "they were given up."
        )


def _kept(rebalance: Rebalance) -> str:
    if rebalance.kept is None or not rebalance.keepable:
        return ""
    if rebalance.kept >= rebalance.keepable:
        return ", no more than had to"
    able = words.number(rebalance.keepable)
    return f"; {words.number(rebalance.kept)} stayed of {able} that could have"


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


# -- the chart -------------------------------------------------------------------------------------


_HEIGHT: Final = 26
#: The least and the greatest mark: the larger, the longer partitions stood still.
_RADII: Final = (6.5, 11.0)


def timeline(detail: GroupDetail, scale: Scale, anchor: str) -> Markup:
    """The rows of causes over the chart of all marks, with follow-ups joined to their roots."""
    causes = sorted({each.cause for each in detail.rebalances}, key=order)
    middles = {cause: _HEIGHT * index + _HEIGHT // 2 for index, cause in enumerate(causes)}
    labels = (_label(cause, detail.rebalances) for cause in causes)
    worst = max((each.cost_ms for each in detail.rebalances), default=0)
    shapes = [
        *_chains(detail.rebalances, scale, middles),
        *(_phases(each, scale, middles[each.cause]) for each in detail.rebalances),
        *(
            _mark(each, scale, middles[each.cause], _radius(each, worst), anchor)
            for each in detail.rebalances
        ),
    ]
    sentence = f"{words.count(len(detail.rebalances), 'rebalance')} by time and cause"
    return element(
        "div",
        element("div", *labels, class_="label causes"),
        plot(_HEIGHT * len(causes), sentence, *shapes, class_="marks"),
        class_="lane",
    )


def _label(cause: str, rebalances: Sequence[Rebalance]) -> Markup:
    times = sum(each.cause == cause for each in rebalances)
    name = element("span", f"{words.short_cause(cause)} ({words.number(times)})", class_="name")
    return element("div", icon(cause), name, style=f"height:{_HEIGHT}px", title=words.cause(cause))


def _chains(
    rebalances: Sequence[Rebalance], scale: Scale, middles: Mapping[str, int]
) -> Iterator[Markup]:
    """A line from each follow-up to the rebalance before it in its chain, if that is drawn."""
    latest: dict[int, Rebalance] = {}
    for rebalance in rebalances:
        before = latest.get(rebalance.root)
        if before is not None:
            yield element(
                "line",
                x1=scale.at(before.started_ms),
                y1=middles[before.cause],
                x2=scale.at(rebalance.started_ms),
                y2=middles[rebalance.cause],
                class_="chain",
            )
        latest[rebalance.root] = rebalance


def _phases(rebalance: Rebalance, scale: Scale, middle: int) -> Markup:
    """Both phases to scale, which shows when the chart is zoomed."""
    start = rebalance.started_ms
    end = rebalance.ended_ms if rebalance.ended_ms is not None else scale.span.to_ms
    joined = rebalance.joined_ms if rebalance.joined_ms is not None else end
    first = element(
        "rect",
        x=scale.at(start),
        width=scale.width(start, joined),
        y=middle - 4,
        height=8,
        class_="waiting",
    )
    if joined >= end:
        return first
    second = element(
        "rect",
        x=scale.at(joined),
        width=scale.width(joined, end),
        y=middle - 4,
        height=8,
        class_="assigning",
    )
    return Markup(first + second)


def _radius(rebalance: Rebalance, worst: int) -> float:
    least, greatest = _RADII
    return least + (greatest - least) * math.sqrt(rebalance.cost_ms / worst) if worst else least


def _mark(rebalance: Rebalance, scale: Scale, middle: int, radius: float, anchor: str) -> Markup:
    place = element(
        "svg",
        *mark(rebalance.cause, radius),
        x=scale.at(rebalance.started_ms),
        y=middle,
        overflow="visible",
    )
    return element(
        "a",
        place,
        tip(headline(rebalance)),
        href=f"#{anchor}-r{rebalance.number}",
        class_=f"mark {sign(rebalance.cause).family}",
    )


def listing(detail: GroupDetail, anchor: str) -> Markup:
    """The same rebalances as a table, to which the marks of the chart lead."""
    head = element(
        "tr",
        *(
            element("th", name, scope="col", class_="num" if name in _FIGURES else None)
            for name in ("Rebalance", "Began", *_FIGURES, "What happened")
        ),
    )
    rows = (_listed(each, anchor) for each in detail.rebalances)
    table = element("table", element("thead", head), element("tbody", *rows), class_="stories")
    return element("div", table, class_="scroll")


_FIGURES: Final = ("Joining", "Assigning", "Moved", "Stopped")


def _listed(rebalance: Rebalance, anchor: str) -> Markup:
    moved = None if rebalance.moved is None else words.number(rebalance.moved)
    is_known = rebalance.stopped_partition_ms is not None
    figures = (
        words.duration(rebalance.prepare_ms),
        words.duration(rebalance.complete_ms),
        moved or "?",
        f"{words.seconds(rebalance.cost_ms)} s" if is_known else "?",
    )
    began = f"{words.date(rebalance.started_ms)} {words.clock_ms(rebalance.started_ms)}"
    generation = "" if rebalance.generation is None else f"generation {rebalance.generation}"
    return element(
        "tr",
        element(
            "th",
            str(rebalance.number),
            element("small", generation),
            scope="row",
        ),
        element("td", began),
        *(element("td", figure, class_="num") for figure in figures),
        element("td", " ".join(sentences(rebalance)), class_="story"),
        id=f"{anchor}-r{rebalance.number}",
    )
