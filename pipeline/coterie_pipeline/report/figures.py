"""Lists and tables of a report: advice, the costs and commits of a group, and all groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.causes import icon
from coterie_pipeline.report.markup import Markup, element, text
from coterie_pipeline.report.model import Advice, CommitLine, Cost, GroupDetail, GroupLine, Report

__all__ = ["advised", "commits", "costs", "heads", "overview"]

_SEVERITIES: Final[Mapping[str, str]] = {
    "wrong": "Wrong",
    "costly": "Costly",
    "note": "Note",
}


def advised(pieces: Sequence[Advice], anchors: Mapping[str, str] | None = None) -> Markup:
    """A list of advice; with `anchors`, each piece names its group and links to it."""
    return element("ul", *(_item(piece, anchors) for piece in pieces), class_="advice")


def _item(piece: Advice, anchors: Mapping[str, str] | None) -> Markup:
    badge = element(
        "b", _SEVERITIES.get(piece.severity, piece.severity), class_=f"badge {_class(piece)}"
    )
    saves = None
    if piece.saves_partition_ms:
        saved = f"Would save {words.seconds(piece.saves_partition_ms)} partition-seconds."
        saves = element("span", f" {saved}", class_="saves")
    sentence = element("p", _about(piece, anchors), words.cut(piece.sentence, 1_000), saves)
    others = words.cut(piece.others, 400)
    alike = element("p", f"+ {others}.", class_="alike") if others else None
    return element("li", badge, element("div", sentence, _evidence(piece), alike))


def _class(piece: Advice) -> str:
    return piece.severity if piece.severity in _SEVERITIES else "note"


def _about(piece: Advice, anchors: Mapping[str, str] | None) -> Markup | None:
    if anchors is None or not piece.group:
        return None
    name = element("bdi", words.cut(piece.group, 80))
    anchor = anchors.get(piece.group)
    return Markup(element("a", name, href=f"#{anchor}") + ": " if anchor else name + ": ")


def _evidence(piece: Advice) -> Markup | None:
    facts = [
        f"{words.cut(key.replace('_', ' '), 60)}: {words.cut(value)}"
        for key, value in piece.evidence
    ]
    if piece.from_ms is not None and piece.to_ms is not None:
        seen = f"{words.date(piece.from_ms)} {words.clock(piece.from_ms)}"
        if piece.to_ms > piece.from_ms:
            seen += f" to {words.date(piece.to_ms)} {words.clock(piece.to_ms)}"
        facts.append(f"seen {seen}")
    return element("p", " · ".join(facts), class_="evidence") if facts else None


# -- one group -------------------------------------------------------------------------------------


def heads(*columns: str, figures: Sequence[str] = ()) -> Markup:
    """The head of a table; the columns named in `figures` are right-aligned."""
    cells = (
        element("th", name, scope="col", class_="num" if name in figures else None)
        for name in columns
    )
    return element("thead", element("tr", *cells))


def costs(found: Sequence[Cost]) -> Markup:
    """The time that partitions waited by root cause, with a bar for each."""
    worst = max((cost.whole_ms for cost in found), default=0)
    figures = ("Rebalances", "Follow-ups", "Stopped", "Silent before", "Partition-seconds")
    return element(
        "table",
        heads("Cause", *figures, "Share", figures=figures),
        element("tbody", *(_cost(cost, worst) for cost in found)),
        class_="costs",
    )


def _cost(cost: Cost, worst: int) -> Markup:
    figures = (
        words.number(cost.rebalances),
        words.number(cost.follow_ups),
        words.seconds(cost.stopped_ms),
        words.seconds(cost.silent_ms) if cost.silent_ms else words.NONE,
        words.seconds(cost.whole_ms),
    )
    return element(
        "tr",
        element("th", icon(cost.cause), words.cause(cost.cause), scope="row"),
        *(element("td", figure, class_="num") for figure in figures),
        element("td", _cost_bar(cost, worst), class_="wide"),
    )


def _cost_bar(cost: Cost, worst: int) -> Markup:
    """The silence, what stood still, and what did so in follow-ups, one after the other."""
    parts = (
        ("silent", cost.silent_ms, "before members were given up"),
        ("own", cost.stopped_ms - cost.follow_ups_stopped_ms, "in rebalances of this cause"),
        ("following", cost.follow_ups_stopped_ms, "in follow-ups"),
    )
    shapes, so_far_ms = [], 0
    for class_, length_ms, where in parts:
        if length_ms:
            x, width = (f"{100 * ms / max(worst, 1):.3f}%" for ms in (so_far_ms, length_ms))
            tooltip = element("title", f"{words.seconds(length_ms)} {where}")
            shapes.append(element("rect", tooltip, x=x, width=width, height=12, class_=class_))
            so_far_ms += length_ms
    sentence = f"{words.seconds(cost.whole_ms)} partition-seconds"
    return element(
        "svg", *shapes, width="100%", height=12, role="img", aria_label=sentence, class_="costbar"
    )


def commits(detail: GroupDetail) -> Markup:
    """Commits by partition, those that went back first."""
    figures = (
        "Commits",
        "A minute",
        "Advanced by",
        "Lag",
        "Went back",
        "By at most",
        "From outside",
    )
    rows = (_commit(line) for line in detail.commits)
    table = element("table", heads("Partition", *figures, figures=figures), element("tbody", *rows))
    left = detail.commits_in_all - len(detail.commits)
    more = f"+ {words.count(left, 'partition')} more, which went back no more often."
    note = element("p", more, class_="note") if left else None
    return element("div", element("div", table, class_="scroll"), note)


def _commit(line: CommitLine) -> Markup:
    per_minute = words.NONE if line.per_minute is None else f"{line.per_minute:,.1f}"
    figures = (
        words.number(line.commits),
        per_minute,
        words.number(line.advanced),
        words.NONE if line.lag is None else words.number(line.lag),
        words.number(line.regressions),
        words.number(line.deepest_regression),
        words.number(line.outside),
    )
    name = words.cut(f"{line.topic}-{line.partition}", 80)
    return element(
        "tr",
        element("th", element("bdi", name), scope="row"),
        *(element("td", figure, class_="num") for figure in figures),
        class_="bad" if line.regressions else None,
    )


# -- all groups ------------------------------------------------------------------------------------


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
    """All groups in one table, the worst first, with links to those that have a section."""
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
    return element("div", element("div", table, class_="scroll"), note)


def _row(line: GroupLine, anchor: str | None) -> Markup:
    name = element("bdi", words.cut(line.group, 80) or "(no name)")
    cells = (
        (words.number(line.rebalances), line.rebalances),
        (words.seconds(line.cost_ms), line.cost_ms),
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
        element("td", _spark(line), data_value=str(line.cost_ms)),
        class_="bad" if line.overlaps else None,
        data_name=words.cut(line.group),
    )


def _cause(line: GroupLine) -> Markup:
    sentence = None
    if line.main_cause:
        times = words.number(line.main_cause_rebalances)
        counted = f" ({times})" if line.main_cause_rebalances else ""
        sentence = Markup(
            icon(line.main_cause) + text(f"{words.short_cause(line.main_cause)}{counted}")
        )
    return element("td", sentence, class_="cause", data_value=str(line.main_cause_rebalances))


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
    """A sparkline of the time that stood still."""
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
    sentence = f"at most {words.seconds(worst)} partition-seconds at a time" if worst else "none"
    return element(
        "svg",
        element("title", sentence),
        *bars,
        element("line", x1=0, x2=len(parts), y1=_SPARK_HEIGHT, y2=_SPARK_HEIGHT),
        class_="spark",
        viewBox=f"0 0 {max(len(parts), 1)} {_SPARK_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"stopped over time: {sentence}",
    )
