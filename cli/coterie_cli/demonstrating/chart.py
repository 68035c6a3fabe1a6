"""What each chapter cost both sides, drawn and in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from coterie_cli.demonstrating.marks import Marks
from coterie_cli.demonstrating.script import STORY
from coterie_cli.demonstrating.summary import Summary

__all__ = ["chart", "totals"]

_NAME_WIDTH: Final = 22
_NUMBER_WIDTH: Final = 9
_WIDTH_MAX: Final = 110
_FULL_BAR_S: Final = 4.0
_COLOURS: Final = ("green", "red")


def chart(summary: Summary, marks: Marks) -> Table:
    """The partition-seconds of each chapter, also of those to come."""
    table, bar_width = _table(summary, marks)
    sides = [side.chapters for side in summary.sides.values()]
    # At least something, so that the first few moments do not fill it all.
    most_s = max([_FULL_BAR_S, *(f.stopped_s for side in sides for f in side.values())])
    table.add_row(Text("stopped s (rebalances)", style="bold"), *_heads(summary))
    for act in STORY:
        cells: list[Text] = []
        for side, colour in zip(sides, _COLOURS, strict=True):
            if act.name in side:
                figures = side[act.name]
                length = round(figures.stopped_s / most_s * bar_width)
                cells.append(Text(f"{figures.stopped_s:.1f} ({figures.rebalances})"))
                cells.append(Text(marks.bar * length, style=colour))
        table.add_row(Text(act.name, style="" if cells else "dim"), *cells)
    return table


def totals(summary: Summary, marks: Marks) -> RenderableType:
    """The chapters, and below them what all of them come to."""
    table = chart(summary, marks)
    sides = summary.sides.values()
    table.add_row()
    lines = {
        "partition-seconds": (f"{side.total.stopped_s:.1f}" for side in sides),
        "longest stop, s": (f"{side.total.longest_stop_s:.1f}" for side in sides),
        "times work ended": (str(side.total.endings) for side in sides),
        "rebalances": (str(side.total.rebalances) for side in sides),
    }
    for name, values in lines.items():
        cells = [cell for value in values for cell in (Text(value, style="bold"), Text())]
        table.add_row(Text(name, style="bold"), *cells)
    return Group(table, Text(), Text(summary.sentence()))


def _table(summary: Summary, marks: Marks) -> tuple[Table, int]:
    """An empty table, and how wide its bars may be."""
    width = min(marks.width, _WIDTH_MAX)
    bar_width = (width - _NAME_WIDTH) // len(summary.sides) - _NUMBER_WIDTH - 3
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=_NAME_WIDTH, no_wrap=True)
    for _ in summary.sides:
        table.add_column(width=_NUMBER_WIDTH, justify="right", no_wrap=True)
        table.add_column(width=bar_width, no_wrap=True)
    return table, bar_width


def _heads(summary: Summary) -> Iterable[Text]:
    for name in summary.sides:
        yield Text()
        yield Text(name, style="bold")
