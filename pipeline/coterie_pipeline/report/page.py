"""The whole page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.advice import advised
from coterie_pipeline.report.head import key_figures, read, read_in_short, verdict, when
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import Report
from coterie_pipeline.report.overview import overview
from coterie_pipeline.report.section import section

__all__ = ["page"]


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
    """Nothing is loaded, and no script runs but this one, whatever names a journal has in it."""
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
        advised(report.advice, report.advice_in_all, anchors),
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
        (_sample(sure), "two owners at once, for certain"),
        (_sample(_shape("possible")), "two owners are possible"),
    )
    items = (element("li", sample, element("span", said)) for sample, said in entries)
    return element(
        "section",
        element("h2", "How to read the charts"),
        element("ul", *items, class_="key"),
        *(element("p", said) for said in _HOW),
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
        "seconds make 20 partition-seconds. What is too short to be seen is drawn a little wider. "
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
