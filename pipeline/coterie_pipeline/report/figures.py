"""Tables of one group's figures: what stood still by cause, and commits."""

from __future__ import annotations

from collections.abc import Sequence

from coterie_pipeline.report import words
from coterie_pipeline.report.causes import icon
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import CommitLine, Cost, GroupDetail

__all__ = ["commits", "costs", "heads"]


def heads(*columns: str, figures: Sequence[str] = ()) -> Markup:
    """The head of a table; the columns of figures stand right."""
    cells = (
        element("th", name, scope="col", class_="num" if name in figures else None)
        for name in columns
    )
    return element("thead", element("tr", *cells))


def costs(found: Sequence[Cost]) -> Markup:
    """For how long partitions stood still, by the cause at the root; a bar for each cause."""
    worst = max((cost.stopped_ms for cost in found), default=0)
    figures = ("Rebalances", "Follow-ups", "Partition-seconds")
    return element(
        "table",
        heads("Cause", *figures, "Share", figures=figures),
        element("tbody", *(_cost(cost, worst) for cost in found)),
        class_="costs",
    )


def _cost(cost: Cost, worst: int) -> Markup:
    said = f"{words.seconds(cost.stopped_ms)} partition-seconds"
    own = cost.stopped_ms - cost.follow_ups_stopped_ms
    whole = max(worst, 1)
    shapes = [element("rect", width=f"{100 * own / whole:.3f}%", height=12, class_="own")]
    if cost.follow_ups_stopped_ms:
        width = f"{100 * cost.follow_ups_stopped_ms / whole:.3f}%"
        x = f"{100 * own / whole:.3f}%"
        told = element("title", f"{words.seconds(cost.follow_ups_stopped_ms)} in follow-ups")
        shapes.append(element("rect", told, x=x, width=width, height=12, class_="following"))
    bar = element(
        "svg", *shapes, width="100%", height=12, role="img", aria_label=said, class_="costbar"
    )
    return element(
        "tr",
        element("th", icon(cost.cause), words.cause(cost.cause), scope="row"),
        element("td", words.number(cost.rebalances), class_="num"),
        element("td", words.number(cost.follow_ups), class_="num"),
        element("td", words.seconds(cost.stopped_ms), class_="num"),
        element("td", bar, class_="wide"),
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
    return element("div", table, note, class_="scroll")


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
