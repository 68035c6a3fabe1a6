"""The page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.figures import advised, heads, overview
from coterie_pipeline.report.markup import Markup, element, join
from coterie_pipeline.report.model import NodeRead, Report, Totals
from coterie_pipeline.report.section import section

__all__ = ["key_figures", "page", "read", "read_in_short", "verdict", "when"]


def page(report: Report) -> str:
    """The page as text; the same report gives the same bytes."""
    anchors = {detail.line.group: f"g{index}" for index, detail in enumerate(report.details, 1)}
    script = Markup(f"\n{_resource('report.js')}")
    title = f"Consumer groups, {when(report)}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(f"\n{_resource('report.css')}")),
    )
    body = element("body", _patterns(), _main(report, anchors), element("script", script))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _resource(name: str) -> str:
    return files("coterie_pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """A policy that loads nothing and runs no other script, whatever names a journal contains."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )


def _patterns() -> Markup:
    """The hatching of gaps, which all charts refer to."""
    lines = element("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2")
    pattern = element(
        "pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse"
    )
    return element(
        "svg", element("defs", pattern), width=0, height=0, class_="patterns", aria_hidden="true"
    )


def _main(report: Report, anchors: dict[str, str]) -> Markup:
    return element(
        "main",
        element(
            "header",
            element("h1", "Consumer groups"),
            element("p", when(report), ". ", read_in_short(report), class_="when"),
            verdict(report),
            key_figures(report),
        ),
        _advice(report, anchors),
        element(
            "section",
            element("h2", "All groups"),
            overview(report, anchors),
            id="groups",
        ),
        read(report),
        _key() if report.details else None,
        *(section(detail, anchors[detail.line.group]) for detail in report.details),
        _undrawn(report),
    )


def _advice(report: Report, anchors: dict[str, str]) -> Markup | None:
    if not report.advice:
        return None
    return element(
        "section",
        element("h2", "What to do"),
        advised(report.advice, anchors),
        id="advice",
    )


def _undrawn(report: Report) -> Markup | None:
    left = report.totals.groups - len(report.details)
    if left <= 0:
        return None
    drawn = words.count(len(report.details), "group")
    more = f"{words.count(left, 'group')} more with less trouble have none."
    return element("p", f"Charts are drawn of {drawn}; {more}", class_="note")


def _key() -> Markup:
    """How to read the charts."""
    owners = (element("rect", x=9 * n, y=2, width=9, height=12, class_=f"o{n}") for n in range(3))
    edge = element("rect", x=9, y=2, width=8, height=12, class_="edge")
    sure = element("g", edge, element("rect", x=9, y=2, width=8, height=12), class_="overlap")
    entries = (
        (_sample(*owners), "who owned it: a colour for each process"),
        (_sample(_shape("gap")), "no owner: the partition stood still"),
        (
            _sample(_shape("o0"), _shape("silence")),
            "its owner was silent, and then given up or replaced",
        ),
        (_sample(sure), "two owners at once, for certain"),
        (_sample(_shape("possible")), "two owners are possible"),
    )
    items = (element("li", sample, element("span", sentence)) for sample, sentence in entries)
    return element(
        "section",
        element("h2", "How to read the charts"),
        element("ul", *items, class_="key"),
        *(element("p", sentence) for sentence in _HOW),
        element("p", _HOW_TO_MOVE, class_="only-script", hidden=True),
        id="key",
    )


_HOW: Final = (
    (
        "Each mark is a rebalance; its shape, colour and letter tell the cause, and it is the "
        "larger the longer partitions stood still. Dashed lines lead to its follow-ups. A mark "
        "leads to what happened, in words."
    ),
    (
        "Stopped time is added up over partitions: four partitions that stand still for five "
        "seconds make 20 partition-seconds. If a member died, they include the time from its last "
        "sign of life until it was given up. What is too short to be seen is drawn a little wider. "
        "All times are UTC."
    ),
)

_HOW_TO_MOVE: Final = (
    "Drag over a chart to zoom in, double-click to zoom out; the keys + - \N{LEFTWARDS ARROW} "
    "\N{RIGHTWARDS ARROW} 0 and Ctrl with the wheel do the same. Point at anything to read what "
    "it is. Click on members to see only what was theirs."
)


def _sample(*shapes: Markup) -> Markup:
    return element("svg", *shapes, width=28, height=16, aria_hidden="true")


def _shape(class_: str) -> Markup:
    return element("rect", x=1, y=2, width=26, height=12, class_=class_)


# -- the top ---------------------------------------------------------------------------------------


_WHY_UNREAD: Final = {
    "torn": "cut off, as a crash leaves the last line",
    "foreign": "no lines of a journal",
    "newer": "of a version newer than this pipeline",
    "unknown_kind": "of a kind that is not known here",
    "misfit": "with a field of a wrong type",
}

#: Smaller differences between clocks do not matter.
_CLOCK_MS: Final = 100

#: How many nodes the table has at most; what is wrong with a node is tooltip of all.
_NODES_MAX: Final = 200


def when(report: Report) -> str:
    """The time that the report is about."""
    span = report.span
    first, last = words.date(span.from_ms), words.date(span.to_ms)
    until = words.clock(span.to_ms) if first == last else f"{last} {words.clock(span.to_ms)}"
    took = words.duration(span.length_ms)
    return f"{first} {words.clock(span.from_ms)} to {until} UTC ({took})"


def verdict(report: Report) -> Markup:
    """The answer to the first question: whether a partition ever had two owners."""
    totals = report.totals
    if totals.overlaps:
        groups = words.count(totals.groups_with_overlaps, "group")
        times = words.count(totals.overlaps, "time")
        sentence = f"A partition had two owners at once, for certain: {times}, in {groups}."
        kind = "wrong"
    elif totals.possible_overlaps:
        times = words.count(totals.possible_overlaps, "time")
        sentence = f"No partition had two owners for certain; it is possible {times}."
        kind = "costly"
    else:
        sentence, kind = "No partition had two owners at once.", "fine"
    return element("p", sentence, class_=f"verdict {kind}")


def key_figures(report: Report) -> Markup:
    """A few figures over all groups."""
    totals = report.totals
    possible = f"+ {words.number(totals.possible_overlaps)} possible"
    figures = (
        ("Groups", words.number(totals.groups), None),
        ("Rebalances", words.number(totals.rebalances), None),
        (
            "Stopped",
            f"{words.seconds(totals.cost_ms)} s",
            _stopped(totals),
        ),
        (
            "Availability",
            words.percent(totals.availability),
            "of the partitions' time had an owner at work",
        ),
        ("Owned twice", words.number(totals.overlaps), possible),
        ("Flapping members", words.number(totals.flapping), "came back 3 times within an hour"),
    )
    return element("dl", *(_figure(*figure) for figure in figures), class_="figures")


def _stopped(totals: Totals) -> str:
    if not totals.silent_partition_ms:
        return "added up over the partitions that had no owner"
    silent = words.seconds(totals.silent_partition_ms)
    return f"added up over the partitions; {silent} s of it with owners that were silent"


def _figure(name: str, value: str, more: str | None) -> Markup:
    small = element("dd", more, class_="more") if more else None
    return element("div", element("dt", name), element("dd", value), small)


def read_in_short(report: Report) -> Markup:
    """A line about what was read, with a link to what is wrong with it."""
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
    """The section about the journals that were read, and what is wrong with them."""
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
    """What is missing or unreadable, so that figures may be too low."""
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
    """Crashes, and clocks that can't be relied on."""
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
