"""All groups in one table, the worst first."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_pipeline.report import words
from coterie_pipeline.report.causes import icon
from coterie_pipeline.report.figures import heads
from coterie_pipeline.report.markup import Markup, element, text
from coterie_pipeline.report.model import GroupLine, Report

__all__ = ["overview"]

_FIGURES = (
    "Rebalances",
    "Stopped, partition-seconds",
    "Availability",
    "Owned twice",
    "Flapping",
    "Members",
    "Partitions",
)
_SPARK_HEIGHT = 24


def overview(report: Report, anchors: Mapping[str, str]) -> Markup:
    """The table; groups that have a section of their own lead to it."""
    rows = (_row(line, anchors.get(line.group)) for line in report.lines)
    table = element(
        "table",
        heads("Group", "Mostly because", *_FIGURES, "Stopped over time", figures=_FIGURES),
        element("tbody", *rows),
        class_="sortable",
        id="groups-table",
    )
    left = report.totals.groups - len(report.lines)
    more = f"+ {words.count(left, 'group')} more, with less trouble than these."
    note = element("p", more, class_="note") if left else None
    return element("div", table, note, class_="scroll")


def _row(line: GroupLine, anchor: str | None) -> Markup:
    name = element("bdi", words.cut(line.group, 80) or "(no name)")
    cells = (
        (words.number(line.rebalances), line.rebalances),
        (words.seconds(line.stopped_partition_ms), line.stopped_partition_ms),
        (words.percent(line.availability), _exact(line.availability)),
        (_overlaps(line), line.overlaps * 1_000_000 + line.possible_overlaps),
        (words.number(line.flapping) if line.flapping else words.NONE, line.flapping),
        (words.number(line.members), line.members),
        (words.number(line.partitions), line.partitions),
    )
    return element(
        "tr",
        element("th", element("a", name, href=f"#{anchor}") if anchor else name, scope="row"),
        _cause(line),
        *(element("td", shown, class_="num", data_value=str(value)) for shown, value in cells),
        element("td", _spark(line), data_value=str(line.stopped_partition_ms)),
        class_="bad" if line.overlaps else None,
        data_name=words.cut(line.group),
    )


def _cause(line: GroupLine) -> Markup:
    said = None
    if line.main_cause_rebalances:
        times = words.number(line.main_cause_rebalances)
        said = Markup(
            icon(line.main_cause) + text(f"{words.short_cause(line.main_cause)} ({times})")
        )
    return element("td", said, class_="cause", data_value=str(line.main_cause_rebalances))


def _exact(share: float | None) -> float:
    return 2.0 if share is None else round(share, 9)


def _overlaps(line: GroupLine) -> Markup | str:
    if not line.overlaps and not line.possible_overlaps:
        return words.NONE
    possible = f"{words.number(line.possible_overlaps)} possible" if line.possible_overlaps else ""
    if not line.overlaps:
        return possible
    sure = element("b", f"! {words.number(line.overlaps)}", class_="alarm")
    return Markup(sure + (f" + {possible}" if possible else ""))


def _spark(line: GroupLine) -> Markup:
    """A bar for each part of the time, as high as what stood still in it."""
    parts = line.stopped_by_time_ms
    worst = max(parts, default=0)
    bars = (
        element(
            "rect",
            x=index,
            y=f"{_SPARK_HEIGHT - height:.1f}",
            width="0.9",
            height=f"{height:.1f}",
        )
        for index, part in enumerate(parts)
        if part
        for height in [max(_SPARK_HEIGHT * part / worst, 1.5)]
    )
    said = f"at most {words.seconds(worst)} partition-seconds at a time" if worst else "none"
    return element(
        "svg",
        element("title", said),
        *bars,
        element("line", x1=0, x2=len(parts), y1=_SPARK_HEIGHT, y2=_SPARK_HEIGHT),
        class_="spark",
        viewBox=f"0 0 {max(len(parts), 1)} {_SPARK_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"stopped over time: {said}",
    )
