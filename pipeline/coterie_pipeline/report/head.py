"""The top of a report: what was read, whether it is whole, and the figures that matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.figures import heads
from coterie_pipeline.report.markup import Markup, element, join
from coterie_pipeline.report.model import NodeRead, Report

__all__ = ["key_figures", "read", "read_in_short", "verdict", "when"]

_WHY_UNREAD: Final = {
    "torn": "cut off, as a crash leaves the last line",
    "foreign": "no lines of a journal",
    "newer": "of a version newer than this pipeline",
    "unknown_kind": "of a kind that is not known here",
    "misfit": "with a field of a wrong type",
}

#: Clocks that differ by less explain nothing.
_CLOCK_MS: Final = 100

#: How many nodes the table has at most; what is wrong with a node is told of all.
_NODES_MAX: Final = 200


def when(report: Report) -> str:
    """The time that the report is about."""
    span = report.span
    first, last = words.date(span.from_ms), words.date(span.to_ms)
    until = words.clock(span.to_ms) if first == last else f"{last} {words.clock(span.to_ms)}"
    took = words.duration(span.length_ms)
    return f"{first} {words.clock(span.from_ms)} to {until} UTC ({took})"


def verdict(report: Report) -> Markup:
    """The answer to the first question: was a partition ever owned twice, and what was lost."""
    totals = report.totals
    if totals.overlaps:
        groups = words.count(totals.groups_with_overlaps, "group")
        times = words.count(totals.overlaps, "time")
        said = f"A partition had two owners at once, for certain: {times}, in {groups}."
        kind = "wrong"
    elif totals.possible_overlaps:
        times = words.count(totals.possible_overlaps, "time")
        said = f"No partition had two owners for certain; it is possible {times}."
        kind = "costly"
    else:
        said, kind = "No partition had two owners at once.", "fine"
    return element("p", said, class_=f"verdict {kind}")


def key_figures(report: Report) -> Markup:
    """A few figures over all groups."""
    totals = report.totals
    whole = totals.owned_partition_ms + totals.stopped_partition_ms
    available = totals.owned_partition_ms / whole if whole else None
    possible = f"+ {words.number(totals.possible_overlaps)} possible"
    figures = (
        ("Groups", words.number(totals.groups), None),
        ("Rebalances", words.number(totals.rebalances), None),
        (
            "Stopped",
            f"{words.seconds(totals.stopped_partition_ms)} s",
            "added up over the partitions that had no owner",
        ),
        ("Availability", words.percent(available), "of the partitions' time had an owner"),
        ("Owned twice", words.number(totals.overlaps), possible),
        ("Flapping members", words.number(totals.flapping), "came back 3 times within an hour"),
    )
    return element("dl", *(_figure(*figure) for figure in figures), class_="figures")


def _figure(name: str, value: str, more: str | None) -> Markup:
    small = element("dd", more, class_="more") if more else None
    return element("div", element("dt", name), element("dd", value), small)


def read_in_short(report: Report) -> Markup:
    """The same in a line, which leads to what is wrong with them."""
    found = [*_losses(report), *_oddities(report)]
    whole = _whole(report)
    return join((_lines(report), " ", element("a", whole, href="#read") if found else whole))


def _whole(report: Report) -> str:
    losses, oddities = len([*_losses(report)]), len([*_oddities(report)])
    whole = "The journals are not whole" if losses else "The journals are whole"
    warned = words.count(losses + oddities, "warning")
    return f"{whole}; {warned}." if losses + oddities else f"{whole}."


def _lines(report: Report) -> str:
    lines = sum(node.lines for node in report.nodes)
    return f"{words.count(lines, 'line')} of {words.count(len(report.nodes), 'node')}."


def read(report: Report) -> Markup:
    """Which journals were read, and what is wrong with them."""
    warnings = [*_losses(report), *_oddities(report)]
    items = element("ul", *(element("li", each) for each in warnings)) if warnings else None
    table = element(
        "details",
        element("summary", "Each node's journal"),
        element("div", _table(report), class_="scroll"),
    )
    return element(
        "section",
        element("h2", "What was read"),
        element("p", f"{_lines(report)} {_whole(report)}"),
        items,
        table,
        id="read",
    )


def _losses(report: Report) -> Iterator[str]:
    """What is missing, so that figures may be too low."""
    for node in report.nodes:
        name = f"Node {words.cut(node.node, 60)}"
        if node.missing:
            places = words.count(node.gaps, "place")
            yield f"{name} lacks {words.count(node.missing, 'line')}, in {places}."
        if node.conflicts:
            numbers = words.count(node.conflicts, "number")
            yield f"{name} used {numbers} for more than one line; the later file counts."
    for unread in report.unread:
        why = _WHY_UNREAD.get(unread.why, unread.why)
        example = f' "{words.cut(unread.excerpt, 80)}"' if unread.excerpt else ""
        place = words.cut(unread.segment.rsplit("/", 1)[-1], 80)
        lines = words.count(unread.lines, "line")
        yield f"{lines} could not be read: {why}; one is in {place}{example}."


def _oddities(report: Report) -> Iterator[str]:
    """What happened to nodes, and whose times can't be relied on."""
    for node in report.nodes:
        name = f"Node {words.cut(node.node, 60)}"
        if node.crashes:
            yield f"{name} crashed {words.count(node.crashes, 'time')}."
        if node.clock_back_ms >= _CLOCK_MS:
            yield f"{name} had its clock set back by {words.duration(node.clock_back_ms)}."
        if node.clock_behind_ms >= _CLOCK_MS:
            behind = words.duration(node.clock_behind_ms)
            yield f"{name} has a clock that is at least {behind} behind another node's."


def _table(report: Report) -> Markup:
    figures = ("Lines", "Missing", "Twice", "Conflicts", "Starts", "Crashes", "Clock")
    head = heads("Node", "From (UTC)", "To (UTC)", *figures, figures=figures)
    body = element("tbody", *(_node(node) for node in report.nodes[:_NODES_MAX]))
    left = len(report.nodes) - _NODES_MAX
    more = f"+ {words.count(left, 'node')} more." if left > 0 else None
    return join((element("table", head, body), more and element("p", more, class_="note")))


def _node(node: NodeRead) -> Markup:
    clock = max(node.clock_back_ms, node.clock_behind_ms)
    figures = (
        words.number(node.lines),
        words.number(node.missing),
        words.number(node.duplicates),
        words.number(node.conflicts),
        words.number(node.starts),
        words.number(node.crashes),
        f"{words.duration(clock)} off" if clock >= _CLOCK_MS else "fits",
    )
    return element(
        "tr",
        element("th", element("bdi", words.cut(node.node, 80)), scope="row"),
        *(
            element("td", f"{words.date(at)} {words.clock(at)}")
            for at in (node.first_ms, node.last_ms)
        ),
        *(element("td", figure, class_="num") for figure in figures),
    )
