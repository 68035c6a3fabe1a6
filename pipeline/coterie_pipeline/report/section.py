"""One group's section: what happened, in words and charts that share one time axis."""

from __future__ import annotations

from collections.abc import Iterator

from coterie_pipeline.report import gantt, members, words
from coterie_pipeline.report.figures import advised, commits, costs
from coterie_pipeline.report.gantt import owners
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import GroupDetail
from coterie_pipeline.report.scale import Scale, plot
from coterie_pipeline.report.timeline import listing, timeline

__all__ = ["section"]

_AXIS_HEIGHT = 22


def section(detail: GroupDetail, anchor: str) -> Markup:
    """The section of a group."""
    name = words.cut(detail.line.group, 120) or "(no name)"
    advice = advised(detail.advice) if detail.advice else None
    return element(
        "section",
        element("h2", element("bdi", name)),
        element("p", " ".join(_summary(detail)), class_="summary"),
        advice,
        _charts(detail, anchor),
        element(
            "div",
            *_tables(detail),
            class_="tables",
        ),
        _listing(detail, anchor),
        id=anchor,
        class_="group",
        data_name=words.cut(detail.line.group),
    )


def _summary(detail: GroupDetail) -> Iterator[str]:
    line = detail.line
    times = words.count(line.rebalances, "rebalance")
    main = detail.costs[0] if detail.costs else None
    why = f", most of what they cost because {words.cause(main.cause)}" if main else ""
    yield f"{times}{why}."
    stopped = words.seconds(line.cost_ms)
    available = words.percent(line.availability)
    silent = ""
    if line.silent_partition_ms:
        before = words.seconds(line.silent_partition_ms)
        silent = f", {before} of them as owners were silent and had not been given up yet"
    yield (
        f"Partitions stood still for {stopped} partition-seconds{silent}; availability {available}."
    )
    if line.overlaps:
        yield f"Partitions had two owners {words.count(line.overlaps, 'time')} for certain."
    elif line.possible_overlaps:
        yield f"Two owners are possible {words.count(line.possible_overlaps, 'time')}."
    else:
        yield "No partition had two owners."
    if line.flapping:
        flapping = words.count(line.flapping, "member flaps", "members flap")
        yield f"{flapping}."


def _charts(detail: GroupDetail, anchor: str) -> Markup | None:
    if not (detail.rows or detail.rebalances or detail.processes):
        return None
    scale = Scale(detail.span)
    its = owners(detail.rows, detail.processes)
    drawn = element("h3", "Rebalances and their causes") if detail.rebalances else None
    return element(
        "div",
        _axis(scale),
        drawn,
        timeline(detail, scale, anchor) if detail.rebalances else None,
        _marks_note(detail),
        element("h3", "Who owned what") if detail.rows else None,
        gantt.gantt(detail, scale, its) if detail.rows else None,
        gantt.note(detail),
        element("h3", "Members") if detail.processes else None,
        members.members(detail, scale, its) if detail.processes else None,
        members.note(detail),
        class_="charts",
        data_from=str(scale.span.from_ms),
        data_to=str(scale.span.to_ms),
    )


def _axis(scale: Scale) -> Markup:
    ticks = [
        part
        for at_ms, name in scale.ticks()
        for part in (
            element("line", x1=scale.at(at_ms), x2=scale.at(at_ms), y1=15, y2=_AXIS_HEIGHT),
            element("text", name, x=scale.at(at_ms), y=11),
        )
    ]
    first, last = (
        f"{words.date(at)} {words.clock(at)}" for at in (scale.span.from_ms, scale.span.to_ms)
    )
    day = element("span", f"{words.date(scale.span.from_ms)},", class_="day")
    zone = element("div", day, "UTC", class_="label")
    axis = plot(_AXIS_HEIGHT, f"time axis, {first} to {last} UTC", *ticks)
    return element("div", zone, axis, class_="lane axis")


def _marks_note(detail: GroupDetail) -> Markup | None:
    left = detail.line.rebalances - len(detail.rebalances)
    if left <= 0:
        return None
    drawn = words.number(len(detail.rebalances))
    sentence = f"The {drawn} rebalances that cost most are shown, {left:,} more are not."
    return element("p", sentence, class_="note")


def _tables(detail: GroupDetail) -> Iterator[Markup]:
    if detail.costs:
        yield element(
            "div",
            element("h3", "What stood still, by the cause at the root"),
            element("div", costs(detail.costs), class_="scroll"),
        )
    if detail.commits:
        yield element("div", element("h3", "Commits"), commits(detail))


def _listing(detail: GroupDetail, anchor: str) -> Markup | None:
    if not detail.rebalances:
        return None
    times = words.count(len(detail.rebalances), "rebalance")
    return element(
        "details",
        element("summary", f"{times} in words"),
        listing(detail, anchor),
        class_="listing",
    )
